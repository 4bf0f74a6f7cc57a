"""`retentive copy`, also interrupted."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from time import sleep

import pytest

from retentive.cli.copying import display_address
from retentive.models import Scope
from retentive.stores import open_store
from retentive.transfer.copying.copier import UNFINISHED
from tests.stores import postgres_server
from tests.stores.build import MODEL
from tests.surfaces.test_cli import json_of, run
from tests.transfer.copying.build import fill, records

MANY = 5_000


def filled(path: Path, count: int = 40) -> Path:
    store = open_store(str(path))
    fill(store, count)
    store.close()
    return path


def contents(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_store_is_copied_and_the_figures_are_shown(tmp_path):
    source, target = filled(tmp_path / "a.db"), tmp_path / "b.db"
    before = contents(source)

    text = run("copy", str(source), str(target)).stdout

    assert "40 memories, 8 judgements, 2 settings copied" in text
    assert "1 token not copied" in text
    assert "the two stores agree" in text
    assert contents(source) == before
    assert run("doctor", "--store", str(target), "--embedder", "none", code=1).stdout.startswith("✓ store")


def test_json_has_every_figure_and_verify_alone_copies_nothing(tmp_path):
    source, target = filled(tmp_path / "a.db"), tmp_path / "b.db"

    first = json_of("copy", str(source), str(target))
    second = json_of("copy", str(source), str(target), "--verify")

    assert (first["copied"]["memories"], first["agrees"]) == (40, True)
    assert (second["copied"], second["agrees"]) == (None, True)
    assert [check["name"] for check in second["checks"]] == [
        "memories", "profiles", "kinds", "sessions", "contents", "use", "model", "vectors", "judgements", "settings",
    ]  # fmt: skip
    assert all(check.keys() == {"name", "source", "target", "agrees", "note"} for check in second["checks"])


def test_a_store_that_does_not_exist_is_named_with_its_argument(tmp_path):
    source = filled(tmp_path / "a.db")
    missing = str(tmp_path / "missing.db")

    assert f"FROM: there is no store at {missing}" in run("copy", missing, str(source), code=3).stderr
    assert f"TO: there is no store at {missing}" in run("copy", "--verify", str(source), missing, code=3).stderr
    assert not Path(missing).exists()


def test_stores_that_differ_end_with_1_and_conflicts_with_4(tmp_path):
    source, target = filled(tmp_path / "a.db"), tmp_path / "b.db"
    run("copy", str(source), str(target))
    changed = open_store(str(target))
    id = changed.list(Scope(), limit=1).memories[0].id
    changed.close()
    run("update", id, "--text", "something else", "--store", str(target), "--embedder", "none")

    assert "✗ contents" in run("copy", "--verify", str(source), str(target), code=1).stdout
    assert f"conflict: {id}" in run("copy", "--into", str(source), str(target), code=4).stdout
    assert json_of("copy", "--into", str(source), str(target), code=4)["copied"]["conflicts"] == [id]


def test_a_copy_that_is_not_possible_is_refused_and_creates_nothing(tmp_path):
    source, target = filled(tmp_path / "a.db"), tmp_path / "b.db"

    assert "no store" in run("copy", str(tmp_path / "none.db"), str(target), code=3).stderr
    assert not (tmp_path / "none.db").exists()
    assert "no store" in run("copy", "--verify", str(source), str(target), code=3).stderr
    assert not target.exists()
    assert "same store" in run("copy", str(source), str(tmp_path / "." / "a.db"), code=2).stderr
    run("copy", str(source), str(target))
    assert "not empty" in run("copy", str(source), str(target), code=4).stderr


def test_a_store_goes_to_postgresql_and_back_and_is_the_same(tmp_path):
    source, last, there = filled(tmp_path / "a.db"), tmp_path / "b.db", postgres_server.address()

    first = json_of("copy", str(source), there)
    second = json_of("copy", there, str(last))
    ends = json_of("copy", "--verify", str(source), str(last))

    assert (first["agrees"], second["agrees"], ends["agrees"]) == (True, True, True)


def test_a_store_without_vectors_is_embedded_afterwards(tmp_path):
    source, target = filled(tmp_path / "a.db"), tmp_path / "b.db"

    run("copy", "--without-vectors", str(source), str(target))
    run("reembed", "--store", str(target))

    assert json_of("status", "--store", str(target))["unembedded"] == 0
    assert json_of("status", "--store", str(target))["model"]["name"].startswith("memory-small")


def test_an_address_is_shown_without_its_secrets():
    assert display_address("postgresql://ada:secret@db.example/retentive?schema=one") == (
        "postgresql://ada:***@db.example/retentive?schema=one"
    )


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_killed_copy_continues_without_loss_or_duplicates(tmp_path, kind):
    source = tmp_path / "a.db"
    target = postgres_server.address() if kind == "postgres" else str(tmp_path / "b.db")
    store = open_store(str(source))
    made = records(MANY, vectors=False)
    store.add(made[:100], model=None)
    store.add(records(100, start=MANY), model=MODEL)
    store.add(made[100:], model=None)
    store.close()
    watching = open_store(target)
    child = subprocess.Popen(
        [sys.executable, "-m", "retentive", "copy", str(source), target],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ},
    )  # fmt: skip
    try:
        while watching.stats().memories < 1000 and child.poll() is None:
            sleep(0.002)
        os.kill(child.pid, signal.SIGKILL)
    finally:
        _, errors = child.communicate(timeout=90)
    assert child.returncode == -signal.SIGKILL, errors
    there = watching.stats().memories
    assert 1000 <= there < MANY
    assert watching.check() == []

    done = json_of("copy", str(source), target)

    assert done["agrees"]
    assert (done["copied"]["memories"], done["copied"]["existing"]) == (MANY + 100 - there, there)
    assert watching.stats().memories == MANY + 100
    assert watching.get_value(UNFINISHED) is None
    assert watching.check() == []
    watching.close()
