"""`AsyncEngine`: the same verbs for asyncio, each on a worker thread."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

from recollect.engine import Engine
from recollect.models import Judgement, Memory, Page, Project, Recall, Scope, Session, Stats
from recollect.remember import Draft


class AsyncEngine:
    """An engine whose verbs are awaited."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @classmethod
    async def open(cls, store: str | os.PathLike[str] | None = None, **options: Any) -> AsyncEngine:
        return cls(await asyncio.to_thread(Engine.open, store, **options))

    async def __aenter__(self) -> AsyncEngine:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await asyncio.to_thread(self.engine.close)

    async def remember(self, text: str, **fields: Any) -> Memory:
        return await asyncio.to_thread(self.engine.remember, text, **fields)

    async def remember_many(self, drafts: Iterable[Draft | Mapping[str, Any]]) -> Sequence[Memory]:
        return await asyncio.to_thread(self.engine.remember_many, drafts)

    async def recall(self, question: str, **options: Any) -> Recall:
        return await asyncio.to_thread(self.engine.recall, question, **options)

    async def judge(self, question: str, **said: Any) -> Sequence[Judgement]:
        return await asyncio.to_thread(self.engine.judge, question, **said)

    async def judgements(self, **where: Any) -> Sequence[Judgement]:
        return await asyncio.to_thread(self.engine.judgements, **where)

    async def unjudge(self, *judgements: Judgement) -> int:
        return await asyncio.to_thread(self.engine.unjudge, *judgements)

    async def get(self, id: str) -> Memory:
        return await asyncio.to_thread(self.engine.get, id)

    async def list(self, scope: Scope | None = None, *, cursor: str | None = None, limit: int = 50) -> Page:
        return await asyncio.to_thread(self.engine.list, scope, cursor=cursor, limit=limit)

    async def update(self, id: str, **changes: Any) -> Memory:
        return await asyncio.to_thread(self.engine.update, id, **changes)

    async def forget(self, *ids: str) -> int:
        return await asyncio.to_thread(self.engine.forget, *ids)

    async def forget_scope(self, scope: Scope, *, confirm: bool = False) -> int:
        return await asyncio.to_thread(self.engine.forget_scope, scope, confirm=confirm)

    async def stats(self) -> Stats:
        return await asyncio.to_thread(self.engine.stats)

    async def sessions(self, **where: Any) -> Sequence[Session]:
        return await asyncio.to_thread(self.engine.sessions, **where)

    async def projects(self, **where: Any) -> Sequence[Project]:
        return await asyncio.to_thread(self.engine.projects, **where)

    async def move_session(self, session: str, *, project: str | None, profile: str | None = None) -> Session:
        return await asyncio.to_thread(self.engine.move_session, session, project=project, profile=profile)

    async def reembed(self, **options: Any) -> int:
        return await asyncio.to_thread(self.engine.reembed, **options)
