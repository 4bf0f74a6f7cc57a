"""`AsyncEngine`: the same verbs for asyncio, each on a worker thread."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack

from retentive.engine import Engine
from retentive.models import Memory, Query, Recall, Scope
from retentive.pipeline.explain import Explanation
from retentive.pipeline.query_options import QueryOptions
from retentive.pipeline.remember import Draft, DraftFields, MemoryChanges
from retentive.pipeline.timeline import Timeline
from retentive.stores.damage import Repair
from retentive.stores.values import Backup, Compaction, Judgement, Page, Profile, Project, Session, Stats

if TYPE_CHECKING:
    from retentive.pipeline.similar import Similar
    from retentive.stores.values import OnDuplicate
    from retentive.transfer.exporting import ExportResult
    from retentive.transfer.importing.importer import ImportResult

P = ParamSpec("P")
T = TypeVar("T")


class AsyncEngine:
    """An engine with awaitable verbs: `async with AsyncEngine.open("memories.db") as engine`.

    The groups `tuning`, `tokens`, `judgements`, `given`, `imports` and `embeddings` are on `engine`; `run` awaits any
    function on a worker thread: `await engine.run(engine.engine.tuning.save, {"keyword_weight": 2})`.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @staticmethod
    def open(store: str | os.PathLike[str] | None = None, **options: Any) -> Opening:
        """Open an engine as `Engine.open` does. Use the result in `async with`, or await it."""
        return Opening(lambda: Engine.open(store, **options))

    async def __aenter__(self) -> AsyncEngine:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def run(self, work: Callable[P, T], /, *arguments: P.args, **options: P.kwargs) -> T:
        """Run a function on a worker thread."""
        return await asyncio.to_thread(work, *arguments, **options)

    async def close(self) -> None:
        await asyncio.to_thread(self.engine.close)

    async def remember(self, text: str, *, on_duplicate: OnDuplicate = "keep", **fields: Unpack[DraftFields]) -> Memory:
        return await asyncio.to_thread(self.engine.remember, text, on_duplicate=on_duplicate, **fields)

    async def remember_many(
        self,
        drafts: Iterable[Draft | Mapping[str, Any]],
        *,
        on_duplicate: OnDuplicate = "keep",
        idempotency_key: str | None = None,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Sequence[Memory]:
        return await asyncio.to_thread(
            self.engine.remember_many,
            drafts,
            on_duplicate=on_duplicate,
            idempotency_key=idempotency_key,
            progress=progress,
        )

    async def update(
        self,
        id: str,
        *,
        if_version: str | None = None,
        within: Scope | None = None,
        idempotency_key: str | None = None,
        **changes: Unpack[MemoryChanges],
    ) -> Memory:
        return await asyncio.to_thread(
            self.engine.update, id, if_version=if_version, within=within, idempotency_key=idempotency_key, **changes
        )

    async def forget(
        self,
        *ids: str,
        if_version: str | None = None,
        within: Scope | None = None,
        idempotency_key: str | None = None,
    ) -> Sequence[str]:
        return await asyncio.to_thread(
            self.engine.forget, *ids, if_version=if_version, within=within, idempotency_key=idempotency_key
        )

    async def forget_scope(self, scope: Scope, **options: Any) -> int:
        return await asyncio.to_thread(self.engine.forget_scope, scope, **options)

    async def query(self, text: str, **options: Unpack[QueryOptions]) -> Query:
        return await asyncio.to_thread(self.engine.query, text, **options)

    def on_recall(self, callback: Callable[[Recall], None]) -> Callable[[], None]:
        return self.engine.on_recall(callback)

    async def recall(self, query: str | Query, *, record_use: bool = True, **options: Unpack[QueryOptions]) -> Recall:
        return await asyncio.to_thread(self.engine.recall, query, record_use=record_use, **options)

    async def explain(
        self, query: str | Query, id: str, *, within: Scope | None = None, **options: Unpack[QueryOptions]
    ) -> Explanation:
        return await asyncio.to_thread(self.engine.explain, query, id, within=within, **options)

    async def judge(self, query: str, **judgements: Any) -> Sequence[Judgement]:
        return await asyncio.to_thread(self.engine.judge, query, **judgements)

    def scope(self, **parts: Any) -> Scope:
        return self.engine.scope(**parts)

    async def get(self, id: str, *, within: Scope | None = None) -> Memory:
        return await asyncio.to_thread(self.engine.get, id, within=within)

    async def get_many(self, ids: Sequence[str], *, within: Scope | None = None) -> Sequence[Memory]:
        return await asyncio.to_thread(self.engine.get_many, ids, within=within)

    async def list(
        self, scope: Scope | None = None, *, cursor: str | None = None, limit: int = 50, **validity: Any
    ) -> Page:
        return await asyncio.to_thread(self.engine.list, scope, cursor=cursor, limit=limit, **validity)

    async def supersede(self, old_id: str, new_id: str, **options: Any) -> Memory:
        return await asyncio.to_thread(self.engine.supersede, old_id, new_id, **options)

    async def retract(self, id: str, **options: Any) -> Memory:
        return await asyncio.to_thread(self.engine.retract, id, **options)

    async def restore(self, id: str, **options: Any) -> Memory:
        return await asyncio.to_thread(self.engine.restore, id, **options)

    async def history(self, id: str, *, within: Scope | None = None) -> Sequence[Memory]:
        return await asyncio.to_thread(self.engine.history, id, within=within)

    async def similar(self, id: str, **options: Any) -> Sequence[Similar]:
        return await asyncio.to_thread(self.engine.similar, id, **options)

    async def sweep(self, **options: Any) -> int:
        return await asyncio.to_thread(self.engine.sweep, **options)

    async def stats(self) -> Stats:
        return await asyncio.to_thread(self.engine.stats)

    async def sessions(self, **scope: Any) -> Sequence[Session]:
        return await asyncio.to_thread(self.engine.sessions, **scope)

    async def projects(self, **scope: Any) -> Sequence[Project]:
        return await asyncio.to_thread(self.engine.projects, **scope)

    async def profiles(self) -> Sequence[Profile]:
        return await asyncio.to_thread(self.engine.profiles)

    async def move_session(self, session: str, *, project: str | None, **options: Any) -> Session:
        return await asyncio.to_thread(self.engine.move_session, session, project=project, **options)

    async def timeline(self, **options: Any) -> Timeline:
        return await asyncio.to_thread(self.engine.timeline, **options)

    async def import_from(self, path: str | os.PathLike[str], **options: Any) -> ImportResult:
        return await asyncio.to_thread(self.engine.import_from, path, **options)

    async def export_to(self, path: str | os.PathLike[str], **options: Any) -> ExportResult:
        return await asyncio.to_thread(self.engine.export_to, path, **options)

    async def compact(self, **options: Any) -> Compaction:
        return await asyncio.to_thread(self.engine.compact, **options)

    async def backup(self, folder: str | os.PathLike[str] | None = None, **options: Any) -> Backup:
        return await asyncio.to_thread(self.engine.backup, folder, **options)

    async def check(self) -> Sequence[str]:
        return await asyncio.to_thread(self.engine.check)

    async def repair(self, **options: Any) -> Repair:
        return await asyncio.to_thread(self.engine.repair, **options)


class Opening:
    """An engine that is about to be opened, on a worker thread: await it, or use it in `async with`."""

    def __init__(self, open_engine: Callable[[], Engine]) -> None:
        self._open_engine = open_engine
        self._opened: AsyncEngine | None = None

    async def _open(self) -> AsyncEngine:
        self._opened = AsyncEngine(await asyncio.to_thread(self._open_engine))
        return self._opened

    def __await__(self) -> Generator[Any, None, AsyncEngine]:
        return self._open().__await__()

    async def __aenter__(self) -> AsyncEngine:
        return await self._open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened is not None:
            await self._opened.close()
