"""Vectors for any number of memories, mixed from real embeddings, and the exact nearest neighbours."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.corpus import BenchQuery, Corpus, Matrix, Writer, session_of
from bench.progress import Progress
from retentive.inference.embedders import Embedder

ANCHORS = 2_000
NOISE = 0.01
NEAR = 0.7
DESCRIPTION = (
    f"Vectors: {ANCHORS:,} of the texts are embedded by the default model; a memory's vector is w·a + (1 − w)·b + "
    f"{NOISE}·noise of two of these, w from 0.5 to 1, normalised. A query's vector is {NEAR}·its target's + "
    f"{1 - NEAR:.1f}·the query's own real embedding, normalised."
)
CACHE = Path(__file__).parent / "results" / "embeddings"
RECALL_DEPTH = 30
_CHUNK = 50_000


def make_corpus(size: int, *, queries: int, seed: int, embedder: Embedder, progress: Progress) -> Corpus:
    """Generate memories and queries. Real embeddings are cached on disk."""
    writer = Writer(seed)
    anchors = _embedded(writer.texts(ANCHORS)[0], embedder, progress)
    texts, words = writer.texts(size)
    random = np.random.default_rng([seed, 2])
    vectors = _mixtures(anchors, size, random)
    targets = writer.targets(size, queries)
    query_texts = [writer.query(words[target]) for target in targets]
    own = _embedded(query_texts, embedder, progress)
    near = _unit(NEAR * vectors[targets] + (1 - NEAR) * own)
    built = [
        BenchQuery(text, target, session_of(target), vector)
        for text, target, vector in zip(query_texts, targets, near, strict=True)
    ]
    return Corpus(texts, [session_of(row) for row in range(size)], vectors, built)


def _embedded(texts: Sequence[str], embedder: Embedder, progress: Progress) -> Matrix:
    """Return real embeddings, from the cache if this model has embedded these texts before."""
    name = hashlib.blake2b("\n".join([embedder.model.fingerprint, *texts]).encode(), digest_size=12).hexdigest()
    file = CACHE / f"{name}.npy"
    if file.is_file():
        return np.asarray(np.load(file), np.float32)
    with progress.task(f"embed {len(texts):,} texts, cached for later runs", total=len(texts)) as advance:
        parts = []
        for at in range(0, len(texts), 50):
            parts.append(embedder.embed(texts[at : at + 50]))
            advance(len(parts[-1]))
    rows = np.concatenate(parts)
    CACHE.mkdir(parents=True, exist_ok=True)
    np.save(file, rows)
    return rows


def _mixtures(anchors: Matrix, count: int, random: np.random.Generator) -> Matrix:
    rows = np.empty((count, anchors.shape[1]), np.float32)
    for at in range(0, count, _CHUNK):
        part = rows[at : at + _CHUNK]
        one, other = random.integers(0, len(anchors), (2, len(part)))
        weight = random.uniform(0.5, 1, (len(part), 1)).astype(np.float32)
        noise = random.standard_normal(part.shape, np.float32)
        part[:] = _unit(weight * anchors[one] + (1 - weight) * anchors[other] + NOISE * noise)
    return rows


def _unit(rows: Matrix) -> Matrix:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


class Truth:
    """Exact cosines of the vectors, rounded to float16 as in the store."""

    def __init__(self, corpus: Corpus) -> None:
        self._vectors = corpus.vectors.astype(np.float16).astype(np.float32)
        sessions = np.array(corpus.sessions)
        within = {name: np.flatnonzero(sessions == name) for name in {query.session for query in corpus.queries}}
        self._last: dict[tuple[int, bool], float] = {}
        for query in corpus.queries:
            scores = self._vectors @ query.vector
            self._last[id(query), False] = _score_at(scores, RECALL_DEPTH)
            self._last[id(query), True] = _score_at(scores[within[query.session]], RECALL_DEPTH)

    def recall(self, query: BenchQuery, found: Sequence[int], *, scoped: bool) -> float:
        """Return the share of the true nearest that were found; a tie with the last of them counts as found."""
        rows = np.unique(np.asarray(found, np.intp))
        scores = self._vectors[rows] @ query.vector
        return min(1.0, float((scores >= self._last[id(query), scoped] - 1e-6).sum()) / RECALL_DEPTH)


def _score_at(scores: Matrix, depth: int) -> float:
    return float(np.partition(scores, -depth)[-depth])
