"""The prepared data on the device, and the forms in which the models read it."""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

import numpy as np
import torch
from torch import Tensor

from training.bert import Pieces
from training.prepare import load
from training.weights import Weights, read_weights

TURN_WITH_CONTEXT = 190
CONTEXT = 60
"""The most tokens of a turn that is read with its context, and of the context."""


class Texts:
    """Texts in the pool: where each starts, how long it is, and (for turns) what is read before it."""

    def __init__(
        self, rows: np.ndarray, device: str, before: np.ndarray | None = None, context: np.ndarray | None = None
    ):
        self.start = torch.from_numpy(rows[:, 0].astype(np.int64)).to(device)
        self.length = torch.from_numpy(rows[:, 1].astype(np.int64)).to(device)
        no_context = np.full(len(rows), -1, np.int32)
        self.before = torch.from_numpy((no_context if before is None else before).astype(np.int64)).to(device)
        sizes = np.zeros(len(rows), np.int32) if context is None else context
        self.context = torch.from_numpy(sizes.astype(np.int64)).to(device).clamp(max=CONTEXT)

    def __len__(self) -> int:
        return len(self.start)

    def alone(self, chosen: Tensor) -> Pieces:
        """[CLS] text [SEP]."""
        one = torch.ones_like(chosen)
        return Pieces([one * 0, self.start[chosen], one], [one, self.length[chosen], one])

    def with_context(self, chosen: Tensor) -> Pieces:
        """[CLS] text [SEP] context [SEP]; without a context the same as alone."""
        one = torch.ones_like(chosen)
        start, length, has = self._context(chosen)
        text = self._cut(chosen, has)
        return Pieces([one * 0, self.start[chosen], one, start, one], [one, text, one, length, has.long()])

    def pairs(self, queries: Texts, asked: Tensor, chosen: Tensor, *, context: bool) -> Pieces:
        """[CLS] query [SEP] text [SEP], or [CLS] query [SEP] context text [SEP]."""
        one = torch.ones_like(chosen)
        start, length, has = self._context(chosen)
        text = self._cut(chosen, has) if context else self.length[chosen]
        starts = [one * 0, queries.start[asked], one, start, self.start[chosen], one]
        return Pieces(starts, [one, queries.length[asked], one, length * int(context), text, one], second=3)

    def _cut(self, chosen: Tensor, has: Tensor) -> Tensor:
        length = self.length[chosen]
        return torch.where(has, length.clamp(max=TURN_WITH_CONTEXT), length)

    def _context(self, chosen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        before = self.before[chosen]
        has = before >= 0
        before = before.clamp(min=0)
        return self.start[before], self.context[before] * has, has


class DevelopmentSet:
    """Memories, queries and judgements that are only measured on."""

    def __init__(self, arrays: dict[str, np.ndarray], name: str, device: str) -> None:
        part = {key.rsplit("/", 1)[1]: value for key, value in arrays.items() if key.startswith(f"dev/{name}/")}
        self.texts = Texts(part["texts"], device, part["before"], part["context"])
        self.queries = Texts(part["queries"], device)
        inside = part["query_project"][:, None] == part["project"][None, :]
        self.inside = torch.from_numpy(inside).to(device)
        self.relevant = torch.zeros(inside.shape, dtype=torch.bool)
        self.relevant[part["gold"][:, 0], part["gold"][:, 1]] = True
        self.relevant = self.relevant.to(device)


class Data:
    """All of the prepared data."""

    def __init__(self, path: Path, device: str) -> None:
        arrays = load(path)
        self.device = device
        self.pool = torch.from_numpy(arrays["tokens"].astype(np.int32)).to(device)
        self.turns = Texts(arrays["turns"], device, arrays["turns_before"], arrays["turns_context"])
        self.queries = Texts(arrays["queries"], device)
        self.passages = Texts(arrays["passages"], device)
        self.passage_queries = Texts(arrays["passage_queries"], device)
        self.texts = Texts(arrays["texts"], device)
        self.arrays = arrays
        names = sorted({key.split("/")[1] for key in arrays if key.startswith("dev/")})
        self.development = {name: DevelopmentSet(arrays, name, device) for name in names}


@contextmanager
def unpack(path: Path) -> Iterator[Path]:
    """A file that may be packed with xz, as a file that is not."""
    if path.suffix != ".xz":
        yield path
        return
    with NamedTemporaryFile(suffix=path.stem) as file:
        file.write(lzma.decompress(path.read_bytes()))
        file.flush()
        yield Path(file.name)


def open_weights(path: Path) -> Weights:
    """The weights of a model file, which may be packed with xz."""
    with unpack(path) as file:
        return read_weights(file)
