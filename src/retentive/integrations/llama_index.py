"""A retriever for LlamaIndex: memories as nodes with scores."""

from __future__ import annotations

import asyncio
from typing import Unpack

from retentive.engine import Engine, QueryOptions
from retentive.errors import MissingExtra
from retentive.integrations.documents import FACTS, check_asked, confined, facts
from retentive.models import Hit
from retentive.tenancy import ProfileView

try:
    from llama_index.core.callbacks import CallbackManager
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
except ImportError as error:
    raise MissingExtra("retentive.integrations.llama_index", "llama-index") from error

FOR_THE_MODEL = ("when", "speaker")
"""The facts that help a model to read a memory; the others are for programs, and would only fill the prompt."""


class RetentiveRetriever(BaseRetriever):
    """Retrieves what a profile remembers; whatever a recall takes beside its query is given once, here."""

    def __init__(
        self,
        memory: Engine | ProfileView,
        *,
        callback_manager: CallbackManager | None = None,
        **asked: Unpack[QueryOptions],
    ) -> None:
        self._memory = confined(memory)
        self._asked = check_asked(asked)
        super().__init__(callback_manager=callback_manager)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [_node(hit) for hit in self._memory.recall(query_bundle.query_str, **self._asked).hits]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


def _node(hit: Hit) -> NodeWithScore:
    unsaid = [name for name in FACTS if name not in FOR_THE_MODEL]
    node = TextNode(
        id_=hit.id,
        text=hit.memory.text,
        metadata=facts(hit),
        excluded_llm_metadata_keys=unsaid,
        excluded_embed_metadata_keys=unsaid,
    )
    return NodeWithScore(node=node, score=hit.score)
