"""Untrusted files: encodings, endless lines, archives."""

from __future__ import annotations

import random
import zipfile

import pytest

from retentive.errors import Invalid
from retentive.transfer.formats import streams
from retentive.transfer.formats.streams import (
    Utf8Reader,
    find_members,
    open_archive,
    open_file,
    open_member,
    read_lines,
)
from tests.transfer.formats.samples import as_file, write_zip

SAID = "Grüße aus Łódź, 東京 und 🚲\n" * 3


def whole(data: bytes) -> tuple[str, bool]:
    source = Utf8Reader(as_file(data))
    read = b"".join(iter(lambda: source.read(7), b""))
    return read.decode(), source.replaced


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_text_is_read_whatever_its_encoding(encoding):
    data = ("{" + SAID).encode(encoding)

    assert whole(data) == ("{" + SAID, False)


def test_text_is_read_the_same_however_it_is_cut_into_chunks(monkeypatch):
    for size in range(4, 12):  # a mark is read at once
        monkeypatch.setattr(streams, "CHUNK_BYTES", size)
        assert whole(SAID.encode("utf-16")) == (SAID, False)
        assert [line.text for line in read_lines(as_file(SAID.encode()))] == SAID.splitlines()


def test_bytes_that_are_no_text_are_replaced_and_that_is_known():
    text, replaced = whole("{café".encode("latin-1") + b" au lait, " + "Łódź".encode())

    assert (text, replaced) == ("{caf\ufffd au lait, Łódź", True)
    assert whole(b"{ends in the middle of \xe2\x82") == ("{ends in the middle of \ufffd", True)


def test_only_lines_with_bytes_that_are_no_text_are_marked():
    found = list(read_lines(as_file(b"{good\n{b\xffd\n{good \xef\xbf\xbd\n")))

    assert [line.text for line in found] == ["{good", "{b\ufffdd", "{good \ufffd"]
    assert found[1].replaced
    assert not found[0].replaced


def test_blank_lines_count_and_are_left_out_and_only_a_line_feed_ends_a_line():
    found = list(read_lines(as_file("one\n\n \r\ntwo\u2028\u0085still two\r\nthree".encode())))

    assert [(line.number, line.text, line.ended) for line in found] == [
        (1, "one", True), (4, "two\u2028\u0085still two\r", True), (5, "three", False),
    ]  # fmt: skip


@pytest.mark.parametrize("end", [b"\n", b""])
def test_a_line_that_is_too_long_is_skipped_and_the_rest_is_read(end):
    found = list(read_lines(as_file(b"a\n" + b"x" * 500_000 + b"\nb\n" + b"y" * 500_000 + end), max_bytes=1000))

    assert [(line.number, line.text) for line in found] == [(1, "a"), (2, None), (3, "b"), (4, None)]


def test_a_file_that_is_none_is_named(tmp_path):
    for path, says in ((tmp_path, "not a file"), (tmp_path / "nothing", "there is no")):
        with pytest.raises(Invalid, match=says), open_file(path):
            pass


def test_an_archive_that_grows_too_much_is_refused_with_its_limit(tmp_path):
    path = write_zip(tmp_path / "bomb.zip", {"conversations.json": b"[" + b" " * 40_000_000 + b"]"})

    with open_archive(path) as archive, pytest.raises(Invalid, match=r"looks like a zip bomb; the limit is 200\."):
        open_member(archive, find_members(archive, "conversations")[0])


def test_what_unpacks_to_little_may_grow_by_any_factor(tmp_path):
    path = write_zip(tmp_path / "small.zip", {"a.json": b" " * 5_000_000})

    with open_archive(path) as archive, open_member(archive, find_members(archive, "a")[0]) as file:
        assert sum(len(chunk) for chunk in iter(lambda: file.read(1 << 16), b"")) == 5_000_000


def test_an_archive_larger_than_any_export_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "MAX_UNPACKED_BYTES", 1000)
    path = write_zip(tmp_path / "large.zip", {"a.json": bytes(random.Random(1).randbytes(2000))})

    with (
        open_archive(path) as archive,
        pytest.raises(Invalid, match="unpacks to 2,000 bytes or more; the limit is 1,000"),
    ):
        open_member(archive, find_members(archive, "a")[0])


def test_an_archive_of_too_many_files_is_refused_before_they_are_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "MAX_INDEX_BYTES", 1000)
    path = write_zip(tmp_path / "many.zip", {f"{at}.json": b"" for at in range(50)})

    with (
        pytest.raises(Invalid, match=r"the index of .* has [\d,]+ bytes; the limit is 1,000"),
        open_archive(path),
    ):
        pass


@pytest.mark.parametrize("packed", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_archive_is_read_up_to_the_damage(tmp_path, packed):
    content = bytes(random.Random(2).choices(b"abcdefgh", k=4_000_000))
    path = write_zip(tmp_path / "a.zip", {"a.json": content}, packed)
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 200] = b"\xff" * 200
    path.write_bytes(data)

    with open_archive(path) as archive, open_member(archive, find_members(archive, "a")[0]) as file:
        read = b"".join(iter(lambda: file.read(1 << 16), b""))

    assert 10_000 < len(read) < len(content)
    assert content.startswith(read[:10_000])


@pytest.mark.parametrize("data", [b"PK\x03\x04 and nothing else", b"PK\x03\x04" + b"\0" * 100, b""])
def test_what_only_begins_like_an_archive_is_named(tmp_path, data):
    path = tmp_path / "a.zip"
    path.write_bytes(data)

    with pytest.raises(Invalid, match="not a readable zip file"), open_archive(path):
        pass


def test_an_archive_packed_in_an_unknown_way_is_named(tmp_path):
    path = write_zip(tmp_path / "a.zip", {"a.json": b"[]"})
    data = path.read_bytes()
    path.write_bytes(data.replace(b"\x08\x00", b"\x63\x00"))

    with open_archive(path) as archive, pytest.raises(Invalid, match="cannot be unpacked"):
        open_member(archive, find_members(archive, "a")[0])


def test_an_archive_unpacks_to_no_more_than_the_size_it_claims(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.json", b"[" + b"1," * 1_000_000 + b"1]")
    claimed = path.read_bytes().replace((2_000_003).to_bytes(4, "little"), (100).to_bytes(4, "little"))
    path.write_bytes(claimed)

    with open_archive(path) as archive, open_member(archive, find_members(archive, "a")[0]) as file:
        assert len(file.read()) <= 100
