"""Public benchmarks read from their original files: LoCoMo, LongMemEval, BEAM, REALTALK, MemDaily, RealMem, Coding
and Temporal Memory.

A benchmark is recognised by its contents. None of their files comes with this package; the user gives a path.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from retentive.errors import Invalid
from retentive.evaluation.benchmarks import (
    beam,
    coding,
    locomo,
    longmemeval,
    memdaily,
    realmem,
    realtalk,
    temporal_memory,
)
from retentive.evaluation.benchmarks.base import Benchmark, Contents

__all__ = ["NAMES", "Benchmark", "read_benchmark"]


class _Reader(Protocol):
    NAME: str

    def recognises(self, value: Any) -> bool:
        """Whether this JSON value is one of the benchmark."""
        ...

    def read(self, files: Sequence[Contents]) -> Benchmark:
        """Return the memories, queries and judgements of some files."""
        ...


_READERS: tuple[_Reader, ...] = (locomo, longmemeval, realtalk, memdaily, realmem)
NAMES = (*(reader.NAME for reader in _READERS), beam.NAME, coding.NAME, temporal_memory.NAME)
"""The benchmarks that can be read."""


def read_benchmark(path: Path) -> Benchmark | None:
    """Read a benchmark from one of its files, or from a folder of them; None if it is none of them."""
    try:
        if beam.is_folder(path):
            return beam.read(path)
        if coding.is_folder(path):
            return coding.read(path)
        if temporal_memory.is_folder(path):
            return temporal_memory.read(path)
        files = [path] if path.is_file() else sorted(path.glob("*.json"))
        contents = [Contents(file.stem, _load(file)) for file in files if file.suffix == ".json"]
        for reader in _READERS:
            known = [one for one in contents if reader.recognises(one.value)]
            if known:
                return reader.read(known)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        what = f"there is no {error}" if isinstance(error, KeyError) else str(error)
        raise Invalid(f"{path} has not the form of the benchmark: {what}") from None
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror or error}") from None
    return None


def _load(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))
