"""A retriever for LlamaIndex that returns memories as nodes with scores."""

from __future__ import annotations

import asyncio
from typing import Unpack

from retentive.engine import Engine
from retentive.extras import needs_extra
from retentive.integrations.documents import HIT_FIELDS, check_options, hit_metadata, profile_view
from retentive.models import Hit
from retentive.pipeline.query_options import QueryOptions
from retentive.tenancy import ProfileView

with needs_extra("retentive.integrations.llama_index", "llama-index"):
    from llama_index.core.callbacks import CallbackManager
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

FOR_THE_MODEL = ("when", "speaker")
"""The fields of a hit that a model is shown; the others are for programs."""


class RetentiveRetriever(BaseRetriever):
    """Retrieves the memories of a profile, with the given options of `Engine.query`, except the profile."""

    def __init__(
        self,
        memory: Engine | ProfileView,
        *,
        callback_manager: CallbackManager | None = None,
        **options: Unpack[QueryOptions],
    ) -> None:
        self._view = profile_view(memory)
        self._options = check_options(options)
        super().__init__(callback_manager=callback_manager)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [_node(hit) for hit in self._view.recall(query_bundle.query_str, **self._options)]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


def _node(hit: Hit) -> NodeWithScore:
    hidden = [name for name in HIT_FIELDS if name not in FOR_THE_MODEL]
    node = TextNode(
        id_=hit.id,
        text=hit.memory.text,
        metadata=hit_metadata(hit),
        excluded_llm_metadata_keys=hidden,
        excluded_embed_metadata_keys=hidden,
    )
    return NodeWithScore(node=node, score=hit.score)
