"""A retriever for LangChain that returns memories as documents."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from pydantic import ConfigDict, Field

from retentive.engine import Engine
from retentive.extras import needs_extra
from retentive.integrations.documents import check_options, hit_metadata, profile_view
from retentive.models import Kind
from retentive.pipeline.query_options import QueryOptions
from retentive.tenancy import ProfileView

with needs_extra("retentive.integrations.langchain", "langchain"):
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever


class RetentiveRetriever(BaseRetriever):
    """Retrieves the memories of a profile. `invoke` takes the options of `Engine.query`, except the profile."""

    # LangChain would ignore an unknown name: a misspelt `project` would search the whole profile.
    model_config = ConfigDict(extra="forbid")

    memory: Engine | ProfileView = Field(exclude=True, repr=False)
    k: int = 10
    project: str | None = None
    session: str | list[str] | None = None
    only_session: bool = False
    kinds: Sequence[Kind] | None = None
    tuning: Mapping[str, Any] | str | None = None

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun | None = None,
        k: int | None = None,
        **options: Unpack[QueryOptions],
    ) -> list[Document]:
        combined = QueryOptions(
            limit=self.k if k is None else k,
            project=self.project,
            session=self.session,
            only_session=self.only_session,
            kinds=self.kinds,
            tuning=self.tuning,
        )
        combined.update(check_options(options))
        found = profile_view(self.memory).recall(query, **combined)
        return [Document(id=hit.id, page_content=hit.memory.text, metadata=hit_metadata(hit)) for hit in found]

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun | None = None,
        k: int | None = None,
        **options: Unpack[QueryOptions],
    ) -> list[Document]:
        return await asyncio.to_thread(self._get_relevant_documents, query, k=k, **options)
