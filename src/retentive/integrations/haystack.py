"""A retriever for Haystack: a component that gives memories as documents, and can be written down with its pipeline."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from retentive.engine import Engine
from retentive.errors import Invalid, MissingExtra
from retentive.integrations.documents import confined, facts
from retentive.models import Kind, Recall
from retentive.settings import public_address
from retentive.tenancy import ProfileView

try:
    from haystack import Document, component, default_from_dict, default_to_dict
except ImportError as error:
    raise MissingExtra("retentive.integrations.haystack", "haystack") from error


@component
class RetentiveRetriever:
    """Retrieves what a profile remembers.

    Give it an engine, or one that is `Confined`; you close it. A component that was read back from a pipeline's file
    has none: it opens the store that was written down, or the one in the settings, when it warms up, and `close` closes
    it.
    """

    def __init__(
        self,
        memory: Engine | ProfileView | None = None,
        *,
        top_k: int = 10,
        project: str | None = None,
        session: str | None = None,
        only_session: bool = False,
        kinds: Sequence[Kind] | None = None,
        tuning: Mapping[str, Any] | str | None = None,
        opening: Mapping[str, str | None] | None = None,
    ) -> None:
        self._memory = confined(memory) if memory else None
        self._opening = dict(opening or {})
        self._opened: Engine | None = None
        self._opens = threading.Lock()
        self.top_k = top_k
        self.project = project
        self.session = session
        self.only_session = only_session
        self.kinds = list(kinds) if kinds is not None else None
        self.tuning = tuning if tuning is None or isinstance(tuning, str) else dict(tuning)

    def warm_up(self) -> None:
        """Open the store, if no engine was given."""
        with self._opens:  # runs may begin at the same time, and one store is enough
            if self._memory is None:
                where = self._opening
                engine = Engine.open(where.get("store"), embedder=where.get("embedder"), profile=where.get("profile"))
                self._opened = engine
                self._memory = ProfileView(engine, engine.settings.profile, project=where.get("project"))

    def close(self) -> None:
        """Let go of the store, if it was opened here."""
        with self._opens:
            if self._opened is not None:
                self._opened.close()
                self._opened = self._memory = None

    @component.output_types(documents=list[Document], degraded=str | None)
    def run(
        self, query: str, top_k: int | None = None, project: str | None = None, session: str | None = None
    ) -> dict[str, Any]:
        """The memories that answer a query, best first, and what was missing from the recall, if anything.

        What is given here takes the place of what the component was made with, for this run.
        """
        self.warm_up()
        assert self._memory is not None
        found = self._memory.recall(
            query,
            limit=self.top_k if top_k is None else top_k,
            project=project or self.project,
            session=session or self.session,
            only_session=self.only_session,
            kinds=self.kinds,
            tuning=self.tuning,
        )
        return {"documents": _documents(found), "degraded": found.degraded_reason}

    @component.output_types(documents=list[Document], degraded=str | None)
    async def run_async(
        self, query: str, top_k: int | None = None, project: str | None = None, session: str | None = None
    ) -> dict[str, Any]:
        """As `run`, on a worker thread."""
        return await asyncio.to_thread(self.run, query, top_k, project, session)

    def to_dict(self) -> dict[str, Any]:
        """The component as plain values: where its store is and how it asks, and no secret."""
        return default_to_dict(
            self,
            top_k=self.top_k,
            project=self.project,
            session=self.session,
            only_session=self.only_session,
            kinds=self.kinds,
            tuning=self.tuning,
            opening=self._opening if self._memory is None else _opening(self._memory),
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> RetentiveRetriever:
        """The component that was written down; it opens its store when it warms up."""
        made: RetentiveRetriever = default_from_dict(cls, data)
        return made


def _documents(found: Recall) -> list[Document]:
    return [Document(id=hit.id, content=hit.memory.text, meta=facts(hit), score=hit.score) for hit in found.hits]


def _opening(memory: ProfileView) -> dict[str, str | None]:
    """How the same memories are opened again; `Invalid` if that cannot be written down."""
    settings = memory.engine.settings
    if not settings.store or settings.store.startswith("memory:"):
        raise Invalid("only a component on a store that was opened by its address can be written down")
    for address in (settings.store, settings.embedder.name):
        if public_address(address) != address:
            raise Invalid(
                "the address holds a password or a key, which is not written into a pipeline; set RETENTIVE_STORE or "
                "RETENTIVE_EMBEDDER where the pipeline runs, and make the component without an engine"
            )
    return {
        "store": settings.store,
        "embedder": settings.embedder.name,
        "profile": memory.profile,
        "project": memory.project,
    }
