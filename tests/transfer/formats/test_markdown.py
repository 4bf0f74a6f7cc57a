"""A folder of text files is read file by file, and nothing outside of it."""

from __future__ import annotations

import os
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path

import pytest

from retentive.pipeline.remember import Draft, to_memory
from retentive.transfer.formats.base import ImportItem, Skipped
from retentive.transfer.formats.markdown import MarkdownFolder, date_in_name, read_front_matter
from retentive.transfer.formats.text_files import MAX_BYTES, Unreadable, read_bytes
from tests.transfer.formats.samples import warnings

NOW = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "notes"
    made.mkdir()
    return made


def write(folder: Path, path: str, text: str | bytes = "Some words.") -> Path:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def items(folder: Path, **options) -> list[ImportItem]:
    return [found for found in MarkdownFolder(**options).read(folder) if isinstance(found, ImportItem)]


def skipped(folder: Path) -> dict[str, str]:
    return {found.where: found.reason for found in MarkdownFolder().read(folder) if isinstance(found, Skipped)}


def texts(folder: Path) -> list[str]:
    return [item.draft["text"] for item in items(folder)]


def test_every_passage_is_a_memory_that_knows_its_file_lines_and_headings(folder):
    write(folder, "house/kitchen.md", "# Kitchen\n\nInduction, no gas.\n\n## Fuses\n\nA new one, 32 A.\n")

    found = items(folder)

    assert [item.draft["source"] for item in found] == ["house/kitchen.md#L1-L3", "house/kitchen.md#L5-L7"]
    assert found[1].draft["metadata"] == {
        "file": "house/kitchen.md",
        "lines": [5, 7],
        "headings": ["Kitchen", "Fuses"],
    }
    assert found[1].where == "house/kitchen.md#L5-L7"
    memory = to_memory(Draft.from_dict(found[1].draft), now=NOW)
    assert (memory.kind, memory.text) == ("semantic", "Kitchen\n\n## Fuses\n\nA new one, 32 A.")


def test_files_come_in_the_order_of_their_paths_and_other_files_do_not_come(folder):
    for path in ("b.md", "a/z.MD", "a/deep/er/x.markdown", "c.txt", "picture.png", ".hidden.md", ".git/x.md", "d.md~"):
        write(folder, path)
    (folder / "empty.md").write_text("")
    (folder / "x.md").mkdir()
    write(folder, "x.md/inside.md")

    assert [item.draft["metadata"]["file"] for item in items(folder)] == [
        "b.md",
        "c.txt",
        "a/z.MD",
        "a/deep/er/x.markdown",
        "x.md/inside.md",
    ]
    assert skipped(folder) == {}


def test_a_single_note_can_be_read_too(folder):
    file = write(folder, "b.md")

    assert MarkdownFolder().recognises(file)
    assert [item.where for item in items(file)] == ["b.md#L1-L1"]


def test_a_folder_without_notes_is_not_recognised(folder):
    write(folder, "picture.png")

    assert not MarkdownFolder().recognises(folder)
    assert not MarkdownFolder().recognises(folder / "picture.png")


def test_keys_stay_when_lines_move_and_differ_for_repeated_text(folder):
    file = write(folder, "a.md", "# A\n\nwords\n\n# B\n\nsame\n\n# B\n\nsame\n")
    before = [item.key for item in items(folder)]
    file.write_text("\n\nfirst of all\n\n" + file.read_text())

    after = [item.key for item in items(folder)]

    assert len(set(before)) == 3
    assert after[1:] == before


def test_the_front_matter_gives_title_day_and_tags_and_is_not_text(folder):
    head = '---\ntitle: "The house"\ndate: 2026-05-08\ntags: [home, "#money"]\nnested:\n  deep: 1\n---\n'
    write(folder, "a.md", head + "Built 1932.\n")

    [item] = items(folder)

    assert item.draft["text"] == "The house\n\nBuilt 1932."
    assert item.draft["occurred"] == datetime(2026, 5, 8, tzinfo=UTC)
    assert item.draft["source"] == "a.md#L8-L8"
    assert (item.draft["metadata"]["title"], item.draft["metadata"]["tags"]) == ("The house", ["home", "money"])


@pytest.mark.parametrize(
    "head",
    [
        "---\nno field at all\n---\n",
        "---\ntitle: without an end\n",
        "----\ntitle: x\n----\n",
        "text\n---\ntitle: x\n---\n",
    ],
)
def test_what_only_looks_like_front_matter_is_text(head):
    assert read_front_matter(head.split("\n")).lines == 0


def test_tags_may_be_listed_line_by_line_and_times_may_have_a_zone():
    front = read_front_matter(["---", "tags:", "  - home", "- money", "created: 2026-05-08 10:00:00 +0200", "..."])

    assert front.tags == ("home", "money")
    assert front.date is not None
    assert front.date.isoformat() == "2026-05-08T10:00:00+02:00"


@pytest.mark.parametrize(
    ("name", "day"),
    [("2026-05-08 kitchen", 8), ("20260508", 8), ("standup_2026_05_09", 9), ("2026-13-40", None), ("202605081", None)],
)  # fmt: skip
def test_a_day_in_the_name_of_a_file_is_when_it_happened(name, day):
    found = date_in_name(name)

    assert (found and found.day) == day


