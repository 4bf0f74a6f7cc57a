"""Models that expect a prefix before queries and another before documents."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from retentive.inference.embedders import CachedEmbedder, Embedder, Matrix, open_embedder
from retentive.inference.embedders.disk_cache import DiskCachedEmbedder
from retentive.inference.embedders.prefixes import PrefixedEmbedder, expected_prefixes, prefix_advice
from retentive.models import Model
from retentive.settings import EmbedderSettings

LIMIT = 20


class Recording(Embedder):
    """An embedder that reads twenty characters and records what it was given."""

    def __init__(self, name: str = "recording") -> None:
        self.model = Model(name=name, revision="", dimension=2, fingerprint="r0")
        self.seen: list[str] = []

    def embed(self, texts: Sequence[str]) -> Matrix:
        self.seen += texts
        angles = np.array([float(sum(text.encode())) for text in texts])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)

    def split(self, text: str) -> list[str]:
        return [text[at : at + LIMIT] for at in range(0, len(text), LIMIT)]


def test_a_query_and_a_memory_get_their_own_prefix_once_each(tmp_path: Path) -> None:
    inner = Recording()
    prefixed = PrefixedEmbedder(inner, query="q: ", document="d: ")
    cached = CachedEmbedder(DiskCachedEmbedder(prefixed, tmp_path / "cache.db"))

    rows = [
        cached.embed_queries(["tea"]),
        cached.embed(["tea"]),
        cached.embed_queries(["tea"]),
        cached.embed(["tea"]),
    ]
    cached.close()

    assert inner.seen == ["q: tea", "d: tea"]
    assert np.array_equal(rows[0], rows[2])
    assert np.array_equal(rows[1], rows[3])
    assert not np.array_equal(rows[0], rows[1])


def test_a_further_prefix_of_queries_keeps_that_of_the_wrapped_embedder() -> None:
    inner = Recording()
    e5 = PrefixedEmbedder(inner, query="query: ", document="passage: ")

    PrefixedEmbedder(e5, query="about: ").embed_queries(["tea"])

    assert inner.seen == ["query: about: tea"]


def test_both_caches_give_a_query_the_vector_of_a_memory_where_the_model_makes_no_difference(tmp_path: Path) -> None:
    inner = Recording()
    cached = CachedEmbedder(DiskCachedEmbedder(inner, tmp_path / "cache.db"))

    assert np.array_equal(cached.embed_queries(["tea"]), cached.embed(["tea"]))
    cached.close()

    assert inner.seen == ["tea"]
    assert np.array_equal(CachedEmbedder(inner).embed_queries(["tea"]), inner.embed(["tea"]))


def test_a_part_is_short_enough_with_its_prefix() -> None:
    prefixed = PrefixedEmbedder(Recording(), query="query: ", document="d: ")

    parts = prefixed.split("one two three four five six seven")

    assert "".join(parts).replace(" ", "") == "onetwothreefourfivesixseven"
    assert max(len(part) for part in parts) <= LIMIT - len("query: ")
    assert CachedEmbedder(prefixed).reads_whole("thirteen char")
    assert not CachedEmbedder(prefixed).reads_whole("fourteen chars")


def test_another_prefix_of_documents_makes_other_vectors_and_that_of_queries_does_not() -> None:
    def fingerprint(**prefixes: str) -> str:
        return PrefixedEmbedder(Recording(), **prefixes).model.fingerprint

    assert fingerprint(query="q: ") == "r0"
    assert len({"r0", fingerprint(document="d: "), fingerprint(document="p: ")}) == 3
    assert fingerprint(query="q: ", document="d: ") == fingerprint(document="d: ")


def test_prefixes_are_settings(tmp_path: Path) -> None:
    settings = EmbedderSettings(name="memory-small", query_prefix="query: ")

    embedder = open_embedder(settings)
    plain = open_embedder(EmbedderSettings(name="memory-small"))

    assert embedder is not None
    assert plain is not None
    assert embedder.model == plain.model
    assert np.allclose(embedder.embed_queries(["tea"]), plain.embed(["query: tea"]))
    embedder.close()
    plain.close()


@pytest.mark.parametrize(
    ("model", "query"),
    [
        ("nomic-embed-text:latest", "search_query: "),
        ("intfloat/multilingual-e5-large", "query: "),
        ("snowflake-arctic-embed2", "query: "),
        ("snowflake-arctic-embed:33m", "Represent this sentence for searching relevant passages: "),
        ("text-embedding-3-small", None),
    ],
)
def test_the_prefixes_of_known_models_are_found_by_their_names(model: str, query: str | None) -> None:
    found = expected_prefixes(model)

    assert (found and found.query) == query


def test_the_advice_names_the_settings_until_they_are_set() -> None:
    def advice(embedder: Embedder) -> str | None:
        return prefix_advice(CachedEmbedder(embedder))

    nomic = Recording("nomic-embed-text")
    assert advice(nomic) == (
        'nomic-embed-text finds more if it is told what is a query: set embedder.query_prefix = "search_query: " and '
        'embedder.document_prefix = "search_document: ", then run: retentive reembed'
    )
    assert "reembed" not in (advice(Recording("mxbai-embed-large")) or "reembed")
    assert advice(PrefixedEmbedder(nomic, query="search_query: ", document="search_document: ")) is None
    assert advice(Recording("text-embedding-3-small")) is None
