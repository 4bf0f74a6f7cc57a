"""Rerankers: cross-encoders that read a query and a memory together and score how relevant the memory is.

They are much slower than the retrievers, so they score only the best hits. Pairs are distributed over threads, one for
each core.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from concurrent.futures import TimeoutError as TookTooLong
from dataclasses import replace
from functools import cached_property
from itertools import chain
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from retentive.errors import Unavailable
from retentive.extras import pip_install
from retentive.models import Memory
from retentive.ranking import Tuning, rerank
from retentive.ranking.lists import Ranking

if TYPE_CHECKING:
    from retentive.inference.loading import Loaded

RERANKER = "memory-reranker"
RERANKER_SHA256 = "0da4dc06cd2998010234a71ca31f4904545609ecfe788e81f1e964b3e3d3e33a"

_THREADS = os.cpu_count() or 1

_MAX_TOKENS = 512
"""The longest pair that the model can read. The query is cut to half of it, the text to the rest."""

_MAX_CHARACTERS = 16 * _MAX_TOKENS
"""512 tokens of words never have more. Longer texts are cut before they are tokenised, to save time."""


class Reranker(Protocol):
    """Scores how relevant texts are to a query.

    `score` returns one logit for each text, in order: larger is better, and only differences between the texts of one
    query count. The score of a text does not depend on the others in the call. It raises `Unavailable` if the model
    cannot be loaded, or if it has not finished by the `deadline`, a time by `time.monotonic`.
    """

    @property
    def name(self) -> str:
        """The name of the model."""
        ...

    def score(self, query: str, texts: Sequence[str], *, deadline: float) -> list[float]:
        """Return the relevance of each text to the query."""
        ...

    def close(self) -> None:
        """Release threads and memory."""
        ...


class Reranked(NamedTuple):
    """A ranking whose best hits were reranked; or the ranking unchanged, and the reason."""

    ranking: Ranking
    missing: str | None = None


def rerank_best(
    ranking: Ranking,
    query: str,
    tuning: Tuning,
    reranker: Reranker | None,
    threads: Executor,
    *,
    text_of: Callable[[Memory], str],
) -> Reranked:
    """Rerank the best hits, if the tuning asks for it and it is done in time; `text_of` returns the text to read."""
    best = ranking.hits[: tuning.rerank]
    if not best:
        return Reranked(ranking)
    if reranker is None:
        return Reranked(ranking, "no reranker is configured")
    texts = [text_of(hit.memory) for hit in best]
    # The model stops at the deadline by itself. It runs on a thread because loading it may take longer.
    deadline = monotonic() + tuning.rerank_seconds
    scoring = threads.submit(reranker.score, query, texts, deadline=deadline)
    try:
        scores = scoring.result(timeout=tuning.rerank_seconds)
    except TookTooLong:
        scoring.cancel()
        return Reranked(ranking, f"the reranker did not answer within {tuning.rerank_seconds:g} seconds")
    except Unavailable as error:
        return Reranked(ranking, str(error))
    relevance = {hit.id: score for hit, score in zip(best, scores, strict=True)}
    return Reranked(replace(ranking, hits=tuple(rerank(ranking.hits, relevance, weight=tuning.rerank_weight))))


class OnnxReranker:
    """The cross-encoder that comes with this package, loaded at first use."""

    name = RERANKER

    def __init__(self) -> None:
        self._loading = threading.Lock()
        self._loaded: Loaded | None = None

    def score(self, query: str, texts: Sequence[str], *, deadline: float) -> list[float]:
        """Return the logit of each text."""
        model = self._load()
        tokens = _tokens(model, query, _MAX_TOKENS // 2)

        def relevance(some: Sequence[int]) -> list[float]:
            if monotonic() >= deadline:
                raise Unavailable(f"{len(texts)} texts were not reranked in time")
            return _run(model, tokens, [texts[at] for at in some])

        # Longest first, so that no thread is still busy with long texts at the end.
        order = sorted(range(len(texts)), key=lambda at: -len(texts[at]))
        size = max(1, min(model.model.texts_at_once, len(texts) // _THREADS))
        parts = [order[first : first + size] for first in range(0, len(order), size)]
        found = chain.from_iterable(self._pool.map(relevance, parts))
        scores = dict(zip(order, found, strict=True))
        return [scores[at] for at in range(len(texts))]

    def close(self) -> None:
        if "_pool" in self.__dict__:
            self._pool.shutdown(wait=False, cancel_futures=True)
        self._loaded = None

    def _load(self) -> Loaded:
        with self._loading:
            if self._loaded is None:
                self._loaded = _load_checked()
            return self._loaded

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(_THREADS, thread_name_prefix="rerank")


def _load_checked() -> Loaded:
    """Load the model. `Unavailable` if its file is missing or another one."""
    from retentive.inference.loading import MODELS, fingerprint, load

    directory = MODELS / RERANKER
    reinstall = f"install Retentive again: {pip_install(options='--force-reinstall')}"
    if not (directory / "model.onnx").is_file():
        raise Unavailable(f"the reranker's model is missing in {directory}; {reinstall}")
    if fingerprint(directory / "model.onnx") != RERANKER_SHA256:
        raise Unavailable(f"{directory} holds another model than expected; {reinstall}")
    try:
        return load(directory)
    except Exception as error:
        raise Unavailable(f"{directory} cannot be loaded ({error}); {reinstall}") from error


def _tokens(model: Loaded, text: str, limit: int) -> Any:
    encoding = model.tokenizer.encode(text[:_MAX_CHARACTERS], add_special_tokens=False)
    encoding.truncate(limit)
    return encoding


def _run(model: Loaded, query: Any, texts: Sequence[str]) -> list[float]:
    limit = _MAX_TOKENS - len(query.ids) - model.tokenizer.num_special_tokens_to_add(True)
    pairs = [model.tokenizer.post_process(query, _tokens(model, text, limit)) for text in texts]
    return [float(logits[0]) for logits in model.model.run(pairs)]
