"""A peer's process as the runner sees it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.peers.protocol import PeerMemory, PeerQuery, Setup, to_plain

ROOT = Path(__file__).parents[2]

_NO_REPORTS = {
    "ANONYMIZED_TELEMETRY": "False",
    "DO_NOT_TRACK": "1",
    "HAYSTACK_TELEMETRY_ENABLED": "False",
    "HF_HUB_OFFLINE": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LANCEDB_LOG": "error",
    "MEM0_TELEMETRY": "False",
    "TOKENIZERS_PARALLELISM": "false",
}
"""Settings with which peers neither report their use nor load models."""

_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TMPDIR")


class PeerError(Exception):
    """A peer failed; the text is its own."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What a peer says of itself."""

    versions: dict[str, str]
    configuration: str


@dataclass(frozen=True, slots=True)
class Found:
    """The ids found for each query of a round, best first, and the milliseconds and CPU milliseconds of each query."""

    ids: list[list[str]]
    milliseconds: list[float]
    cpu_milliseconds: list[float]


@dataclass(frozen=True, slots=True)
class Size:
    """Sizes in bytes."""

    rss: int
    disk: int


class PeerProcess:
    """Runs an adapter's module in an interpreter. Its standard error goes to a log file."""

    def __init__(self, python: Path, module: str, log: Path, *, home: Path | None = None) -> None:
        self._log = log
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | _NO_REPORTS
        paths = [str(ROOT)] if home else [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment |= {"PYTHONPATH": os.pathsep.join(paths), "HOME": str(home or Path.home())}
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [str(python), "-m", "bench.peers.serve", module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                cwd=log.parent,
                text=True,
                encoding="utf-8",
            )

    def open(self, setup: Setup) -> Opened:
        """Open the peer."""
        answer = self._ask("open", **asdict(setup))
        return Opened(answer["versions"], answer["configuration"])

    def add(self, memories: Sequence[PeerMemory]) -> float:
        """Add memories and return the seconds."""
        seconds: float = self._ask("add", memories=[to_plain(memory) for memory in memories])["seconds"]
        return seconds

    def finish(self) -> float:
        """Build what is built once, and return the seconds."""
        seconds: float = self._ask("finish")["seconds"]
        return seconds

    def search(self, queries: Sequence[PeerQuery]) -> Found:
        """Search for some queries."""
        answer = self._ask("search", queries=[to_plain(query) for query in queries])
        return Found(answer["found"], answer["milliseconds"], answer["cpu_milliseconds"])

    def size(self) -> Size:
        """Return the sizes of the process and of its folder."""
        answer = self._ask("size")
        return Size(answer["rss"], answer["disk"])

    def close(self) -> None:
        """End the peer and its process."""
        with suppress(PeerError):
            self._ask("close")
        with suppress(OSError):
            self._process.communicate(timeout=60)

    def __enter__(self) -> PeerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.close()
        finally:
            self._process.kill()
            self._process.wait()

    def _ask(self, request: str, **fields: Any) -> dict[str, Any]:
        pipes = self._process.stdin, self._process.stdout
        if pipes[0] is None or pipes[1] is None:
            raise PeerError("the process has no pipes")
        line = ""
        with suppress(BrokenPipeError):
            pipes[0].write(json.dumps({"do": request, **fields}) + "\n")
            pipes[0].flush()
        line = pipes[1].readline()
        if not line:
            raise PeerError(f"the process ended at '{request}': {self._last_words()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise PeerError(str(answer["error"]))
        return answer

    def _last_words(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else "it printed no reason"
