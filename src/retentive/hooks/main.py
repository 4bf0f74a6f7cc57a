"""Run one hook: read the client's JSON, and print the answer. It always exits with 0.

Only the standard library is imported until the engine is needed: with a running service, a hook takes the time of a
Python start and of one request.
"""

from __future__ import annotations

import os
import sys
import time

from retentive.hooks.capture import end_session, end_turn, note_prompt, store_queued
from retentive.hooks.events import CLIENTS, CONTEXT_STAYS, EVENTS, HookEvent, format_answer, parse_event
from retentive.hooks.lookup import Found, Lookup
from retentive.hooks.options import HookOptions, parse_options
from retentive.hooks.state import HookState
from retentive.server.light_json import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

MAX_INPUT = 50_000_000


def run_hook(words: Sequence[str]) -> NoReturn:
    """Run the hook that the words of the command name, and end the process with exit code 0."""
    deadline_starts = time.monotonic()
    state = None
    try:
        options = parse_options(words)
        state = HookState(options.store)
        answer = answer_event(options, state, _read_input(deadline_starts + options.seconds), deadline_starts)
        if answer is not None:
            sys.stdout.write(dumps(answer))
            sys.stdout.flush()
    except BaseException as error:  # a hook never fails: the client would show it to the user, or stop
        _report(state, f"{' '.join(words[:1])}: {type(error).__name__}: {error}")
    os._exit(0)


def answer_event(options: HookOptions, state: HookState, sent: dict[str, Any], began: float) -> dict[str, Any] | None:
    """Do what an event asks for and return the answer to the client."""
    event = parse_event(options.client, sent)
    if event is None:
        state.log(f"{options.event}: the client sent no session")
        return format_answer(options.client, options.event, "")
    lookup = Lookup(options, state, deadline=began + options.seconds)
    context = ""
    if options.event == "session-start":
        context = _start(options, state, event, lookup)
    elif options.event == "prompt":
        context = _prompt(options, state, event, lookup)
    elif options.capture:
        if options.event == "turn-end":
            end_turn(options, state, event)
        else:
            end_session(options, state, event)
        store_queued(options, state, lookup)
    return format_answer(options.client, options.event, context)


def _start(options: HookOptions, state: HookState, event: HookEvent, lookup: Lookup) -> str:
    session = state.session(event.session)
    session.project = options.project or session.project or event.project
    found = lookup.briefing(project=session.project, session=event.session) if event.fresh else Found()
    if event.fresh:
        session.injected = list(found.ids)
    session.save()
    return found.text


def _prompt(options: HookOptions, state: HookState, event: HookEvent, lookup: Lookup) -> str:
    session = state.session(event.session)
    session.project = options.project or session.project or event.project
    if options.capture and event.prompt:
        note_prompt(options, state, session, event)
    if options.client == "cursor" or not event.prompt:
        session.save()
        return ""
    found = lookup.context(event.prompt, session=event.session, project=session.project, exclude=session.injected)
    # Where the context lasts for one turn, only the briefing of this turn is in the prompt already.
    session.injected = [*session.injected, *found.ids] if CONTEXT_STAYS[options.client] else []
    session.save()
    return found.text


def _read_input(deadline: float) -> dict[str, Any]:
    """Read standard input to its end, or to the deadline if the client does not close it."""
    if sys.stdin is None or sys.stdin.isatty():
        raise ValueError("a hook reads the JSON of a client on standard input")
    from select import select

    parts: list[bytes] = []
    while sum(map(len, parts)) <= MAX_INPUT and select([0], [], [], max(0.0, deadline - time.monotonic()))[0]:
        part = os.read(0, 1 << 20)
        if not part:
            break
        parts.append(part)
    sent = loads(b"".join(parts))
    if not isinstance(sent, dict):
        raise TypeError("the client's JSON is not an object")
    return sent


def _report(state: HookState | None, line: str) -> None:
    """Write an error to the log; without a log to standard error, which the clients show in their debug output."""
    if state is not None:
        state.log(line)
    else:
        sys.stderr.write(f"retentive hook {line}\n")


def is_hook(words: Sequence[str]) -> bool:
    """Whether the arguments of the program run a hook, so that the command line need not be loaded.

    In a terminal, arguments without a client are left to the command line, which ends with exit code 2.
    """
    return (
        len(words) > 1
        and words[0] == "hook"
        and words[1] in EVENTS
        and not {"-h", "--help"} & set(words)
        and (
            sys.stdin is None
            or not sys.stdin.isatty()
            or any(word.partition("=")[2] in CLIENTS or word in CLIENTS for word in words)
        )
    )
