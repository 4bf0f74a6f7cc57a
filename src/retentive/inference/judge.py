"""The judge: a cross-encoder that reads a query with a memory and says whether the memory answers it or helps.

It takes milliseconds for each memory, so it reads only the best hits, on several threads, best first.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, Protocol

from retentive.errors import Unavailable
from retentive.extras import pip_install

if TYPE_CHECKING:
    from retentive.inference.loading import Loaded

JUDGE = "memory-judge"
JUDGE_SHA256 = "4a63479e96d65ae8cf26e77ea64f90c504428acf9b7dc27744ac17588b706419"

QUERY_TOKENS = (96, 64)
"""Of a longer query, this many tokens at the beginning and at the end are read."""

MEMORY_TOKENS = 250
BEFORE_TOKENS = 44
SPEAKER_TOKENS = 12

INSIDE, OUTSIDE = "at that time", "at another time"
"""What stands before a memory if the query names a period."""

RULE_QUERY = "[rule]"
"""With this query, the judge says whether a memory states a standing rule or a preference."""

AT_ONCE = 2
"""How many memories a thread reads at once: at the deadline, those are waited for."""

_CHARACTERS = 16
"""A token of words never has more characters. Longer texts are cut before they are tokenised, to save time."""

_THREADS = os.cpu_count() or 1


class Reading(NamedTuple):
    """What the judge reads of a memory: its text, who said it, and the turn before it.

    `inside` is whether the memory is of the period that the query names; None if it names none.
    """

    text: str
    speaker: str = ""
    before: str = ""
    before_speaker: str = ""
    inside: bool | None = None


class Judge(Protocol):
    """Says whether memories answer a query or help a prompt.

    `score` returns a logit for each reading, in order: the larger, the more certainly it helps. It is None for those
    that were not read by the `deadline`, a time by `time.monotonic`; the first are read first. The logit of a reading
    does not depend on the others. `Unavailable` if the model cannot be loaded.
    """

    @property
    def name(self) -> str:
        """The name of the model."""
        ...

    def score(self, query: str, readings: Sequence[Reading], *, deadline: float) -> list[float | None]:
        """Return the logit of each reading."""
        ...


class LocalJudge:
    """The judge that comes with this package. The model is loaded at first use, once in a process."""

    name = JUDGE

    def score(self, query: str, readings: Sequence[Reading], *, deadline: float) -> list[float | None]:
        """Return the logit of each reading."""
        model = _model()
        head, tail = QUERY_TOKENS
        asked = _ids(model, [query[: 100 * _CHARACTERS], query[100 * _CHARACTERS :][-64 * _CHARACTERS :]])
        ids = asked[0] + asked[1]
        ids = ids if len(ids) <= head + tail else ids[:head] + ids[-tail:]
        first = [model.cls, *ids, model.sep]

        def read(some: Sequence[Reading]) -> list[float | None]:
            if monotonic() >= deadline:
                return [None] * len(some)
            pairs = [_Pair(first, rest) for rest in _tokens(model, some)]
            return [float(logits[0]) for logits in model.loaded.model.run(pairs)]

        parts = [readings[at : at + AT_ONCE] for at in range(0, len(readings), AT_ONCE)]
        return [logit for part in _pool().map(read, parts) for logit in part]


class _Model(NamedTuple):
    loaded: Loaded
    cls: int
    sep: int


class _Pair:
    """A query and a memory as tokens, in the form that a model takes."""

    def __init__(self, first: list[int], second: list[int]) -> None:
        self.ids = first + second
        self.type_ids = [0] * len(first) + [1] * len(second)
        self.attention_mask = [1] * len(self.ids)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="judge")


@cache
def _model() -> _Model:
    """Load the model. `Unavailable` if its file is missing or another one."""
    from retentive.inference.loading import MODELS, fingerprint, load

    directory = MODELS / JUDGE
    reinstall = f"install Retentive again: {pip_install(options='--force-reinstall')}"
    if not (directory / "model.onnx").is_file():
        raise Unavailable(f"the model of the judge is missing in {directory}; {reinstall}")
    if fingerprint(directory / "model.onnx") != JUDGE_SHA256:
        raise Unavailable(f"{directory} holds another model than expected; {reinstall}")
    try:
        loaded = load(directory)
    except Exception as error:
        raise Unavailable(f"{directory} cannot be loaded ({error}); {reinstall}") from error
    return _Model(loaded, loaded.tokenizer.token_to_id("[CLS]"), loaded.tokenizer.token_to_id("[SEP]"))


def _tokens(model: _Model, readings: Sequence[Reading]) -> list[list[int]]:
    """The tokens of what is read of each memory: [mark] speaker: text [SEP] speaker: the turn before [SEP]."""
    texts = [text for reading in readings for text in _parts(reading)]
    ids = iter(_ids(model, texts))
    found = []
    for reading in readings:
        mark, speaker, text, before_speaker, before = (next(ids) for _ in range(5))
        tokens = [*mark, *speaker[:SPEAKER_TOKENS], *text[:MEMORY_TOKENS], model.sep]
        if reading.before:
            tokens += [*before_speaker[:SPEAKER_TOKENS], *before[:BEFORE_TOKENS], model.sep]
        found.append(tokens)
    return found


def _parts(reading: Reading) -> tuple[str, ...]:
    mark = "" if reading.inside is None else INSIDE if reading.inside else OUTSIDE
    return (
        mark,
        _named(reading.speaker),
        _spoken(reading.speaker, reading.text)[: MEMORY_TOKENS * _CHARACTERS],
        _named(reading.before_speaker),
        _spoken(reading.before_speaker, reading.before)[: BEFORE_TOKENS * _CHARACTERS],
    )


def _named(speaker: str) -> str:
    return f"{speaker}:" if speaker else ""


def _spoken(speaker: str, text: str) -> str:
    """A text without the speaker's name before it, which some importers keep there."""
    return text.removeprefix(f"{speaker}:").lstrip() if speaker else text


def _ids(model: _Model, texts: Sequence[str]) -> list[list[int]]:
    encodings = model.loaded.tokenizer.encode_batch(list(texts), add_special_tokens=False)
    return [encoding.ids for encoding in encodings]
