"""Memory of a fresh process that opens a store and answers queries, and the store's size on disk.

Run as `python -m bench.footprint ENGINE STORE QUERIES [SEARCH]`, it is that process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import psutil

from bench.corpus import Query
from bench.peers import Peer


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes. `rss` counts pages of mapped files, which belong to the system; `own` does not."""

    rss_scoped: int
    own_scoped: int
    rss: int
    own: int
    disk: int


def measure_footprint(engine: str, store: Path, queries: Sequence[Query], search: Sequence[object] = ()) -> Footprint:
    """The footprint of an engine on a store that nobody else has open."""
    queries = store.parent / "queries.json"
    plain = [{**asdict(query), "vector": query.vector.tolist()} for query in queries]
    queries.write_text(json.dumps(plain), encoding="utf-8")
    command = [sys.executable, "-m", "bench.footprint", engine, str(store), str(queries), json.dumps(list(search))]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parent.parent)
    return Footprint(**json.loads(done.stdout), disk=_disk(store))


def _disk(store: Path) -> int:
    files = store.rglob("*") if store.is_dir() else store.parent.glob(f"{store.name}*")
    return sum(file.stat().st_size for file in files if file.is_file())


def _main(engine: str, store: Path, queries: Path, search: Sequence[object]) -> None:
    """Ask in scope, then in all memories, and print what the process holds after each."""
    plain = json.loads(queries.read_text(encoding="utf-8"))
    queries = [Query(**{**one, "vector": np.asarray(one["vector"], np.float32)}) for one in plain]
    peer = _open(engine, store, search)
    held = {}
    for end, scoped in (("_scoped", True), ("", False)):
        for query in queries:
            peer.ask(query, scoped=scoped)
        memory = psutil.Process().memory_full_info()
        held |= {f"rss{end}": memory.rss, f"own{end}": memory.uss}
    print(json.dumps(held))


def _open(engine: str, store: Path, search: Sequence[object]) -> Peer:
    if engine == "lancedb":
        from bench.lancedb_peer import Search, open_peer

        return open_peer(store, Search(*search))  # type: ignore[arg-type]
    from bench.retentive_peer import RetentivePeer
    from retentive.engine import Engine
    from retentive.stores import open_store

    opened = open_store(str(store))
    return RetentivePeer(Engine(opened), opened, {})


if __name__ == "__main__":
    _main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), json.loads(sys.argv[4]))
