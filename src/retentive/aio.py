"""`AsyncEngine`: the same verbs for asyncio, each on a worker thread."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Generator
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from retentive.engine import Engine
from retentive.models import Recall, Scope

P = ParamSpec("P")
T = TypeVar("T")


def on_thread(
    verb: Callable[Concatenate[Engine, P], T],
) -> Callable[Concatenate[AsyncEngine, P], Coroutine[Any, Any, T]]:
    """Make an awaitable verb, with the same arguments, of a verb of an engine."""

    @wraps(verb)
    async def awaited(self: AsyncEngine, /, *arguments: P.args, **options: P.kwargs) -> T:
        result: T = await asyncio.to_thread(getattr(self.engine, verb.__name__), *arguments, **options)
        return result

    return awaited


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

    def on_recall(self, callback: Callable[[Recall], None]) -> Callable[[], None]:
        return self.engine.on_recall(callback)

    def scope(self, **parts: Any) -> Scope:
        return self.engine.scope(**parts)

    remember = on_thread(Engine.remember)
    remember_many = on_thread(Engine.remember_many)
    similar = on_thread(Engine.similar)
    update = on_thread(Engine.update)
    forget = on_thread(Engine.forget)
    forget_scope = on_thread(Engine.forget_scope)
    supersede = on_thread(Engine.supersede)
    retract = on_thread(Engine.retract)
    restore = on_thread(Engine.restore)
    history = on_thread(Engine.history)
    sweep = on_thread(Engine.sweep)
    query = on_thread(Engine.query)
    recall = on_thread(Engine.recall)
    explain = on_thread(Engine.explain)
    get = on_thread(Engine.get)
    get_many = on_thread(Engine.get_many)
    list = on_thread(Engine.list)
    stats = on_thread(Engine.stats)
    sessions = on_thread(Engine.sessions)
    projects = on_thread(Engine.projects)
    profiles = on_thread(Engine.profiles)
    move_session = on_thread(Engine.move_session)
    timeline = on_thread(Engine.timeline)
    judge = on_thread(Engine.judge)
    import_from = on_thread(Engine.import_from)
    export_to = on_thread(Engine.export_to)
    compact = on_thread(Engine.compact)
    backup = on_thread(Engine.backup)
    check = on_thread(Engine.check)
    repair = on_thread(Engine.repair)
    close = on_thread(Engine.close)


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
