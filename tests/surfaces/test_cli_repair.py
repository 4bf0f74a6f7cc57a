"""The commands for damaged stores: doctor --repair, recover, and what list, export and copy say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stores.test_damage import flip
from tests.surfaces.test_cli import json_of, remember, run


@pytest.fixture
def damaged(tmp_path: Path) -> tuple[str, str, str]:
    """A store with two memories, of which the second cannot be read; its path and both ids."""
    path = tmp_path / "damaged.db"
    ids = [remember(text, "--store", str(path)) for text in ("The tall mast is oak.", "The Wide sail is torn.")]
    flip(path, b"The Wide sail", to=b"The \xffide sail")
    return (str(path), *ids)


def test_doctor_finds_a_damaged_text_and_repairs_the_store_on_request(damaged: tuple[str, str, str]):
    path, intact, broken = damaged
    options = ("--store", path, "--embedder", "none")

    found = json_of("doctor", *options, code=1)
    assert (found["healthy"], found["repaired"], broken in found["checks"]["store"][0]) == (False, None, True)
    assert broken in run("list", *options).output
    assert "is damaged" in run("get", broken, *options, code=7).output

    done = json_of("doctor", "--repair", *options, code=1)  # without an embedder it is not healthy
    assert (done["repaired"]["set_aside"], done["checks"]["store"]) == ([broken], [])
    assert (done["set_aside"][0]["id"], done["set_aside"][0]["text"]) == (broken, "The �ide sail is torn.")
    assert [one["id"] for one in json_of("list", *options)["memories"]] == [intact]
    assert f"set aside: {broken}" in run("doctor", *options, code=1).output


def test_an_export_and_a_copy_end_with_exit_code_1_and_name_what_they_left_out(
    damaged: tuple[str, str, str], tmp_path: Path
):
    path, _, broken = damaged

    exported = run("export", str(tmp_path / "all.jsonl"), "--store", path, code=1)
    copied = json_of("copy", path, str(tmp_path / "copy.db"), code=1)

    assert broken in exported.output
    assert (tmp_path / "all.jsonl").read_text().count('"memory"') == 1
    assert (copied["agrees"], copied["copied"]["memories"]) == (True, 1)
    assert [one["id"] for one in copied["copied"]["damaged"]] == [broken]


def test_a_file_that_cannot_be_opened_is_recovered_into_a_new_one(tmp_path: Path):
    path = tmp_path / "lost.db"
    id = remember("The Tall mast is oak.", "--store", str(path))
    path.write_bytes(bytes(100) + path.read_bytes()[100:])
    assert "retentive recover" in run("list", "--store", str(path), code=2).output

    done = json_of("recover", str(path))

    assert (done["memories"], done["lost"], done["store"]) == (1, [], str(tmp_path / "lost-recovered.db"))
    assert [one["id"] for one in json_of("list", "--store", done["store"])["memories"]] == [id]
    run("recover", str(path), code=4)
    run("recover", str(tmp_path / "none.db"), code=3)
