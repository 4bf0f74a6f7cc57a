"""Store the turns of a session: the user's message and the model's answer, each once.

Messages are first written to the folder of the hooks, so that none is lost if the service does not run or takes too
long. A process of its own then stores them, after the hook has ended.
"""

from __future__ import annotations

import sys
import time

from retentive.hooks.events import HookEvent
from retentive.hooks.lookup import Lookup
from retentive.hooks.options import HookOptions
from retentive.hooks.service_client import ServiceClient, ServiceError
from retentive.hooks.state import HookState, SessionState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_GONE, _CONFLICT, _INVALID = 404, 409, 422


def note_prompt(options: HookOptions, state: HookState, session: SessionState, event: HookEvent) -> None:
    """Keep the user's message until its turn ends. The caller saves the session."""
    if session.prompt:
        if session.prompt == event.prompt and event.turn in ("", session.turn):
            return  # the client ran the hook twice
        _queue_prompt(options, state, session, event)  # the turn before was interrupted
    session.prompt = event.prompt
    session.turn = event.turn or f"{time.time_ns():x}"
    session.asked = _now()


def end_turn(options: HookOptions, state: HookState, event: HookEvent) -> None:
    """Queue the messages of a turn that has ended."""
    session = state.session(event.session)
    session.project = options.project or session.project or event.project
    if options.client == "openclaw" and event.prompt and not _ends_with(event.prompt, session.prompt):
        session.prompt, session.asked = event.prompt, session.asked or _now()  # the whole turn comes at its end
    session.turn = event.turn or session.turn
    if session.prompt:
        _queue_prompt(options, state, session, event)
    if event.answer:
        _queue(options, state, session, event, speaker="assistant", text=event.answer, when=_now())
    session.save()


def end_session(options: HookOptions, state: HookState, event: HookEvent) -> None:
    """Queue the message of a turn that was interrupted: no event ends it."""
    session = state.session(event.session)
    if session.prompt:
        _queue_prompt(options, state, session, event)
        session.save()


def store_queued(options: HookOptions, state: HookState, lookup: Lookup) -> None:
    """Store what is queued, in the service if it runs; what remains is left to a process of its own."""
    try:
        service = lookup.service()
        if service is not None:
            send_queued(state, service, profile=options.profile)
    except ServiceError as error:
        state.log(f"{options.event}: {error}")
    if next(state.queued(), None) is not None:
        _start_storing(options, state.folder)


def send_queued(state: HookState, service: ServiceClient, *, profile: str | None) -> None:
    """Send what is queued to the service; `ServiceError` if it cannot be reached."""
    for path, message in state.queued():
        if message["profile"] != profile:
            continue
        if _send(state, service, message["key"], message["memory"]):
            state.drop(path)


def _send(state: HookState, service: ServiceClient, key: str, memory: dict[str, Any]) -> bool:
    """Send one message and return whether it is done with."""
    try:
        service.post("/v1/memories", memory, Idempotency_Key=key)
    except ServiceError as error:
        if error.status in (_GONE, _CONFLICT, _INVALID):  # it was stored and deleted since, or can never be stored
            state.log(f"a message was not stored: {error}")
            return True
        raise
    return True


def _ends_with(message: str, prompt: str) -> bool:
    """Whether a message is the prompt that was noted, perhaps after what OpenClaw's plugins have put before it."""
    return bool(prompt) and message.endswith(prompt)


def _queue_prompt(options: HookOptions, state: HookState, session: SessionState, event: HookEvent) -> None:
    _queue(options, state, session, event, speaker="user", text=session.prompt, when=session.asked)
    session.prompt = session.asked = ""


def _queue(
    options: HookOptions,
    state: HookState,
    session: SessionState,
    event: HookEvent,
    *,
    speaker: str,
    text: str,
    when: str,
) -> None:
    memory = {
        "text": text,
        "session": event.session,
        "project": session.project,
        "speaker": speaker,
        "source": event.session if not session.turn else f"{event.session}/{session.turn}"[:500],
        "occurred": when,
    }
    kept = {name: value for name, value in memory.items() if value}
    state.queue(kept, turn=session.turn, profile=options.profile)


def _start_storing(options: HookOptions, folder: str) -> None:
    """Start a process that stores what is queued and that outlives this one."""
    import subprocess

    words = [sys.executable, "-m", "retentive.hooks.embedded", options.event, *options.words()]
    silent = subprocess.DEVNULL
    subprocess.Popen(words, stdin=silent, stdout=silent, stderr=silent, cwd=folder, start_new_session=True)


def _now() -> str:
    now = time.time()
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now * 1000) % 1000:03}Z"
