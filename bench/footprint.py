"""The memory of a new process that opens a store and runs queries, and the size of the store on disk.

`python -m bench.footprint ENGINE STORE QUERIES [SEARCH]` runs that process.
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

from bench.corpus import BenchQuery
from bench.measured import Peer


@dataclass(frozen=True, slots=True)
class Footprint:
    """Sizes in bytes. `rss` includes pages of mapped files; `own` does not.

    Pages of a mapped file count as shared here, even if no other process has mapped it: the system can drop them.
    """

    rss_scoped: int
    own_scoped: int
    rss: int
    own: int
    disk: int


def measure_footprint(
    engine: str, store: Path, queries: Sequence[BenchQuery], search: Sequence[object] = ()
) -> Footprint:
    """Measure an engine on a store that no other process has open."""
    file = store.parent / "queries.json"
    values = [{**asdict(query), "vector": query.vector.tolist()} for query in queries]
    file.write_text(json.dumps(values), encoding="utf-8")
    command = [sys.executable, "-m", "bench.footprint", engine, str(store), str(file), json.dumps(list(search))]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parent.parent)
    return Footprint(**json.loads(done.stdout), disk=_disk(store))


def _disk(store: Path) -> int:
    files = store.rglob("*") if store.is_dir() else store.parent.glob(f"{store.name}*")
    return sum(file.stat().st_size for file in files if file.is_file())


def _main(engine: str, store: Path, file: Path, search: Sequence[object]) -> None:
    """Run all queries in scope, then in the whole store, and print the memory of the process after each."""
    values = json.loads(file.read_text(encoding="utf-8"))
    queries = [BenchQuery(**{**one, "vector": np.asarray(one["vector"], np.float32)}) for one in values]
    peer = _open(engine, store, search)
    sizes: dict[str, int] = {}
    for end, scoped in (("_scoped", True), ("", False)):
        for query in queries:
            peer.search(query, scoped=scoped)
        memory = psutil.Process().memory_info()
        sizes |= {f"rss{end}": memory.rss, f"own{end}": memory.rss - memory.shared}
    print(json.dumps(sizes))


def _open(engine: str, store: Path, search: Sequence[object]) -> Peer:
    if engine == "lancedb":
        from bench.lancedb_peer import VectorSearch, open_peer

        return open_peer(store, VectorSearch(*search))  # type: ignore[arg-type] # from the command line
    from bench.retentive_peer import RetentivePeer
    from retentive.engine import Engine
    from retentive.stores import open_store

    opened = open_store(str(store))
    return RetentivePeer(Engine(opened), opened, {})


if __name__ == "__main__":
    _main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), json.loads(sys.argv[4]))
