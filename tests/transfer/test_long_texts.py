"""A store of many very long memories is listed, exported and copied within a bound on memory."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

from retentive.stores import open_store
from tests.stores.build import record

MEMORIES = 80
LIMIT = 280_000_000
"""All texts as one JSON value, decoded, are already more than this with what the program needs for itself."""

# RLIMIT_DATA counts what a process allocates, and not the file that SQLite maps into memory.
PROGRAM = """
import resource, sys
from retentive.engine import Engine
from retentive.stores import open_store
from retentive.transfer.copying import CopyOptions, copy_store

path, limit, task = sys.argv[1], int(sys.argv[2]), sys.argv[3]
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
with Engine.open(path, embedder="none") as engine:
    if task in ("list", "all"):
        done, cursor = 0, None
        while True:
            page = engine.list(cursor=cursor, limit=1000)
            done, cursor = done + len(page.memories), page.next_cursor
            if cursor is None:
                break
        print(done)
    if task in ("export", "all"):
        print(engine.export_to(path + ".jsonl").memories)
    if task in ("markdown", "all"):
        print(engine.export_to(path + ".pages", format="markdown").memories)
    if task in ("copy", "all"):
        target = open_store(path + ".copy")
        print(copy_store(engine.store, target, name="source", options=CopyOptions()).memories)
        target.close()
"""


def test_very_long_memories_are_listed_exported_and_copied_within_a_bound_on_memory(tmp_path: Path):
    path = tmp_path / "memories.db"
    with closing(open_store(str(path))) as store:
        for start in range(0, MEMORIES, 10):
            some = [record(n, f"number{n} {'.' * 1_000_000}", session="s") for n in range(start, start + 10)]
            store.add(some, model=None)

    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path), str(LIMIT), "all"], capture_output=True, text=True, check=False
    )

    assert (run.returncode, run.stdout.split()) == (0, 4 * [str(MEMORIES)]), run.stderr[-2000:]
