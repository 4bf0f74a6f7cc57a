"""Models that were trained with a prefix before queries and another before the texts that are searched."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from retentive.inference.embedders import Embedder, EmbedderWrapper, Matrix
from retentive.models import Model
from retentive.text.splitting import split_text


class Prefixes(NamedTuple):
    """What stands before a query and before a document."""

    query: str
    document: str


E5 = Prefixes("query: ", "passage: ")
SENTENCE = Prefixes("Represent this sentence for searching relevant passages: ", "")

KNOWN: dict[str, Prefixes] = {
    "nomic-embed-text": Prefixes("search_query: ", "search_document: "),
    "multilingual-e5": E5,
    "e5-": E5,
    "mxbai-embed-large": SENTENCE,
    "snowflake-arctic-embed2": Prefixes("query: ", ""),
    "snowflake-arctic-embed": SENTENCE,
    "bge-small-en": SENTENCE,
    "bge-base-en": SENTENCE,
    "bge-large-en": SENTENCE,
    "embeddinggemma": Prefixes("task: search result | query: ", "title: none | text: "),
}
"""What the model cards of some models ask for, by the beginning of the model's name."""


def expected_prefixes(model: str) -> Prefixes | None:
    """Return the prefixes that a model is known to expect, by its name as a service or a folder has it."""
    name = model.rpartition("/")[2].lower()
    return next((prefixes for beginning, prefixes in KNOWN.items() if name.startswith(beginning)), None)


def prefix_advice(embedder: Embedder) -> str | None:
    """Return what to set if the model is known to expect prefixes and the embedder reads queries like memories."""
    expected = expected_prefixes(embedder.model.name)
    if expected is None or embedder.separates_queries:
        return None
    wanted = {"embedder.query_prefix": expected.query, "embedder.document_prefix": expected.document}
    settings = " and ".join(f'{name} = "{text}"' for name, text in wanted.items() if text)
    then = ", then run: retentive reembed" if expected.document else ""
    return f"{embedder.model.name} finds more if it is told what is a query: set {settings}{then}"


class PrefixedEmbedder(EmbedderWrapper):
    """Puts a prefix before each text that the wrapped embedder is given: one before queries, one before documents."""

    def __init__(self, inner: Embedder, *, query: str = "", document: str = "") -> None:
        super().__init__(inner)
        self._query, self._document = query, document
        self.query_prefix = inner.query_prefix + query

    @property
    def separates_queries(self) -> bool:
        return True

    @cached_property
    def model(self) -> Model:
        """The model. With another prefix of documents its vectors are other ones; that of queries changes none."""
        model = self.inner.model
        if not self._document:
            return model
        digest = hashlib.sha256(f"{model.fingerprint}\0{self._document}".encode()).hexdigest()
        return Model(model.name, model.revision, model.dimension, digest)

    def embed(self, texts: Sequence[str]) -> Matrix:
        return self.inner.embed([self._document + text for text in texts])

    def embed_queries(self, texts: Sequence[str]) -> Matrix:
        return self.inner.embed_queries([self._query + text for text in texts])

    def split(self, text: str) -> list[str]:
        """Return the text in parts that the model can read whole, each with its prefix."""
        return [text] if self.reads_whole(text) else split_text(text, self.reads_whole)

    def reads_whole(self, text: str) -> bool:
        """Whether the model can read the text with either prefix at once."""
        return self.inner.reads_whole(max(self._document, self._query, key=len) + text)
