"""A retriever for Haystack: a component that returns memories as documents and can be serialised with its pipeline."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from retentive.engine import Engine
from retentive.errors import Invalid
from retentive.extras import needs_extra
from retentive.integrations.documents import hit_metadata, profile_view
from retentive.models import Kind, Recall
from retentive.settings import public_address
from retentive.tenancy import ProfileView

with needs_extra("retentive.integrations.haystack", "haystack"):
    from haystack import Document, component, default_from_dict, default_to_dict


@component
class RetentiveRetriever:
    """Retrieves the memories of a profile.

    It takes an engine or a `ProfileView`, which the caller closes. A component that is loaded from a pipeline's file
    has neither: it opens the store named in the file, or the one in the settings, when it warms up, and `close` closes
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
        self._view = profile_view(memory) if memory else None
        self._opening = dict(opening or {})
        self._opened: Engine | None = None
        self._lock = threading.Lock()
        self.top_k = top_k
        self.project = project
        self.session = session
        self.only_session = only_session
        self.kinds = list(kinds) if kinds is not None else None
        self.tuning = tuning if tuning is None or isinstance(tuning, str) else dict(tuning)

    def warm_up(self) -> None:
        """Open the store if no engine was given."""
        with self._lock:  # runs may start at the same time
            if self._view is None:
                given = self._opening
                engine = Engine.open(given.get("store"), embedder=given.get("embedder"), profile=given.get("profile"))
                self._opened = engine
                self._view = ProfileView(engine, engine.settings.profile, project=given.get("project"))

    def close(self) -> None:
        """Close the store if it was opened here."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
                self._opened = self._view = None

    @component.output_types(documents=list[Document], degraded=str | None)
    def run(
        self, query: str, top_k: int | None = None, project: str | None = None, session: str | None = None
    ) -> dict[str, Any]:
        """Return the memories that answer a query, best first, and the reason if the recall was degraded.

        Arguments replace those of the constructor for this run.
        """
        self.warm_up()
        assert self._view is not None
        found = self._view.recall(
            query,
            limit=self.top_k if top_k is None else top_k,
            project=self.project if project is None else project,
            session=self.session if session is None else session,
            only_session=self.only_session,
            kinds=self.kinds,
            tuning=self.tuning,
        )
        return {"documents": _documents(found), "degraded": found.degraded_reason}

    @component.output_types(documents=list[Document], degraded=str | None)
    async def run_async(
        self, query: str, top_k: int | None = None, project: str | None = None, session: str | None = None
    ) -> dict[str, Any]:
        """Run on a worker thread."""
        return await asyncio.to_thread(self.run, query, top_k, project, session)

    def to_dict(self) -> dict[str, Any]:
        """Serialise the component: the address of its store and its options, without secrets."""
        return default_to_dict(
            self,
            top_k=self.top_k,
            project=self.project,
            session=self.session,
            only_session=self.only_session,
            kinds=self.kinds,
            tuning=self.tuning,
            opening=self._opening if self._view is None else _opening(self._view),
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> RetentiveRetriever:
        """Load a serialised component. It opens its store when it warms up."""
        made: RetentiveRetriever = default_from_dict(cls, data)
        return made


def _documents(found: Recall) -> list[Document]:
    return [Document(id=hit.id, content=hit.memory.text, meta=hit_metadata(hit), score=hit.score) for hit in found]


def _opening(view: ProfileView) -> dict[str, str | None]:
    """Return the arguments that open the same memories; `Invalid` if they cannot be serialised."""
    settings = view.engine.settings
    if not settings.store or settings.store.startswith("memory:"):
        raise Invalid("only a component whose store was opened by its address can be serialised")
    for address in (settings.store, settings.embedder.name):
        if public_address(address) != address:
            raise Invalid(
                "the address contains a password or a key, which is not serialised; set RETENTIVE_STORE or "
                "RETENTIVE_EMBEDDER where the pipeline runs, and create the component without an engine"
            )
    return {
        "store": settings.store,
        "embedder": settings.embedder.name,
        "profile": view.profile,
        "project": view.project,
    }
