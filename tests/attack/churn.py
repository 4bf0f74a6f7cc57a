"""Size and speed of a store after many writes and forgets: `python -m tests.attack.churn --writes 100000 --left 500`.

Memories are added and forgotten in batches until only some are left, scattered over all that were written. The store
is compared with a new one that has the same memories, before and after it is compacted.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

from retentive.models import Model, Scope
from retentive.stores.sqlite import SqliteStore
from retentive.stores.values import Record
from tests.stores.build import id_of, make_query, record, search, unit
from tests.stores.sqlite_file import opened

DIMENSION = 384
MODEL = Model("churn", "1", DIMENSION, "fingerprint of churn")
BATCH = 500


def memory(number: int) -> Record:
    dice = np.random.default_rng(number)
    words = " ".join(f"w{one}" for one in dice.integers(0, 5000, 12))
    return record(number, f"note{number} {words}", vectors=unit(dice.standard_normal(DIMENSION))[None, :])


def measure(path: str, label: str) -> tuple[int, float]:
    """Print and return the size of the file and the milliseconds of a first search."""
    store = SqliteStore(path)
    started = perf_counter()
    search(store, make_query("note w1 w2", Scope()), keyword=100, semantic=100, vector=unit(np.ones(DIMENSION)))
    took = (perf_counter() - started) * 1000
    store.close()
    size = Path(path).stat().st_size
    print(f"{label:<10} {size / 1e6:8.1f} MB   first search {took:6.1f} ms")
    return size, took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--writes", type=int, default=100_000)
    parser.add_argument("--left", type=int, default=500)
    given = parser.parse_args()
    every = given.writes // given.left
    with tempfile.TemporaryDirectory() as folder:
        path, fresh = str(Path(folder, "churned.db")), str(Path(folder, "fresh.db"))
        with opened(path) as store:
            for start in range(0, given.writes, BATCH):
                numbers = range(start, start + BATCH)
                store.add([memory(number) for number in numbers], model=MODEL)
                store.remove([id_of(number) for number in numbers if number % every])
        with opened(fresh) as store:
            store.add([memory(number) for number in range(0, given.writes, every)], model=MODEL)
        expected, _ = measure(fresh, "fresh")
        measure(path, "churned")
        with opened(path) as store:
            done = store.compact()
            problems = store.check()
        print(f"compact gained {(done.bytes_before - done.bytes_after) / 1e6:.1f} MB")
        size, _ = measure(path, "compacted")
    good = size <= 2 * expected and not problems
    verdict = f"{'PASS' if good else 'FAIL'} churn: {size / expected:.1f} times the size of a new store"
    print(f"{verdict}, {len(problems)} problems")
    sys.exit(int(not good))


if __name__ == "__main__":
    main()
