"""`AsyncEngine`: the same verbs for asyncio, each on a worker thread."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from retentive.engine import Engine
from retentive.models import (
    Explanation,
    Judgement,
    Memory,
    Page,
    Profile,
    Project,
    Recall,
    Scope,
    Session,
    Stats,
    Timeline,
)
from retentive.pipeline.access_tokens import Token
from retentive.pipeline.remember import Draft
from retentive.pipeline.tuning_history import Change
from retentive.ranking import Tuning

if TYPE_CHECKING:
    from retentive.transfer.exporting.jsonl import Exported
    from retentive.transfer.importing.files import Imported
    from retentive.transfer.importing.log import Run, Undone


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

    async def remember_many(
        self, drafts: Iterable[Draft | Mapping[str, Any]], *, idempotency_key: str | None = None
    ) -> Sequence[Memory]:
        return await asyncio.to_thread(self.engine.remember_many, drafts, idempotency_key=idempotency_key)

    async def recall(self, query: str, **options: Any) -> Recall:
        return await asyncio.to_thread(self.engine.recall, query, **options)

    async def explain(self, query: str, id: str, **options: Any) -> Explanation:
        return await asyncio.to_thread(self.engine.explain, query, id, **options)

    async def judge(self, query: str, **said: Any) -> Sequence[Judgement]:
        return await asyncio.to_thread(self.engine.judge, query, **said)

    async def judgements(self, **where: Any) -> Sequence[Judgement]:
        return await asyncio.to_thread(self.engine.judgements, **where)

    async def unjudge(self, *judgements: Judgement) -> int:
        return await asyncio.to_thread(self.engine.unjudge, *judgements)

    async def get(self, id: str) -> Memory:
        return await asyncio.to_thread(self.engine.get, id)

    async def get_many(self, ids: Sequence[str]) -> Sequence[Memory]:
        return await asyncio.to_thread(self.engine.get_many, ids)

    async def list(self, scope: Scope | None = None, *, cursor: str | None = None, limit: int = 50) -> Page:
        return await asyncio.to_thread(self.engine.list, scope, cursor=cursor, limit=limit)

    async def update(self, id: str, **changes: Any) -> Memory:
        return await asyncio.to_thread(self.engine.update, id, **changes)

    async def forget(self, *ids: str, **options: Any) -> int:
        return await asyncio.to_thread(self.engine.forget, *ids, **options)

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

    async def profiles(self) -> Sequence[Profile]:
        return await asyncio.to_thread(self.engine.profiles)

    async def timeline(self, **where: Any) -> Timeline:
        return await asyncio.to_thread(self.engine.timeline, **where)

    async def keep_tuning(self, parameters: Mapping[str, Any], **options: Any) -> Tuning:
        return await asyncio.to_thread(self.engine.keep_tuning, parameters, **options)

    async def tuning_history(self) -> Sequence[Change]:
        return await asyncio.to_thread(self.engine.tuning_history)

    async def undo_tuning(self, id: int | None = None, **options: Any) -> Tuning:
        return await asyncio.to_thread(self.engine.undo_tuning, id, **options)

    async def create_token(self, **options: Any) -> tuple[Token, str]:
        return await asyncio.to_thread(self.engine.create_token, **options)

    async def token(self, secret: str) -> Token | None:
        return await asyncio.to_thread(self.engine.token, secret)

    async def tokens(self) -> Sequence[Token]:
        return await asyncio.to_thread(self.engine.tokens)

    async def revoke_token(self, id: str) -> Token:
        return await asyncio.to_thread(self.engine.revoke_token, id)

    async def import_from(self, path: str | os.PathLike[str], **options: Any) -> Imported:
        return await asyncio.to_thread(self.engine.import_from, path, **options)

    async def export_to(self, path: str | os.PathLike[str], **options: Any) -> Exported:
        return await asyncio.to_thread(self.engine.export_to, path, **options)

    async def imports(self) -> Sequence[Run]:
        return await asyncio.to_thread(self.engine.imports)

    async def undo_import(self, run: str, **options: Any) -> Undone:
        return await asyncio.to_thread(self.engine.undo_import, run, **options)

    async def reembed(self, **options: Any) -> int:
        return await asyncio.to_thread(self.engine.reembed, **options)
