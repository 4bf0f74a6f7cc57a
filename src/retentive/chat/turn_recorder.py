"""Keeps the turns of a chat: what the user said and what was answered, each once.

A turn that failed is often sent again, by people and by clients on their own. What the user said is not stored again
then: it is what the session ends with, or it came under the same idempotency key.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from retentive.chat.context import latest_episodes, open_query
from retentive.chat.sse import Answer
from retentive.errors import Conflict, RetentiveError
from retentive.models import Memory
from retentive.pipeline.remember import MAX_TEXT, check_name
from retentive.tenancy import ProfileView

T = TypeVar("T")

log = logging.getLogger(__name__)

LOOK_BACK = 20
"""How many episodes of a session are looked through for a turn that was stored before."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What the user said, and where it belongs. `new` is false where it was sent along with what a tool answered."""

    said: str
    session: str
    project: str | None = None
    new: bool = True
    key: str | None = None


class Turns:
    """Stores turns beside the event loop, those of one session one after another."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()
        self._last: dict[tuple[str, str], asyncio.Task[None]] = {}

    def keep(self, confined: ProfileView, turn: Turn, answer: Answer) -> asyncio.Task[None]:
        """The storing of a turn, which goes on whoever waits for it."""
        place = (confined.profile, turn.session)
        task = self.start(_store_after(self._last.get(place), confined, turn, answer))
        self._last[place] = task
        task.add_done_callback(lambda done: self._last.pop(place) if self._last.get(place) is done else None)
        return task

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Something to be done before the service ends."""
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def stored(self, confined: ProfileView, session: str) -> None:
        """Wait until what was said in a session is stored, so that the next query finds it."""
        task = self._last.get((confined.profile, session))
        if task is not None:
            await asyncio.wait([task])

    async def open_scope(self) -> None:
        """Wait until everything is stored."""
        while self._running:
            await asyncio.wait(set(self._running))


def check_place(confined: ProfileView, session: str, project: str | None) -> None:
    """An error now, and not after the answer, if a turn could not be stored there."""
    check_name("session", session)
    check_name("project", project)
    there = latest_episodes(confined, session, 1)
    if project is not None and there and there[0].project != project:
        home = f"project '{there[0].project}'" if there[0].project else "no project"
        raise Conflict(f"session '{session}' belongs to {home}, not to '{project}'; name another session, or move it")


def store_turn(confined: ProfileView, turn: Turn, answer: Answer) -> Sequence[Memory]:
    """The memories of a turn that were not there yet, as stored: all or none."""
    drafts = list(_drafts(turn, answer, latest_episodes(confined, turn.session, LOOK_BACK)))
    if not drafts:
        return ()
    speakers = "+".join(draft["speaker"] for draft in drafts)
    idempotency_key = None if turn.key is None else f"chat/{turn.key}/{speakers}"
    try:
        return confined.remember(drafts, idempotency_key=idempotency_key)
    except Conflict:
        if idempotency_key is None:
            raise
        return ()  # it was stored under this key, with another answer


def _drafts(turn: Turn, answer: Answer, latest: Sequence[Memory]) -> list[dict[str, Any]]:
    drafts = []
    if turn.said.strip() and not _said_before(turn, latest):
        drafts.append(_draft(turn, "user", turn.said))
    if answer.text.strip() and not _answered_before(turn, answer, latest):
        drafts.append(_draft(turn, "assistant", answer.text, incomplete=not answer.complete))
    return drafts


def _draft(turn: Turn, speaker: str, text: str, *, incomplete: bool = False) -> dict[str, Any]:
    marks = {"request": turn.key, "incomplete": incomplete or None}
    return {
        "text": _storable(text),
        "speaker": speaker,
        "kind": "episodic",
        "session": turn.session,
        "project": turn.project,
        "metadata": {name: value for name, value in marks.items() if value is not None},
    }


def _said_before(turn: Turn, latest: Sequence[Memory]) -> bool:
    text = _storable(turn.said)
    if turn.key is not None and any(_under(turn.key, "user", memory) for memory in latest):
        return True
    if not turn.new:
        return any(memory.speaker == "user" and memory.text == text for memory in latest)
    waiting = open_query(latest)
    return waiting is not None and waiting.text == text


def _answered_before(turn: Turn, answer: Answer, latest: Sequence[Memory]) -> bool:
    """Whether this request was answered; the beginning of an answer gives way to the whole of it."""
    answers = [memory for memory in latest if turn.key is not None and _under(turn.key, "assistant", memory)]
    return any(not answer.complete or not memory.metadata.get("incomplete") for memory in answers)


def _under(key: str, speaker: str, memory: Memory) -> bool:
    return memory.speaker == speaker and memory.metadata.get("request") == key


def _storable(text: str) -> str:
    """As much of a text as a memory can hold, without halves of surrogate pairs."""
    return (text if text.isascii() else text.encode(errors="replace").decode())[:MAX_TEXT]


async def _store_after(before: asyncio.Task[None] | None, confined: ProfileView, turn: Turn, answer: Answer) -> None:
    if before is not None:
        await asyncio.wait([before])
    try:
        await asyncio.to_thread(store_turn, confined, turn, answer)
    except RetentiveError as error:
        log.error("a turn of a chat could not be stored (%s): %s", error.code, error)  # noqa: TRY400 - it says it all
    except Exception:
        log.exception("a turn of a chat could not be stored")