def test_a_note_without_a_day_has_none_whenever_its_file_was_written(folder):
    os.utime(write(folder, "a.md"), (1, 1))

    assert "occurred" not in items(folder)[0].draft


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_an_encoding_with_a_byte_order_mark_is_read(folder, encoding):
    write(folder, "a.md", "Über Fuß – 日本\r\nzweite Zeile\r".encode(encoding))

    assert texts(folder) == ["Über Fuß – 日本\nzweite Zeile"]
    assert skipped(folder) == {}


def test_text_that_is_not_utf_8_is_read_as_windows_1252_with_a_warning(folder):
    write(folder, "a.md", "first line\nFuß – x".encode("cp1252"))

    assert texts(folder) == ["first line\nFuß – x"]
    assert "line 2 is not UTF-8" in warnings(MarkdownFolder().read(folder))[0]


@pytest.mark.parametrize(
    "data", [b"\x89PNG\0\0\xff", b"text\0text", "x".encode("utf-16") + b"\x00", b"\xff\xfe\x00\xd8"]
)
def test_binary_files_are_skipped_and_reported(folder, data):
    write(folder, "a.md", data)
    write(folder, "b.md")

    assert texts(folder) == ["Some words."]
    assert list(skipped(folder)) == ["a.md"]


def test_a_file_that_is_too_large_is_skipped_without_reading_all_of_it(folder):
    with write(folder, "huge.md").open("wb") as file:
        file.truncate(3_000_000_000)
    tracemalloc.start()

    reasons = skipped(folder)

    assert "more than 8 MB" in reasons["huge.md"]
    assert tracemalloc.get_traced_memory()[1] < 3 * MAX_BYTES
    tracemalloc.stop()


def test_links_are_never_followed_wherever_they_lead(folder, tmp_path):
    secret = write(tmp_path, "outside/secret.md", "the secret")
    write(folder, "a.md")
    (folder / "link.md").symlink_to(secret)
    (folder / "inside.md").symlink_to(folder / "a.md")
    (folder / "out").symlink_to(secret.parent)
    (folder / "loop").symlink_to(folder)
    (folder / "etc.txt").symlink_to("/etc/passwd")
    (folder / "up").symlink_to("..")

    assert texts(folder) == ["Some words."]
    assert set(skipped(folder)) == {"link.md", "inside.md", "out", "loop", "etc.txt", "up"}


def test_a_link_that_was_named_itself_is_read(folder, tmp_path):
    (folder / "a.md").write_text("Meant.\n")
    (tmp_path / "link.md").symlink_to(folder / "a.md")

    assert [entry.draft["source"] for entry in MarkdownFolder().read(tmp_path / "link.md")] == ["a.md#L1-L1"]


def test_a_folder_that_becomes_a_link_before_it_is_read_is_not_followed(folder, tmp_path):
    write(tmp_path, "outside/secret.md", "the secret")
    write(folder, "sub/secret.md", "ours")
    (folder / "sub").rename(folder / "was")
    (folder / "sub").symlink_to(tmp_path / "outside")

    with pytest.raises(Unreadable, match="outside of the folder"):
        read_bytes(folder, "sub/secret.md")
    with pytest.raises(Unreadable, match="outside of the folder"):
        read_bytes(folder, "../outside/secret.md")


def test_pipes_and_folders_in_the_place_of_files_are_not_waited_for(folder):
    os.mkfifo(folder / "pipe.md")
    (folder / "folder.md").mkdir()

    assert skipped(folder) == {"pipe.md": "it is not a regular file"}
    with pytest.raises(Unreadable):
        read_bytes(folder, "folder.md")
    with pytest.raises(Unreadable):
        read_bytes(folder, "nothing.md")


def test_invalid_names_and_paths_that_are_too_long_are_reported(folder):
    write(folder, "a.md")
    Path(os.fsdecode(bytes(folder) + b"/bad\xff.md")).write_text("words")
    write(folder, "/".join(["deep" * 20] * 6) + "/x.md")

    reasons = skipped(folder)

    assert len(texts(folder)) == 1
    assert sorted(reason.partition(";")[0] for reason in reasons.values()) == [
        "its name is not valid text and cannot be stored",
        "its path has more than 450 characters",
    ]


def test_folders_nested_too_deeply_are_reported_and_the_rest_is_read(folder, monkeypatch):
    monkeypatch.chdir(folder)
    deep = Path("d" * 200)
    for _ in range(25):
        deep.mkdir()
        os.chdir(deep)
    write(folder, "z.md")

    found, reasons = texts(folder), skipped(folder)

    for _ in range(25):  # what tidies up after tests cannot go so deep
        os.chdir("..")
        deep.rmdir()
    assert found == ["Some words."]
    assert list(reasons.values()) == ["file name too long"]


def test_a_file_of_headings_alone_has_an_end_and_a_million_empty_lines_are_counted(folder):
    write(folder, "a.md", "# x\n" * 100_000)
    write(folder, "b.md", "\n" * 1_000_000 + "the end")

    found = items(folder)

    assert found[-1].draft["source"] == "b.md#L1000001-L1000001"
    assert len(found) == 20_001
    assert "more than 20,000 passages" in skipped(folder)["a.md"]


def test_memory_does_not_grow_with_the_number_of_files(folder):
    def peak() -> int:
        tracemalloc.start()
        for _ in MarkdownFolder().read(folder):
            pass
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    write(folder, "0.md", "Some words, and more of them.\n\n" * 1_000)
    one = peak()
    for number in range(1, 12):
        write(folder, f"{number}.md", "Some words, and more of them.\n\n" * 1_000)

    assert peak() < 1.2 * one
