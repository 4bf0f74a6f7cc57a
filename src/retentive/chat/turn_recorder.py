"""Store the turns of a chat: the user's message and the answer, each once.

A failed turn is often sent again, by people and by clients that retry. The user's message is not stored again if the
session ends with it, or if it was stored under the same idempotency key.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from retentive.chat.context import latest_episodes, unanswered_message
from retentive.chat.sse import Answer
from retentive.errors import Conflict, RetentiveError, Unavailable, describe_error
from retentive.models import Memory, check_name
from retentive.pipeline.remember import MAX_TEXT
from retentive.stores.rules import home_of
from retentive.tenancy import ProfileView
from retentive.text.secrets import without_secrets

T = TypeVar("T")

log = logging.getLogger(__name__)

LOOK_BACK = 20
"""How many of a session's latest episodes are compared with a turn, to store it only once."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A user's message and its session. `new` is False if the last message of the request is not from the user."""

    message: str
    session: str
    project: str | None = None
    new: bool = True
    idempotency_key: str | None = None


AfterTurn = Callable[[ProfileView, Sequence[Memory]], Coroutine[Any, Any, object]]
"""What follows when a turn is stored, in the background."""


class TurnRecorder:
    """Stores turns in background tasks, those of one session in order."""

    def __init__(self, after_turn: AfterTurn | None = None) -> None:
        self._after_turn = after_turn
        self._running: set[asyncio.Task[Any]] = set()
        self._last: dict[tuple[str, str], asyncio.Task[None]] = {}

    def record(self, view: ProfileView, turn: Turn, answer: Answer) -> asyncio.Task[None]:
        """Start storing a turn and return the task. It runs to its end, whether it is awaited or not."""
        session = (view.profile, turn.session)
        task = self.start(self._store_after(self._last.get(session), view, turn, answer))
        self._last[session] = task
        task.add_done_callback(lambda done: self._last.pop(session) if self._last.get(session) is done else None)
        return task

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task that `drain` waits for."""
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def _store_after(
        self, before: asyncio.Task[None] | None, view: ProfileView, turn: Turn, answer: Answer
    ) -> None:
        if before is not None:
            await asyncio.wait([before])
        stored = await _store_logged(view, turn, answer)
        if stored and self._after_turn is not None:
            self.start(self._after_turn(view, stored))  # the next recall of the session does not wait for it

    async def wait_for_session(self, view: ProfileView, session: str) -> None:
        """Wait until the turns of a session are stored, so that the next recall finds them."""
        task = self._last.get((view.profile, session))
        if task is not None:
            await asyncio.wait([task])

    async def drain(self) -> None:
        """Wait until all tasks have ended."""
        while self._running:
            await asyncio.wait(set(self._running))


def check_session(view: ProfileView, session: str, project: str | None) -> None:
    """Raise an error, before the model is called, if a turn could not be stored in this session."""
    check_name("session", session)
    check_name("project", project)
    if project is None:
        page = view.list(session=session, only_session=True, kinds=["episodic"], limit=LOOK_BACK)
        home_of(session, project, {memory.project for memory in page.memories})


def store_turn(view: ProfileView, turn: Turn, answer: Answer) -> Sequence[Memory]:
    """Store what of a turn is not stored yet, all or none, and return it."""
    latest = latest_episodes(view, turn.session, LOOK_BACK, project=turn.project)
    drafts = []
    message, reply = _storable(view, turn.message), _storable(view, answer.text)
    if message.strip() and not _is_stored(turn, message, latest):
        drafts.append(_draft(turn, "user", message))
    if reply.strip() and not _has_answer(turn, answer, latest):
        drafts.append(_draft(turn, "assistant", reply, incomplete=not answer.complete))
    if not drafts:
        return ()
    speakers = "+".join(draft["speaker"] for draft in drafts)
    key = None if turn.idempotency_key is None else f"chat/{turn.idempotency_key}/{speakers}"
    try:
        return view.remember(drafts, idempotency_key=key)
    except Conflict:
        if key is None:
            raise
        return ()  # it was stored under this key, with another answer


def _draft(turn: Turn, speaker: str, text: str, *, incomplete: bool = False) -> dict[str, Any]:
    metadata = {"request": turn.idempotency_key, "incomplete": incomplete or None}
    return {
        "text": text,
        "speaker": speaker,
        "kind": "episodic",
        "session": turn.session,
        "project": turn.project,
        "metadata": {name: value for name, value in metadata.items() if value is not None},
    }


def _is_stored(turn: Turn, text: str, latest: Sequence[Memory]) -> bool:
    """Whether the user's message is stored already, with this text."""
    if any(_is_of_request(memory, turn, "user") for memory in latest):
        return True
    if not turn.new:
        return any(memory.speaker == "user" and memory.text == text for memory in latest)
    unanswered = unanswered_message(latest)
    return unanswered is not None and unanswered.text == text


def _has_answer(turn: Turn, answer: Answer, latest: Sequence[Memory]) -> bool:
    """Whether an answer to this request is stored already; a complete answer is stored beside an incomplete one."""
    answers = [memory for memory in latest if _is_of_request(memory, turn, "assistant")]
    return any(not answer.complete or not memory.metadata.get("incomplete") for memory in answers)


def _is_of_request(memory: Memory, turn: Turn, speaker: str) -> bool:
    key = turn.idempotency_key
    return key is not None and memory.speaker == speaker and memory.metadata.get("request") == key


def _storable(view: ProfileView, text: str) -> str:
    """A text as it is stored: of the length of a memory, without halves of surrogate pairs and without secrets."""
    text = (text if text.isascii() else text.encode(errors="replace").decode())[:MAX_TEXT]
    return without_secrets(text) if view.engine.settings.redact_secrets else text


async def _store_logged(view: ProfileView, turn: Turn, answer: Answer) -> Sequence[Memory]:
    try:
        return await asyncio.to_thread(store_turn, view, turn, answer)
    except Exception as error:
        # Only that of `Unavailable` names nothing of the request; others name a session or a project.
        code = error.code if isinstance(error, RetentiveError) else "error"
        what = error if isinstance(error, Unavailable) else describe_error(error)
        log.error("a chat turn could not be stored (%s): %s", code, what)
        return ()
