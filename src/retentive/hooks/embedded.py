"""The engine of a hook, in a process of its own: `python -m retentive.hooks.embedded`.

Without arguments it answers one request on standard input. With the words of a hook it stores the queued messages.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Any

from retentive.chat.context import PromptContext, assemble, brief, log_context
from retentive.chat.token_counting import BYTE_COUNTER
from retentive.engine import Engine
from retentive.errors import Conflict, Invalid, RetentiveError, Unavailable
from retentive.hooks.capture import send_queued
from retentive.hooks.lookup import Lookup
from retentive.hooks.options import HookOptions, parse_options
from retentive.hooks.service_client import ServiceError
from retentive.hooks.state import HookState
from retentive.models import begin_work
from retentive.tenancy import ProfileView

SERVICE_SECONDS = 60.0


def answer(task: dict[str, Any], output: IO[str]) -> None:
    """Write the context or the briefing that a hook asks for, and then log it.

    The embedder is not loaded, which alone takes longer than a hook may take: the recall searches keywords only, and
    the tokens are estimated. What the judge has not read in time is left out.
    """
    with Engine.open(task["store"], embedder="none", config=task["config"], create=False) as engine:
        view = ProfileView(engine, task["profile"] or engine.settings.profile)
        body = task["body"]
        spent = time.time() - task["began"]  # the two processes have no other clock in common
        if "deadlineMs" in body:
            begin_work().deadline = time.monotonic() + body["deadlineMs"] / 1000 - spent
        found = _find(view, task["path"], body)
        items = [{"id": item.memory.id, "part": item.part} for item in found.items]
        json.dump({"text": found.text, "items": items}, output)
        output.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())  # the hook waits for the end of the output
        query = body.get("query", "") if body.get("store", True) else ""
        log_context(view, found, client=task["client"], query=query, session=body["session"])


def _find(view: ProfileView, path: str, body: dict[str, Any]) -> PromptContext:
    options = {name: body[name] for name in ("project", "session", "budget") if name in body}
    if path == "/v1/briefing":
        return brief(view, **options, count_tokens=BYTE_COUNTER)
    return assemble(
        view,
        body["query"],
        **options,
        everywhere=body["everywhere"],
        parts=body["parts"],
        exclude=body["exclude"],
        exclude_session=True,
        count_tokens=BYTE_COUNTER,
    )


def store_messages(options: HookOptions) -> None:
    """Store what is queued, in the service if there is one now, or else here; one process at a time.

    Messages for a service that the options name wait for it: they belong in no other store.
    """
    from filelock import FileLock, Timeout

    state = HookState(options.store)
    try:
        with FileLock(f"{state.folder}/storing.lock", timeout=0):
            service = Lookup(options, state, deadline=time.monotonic() + SERVICE_SECONDS).service()
            try:
                if service is not None:
                    send_queued(state, service, profile=options.profile)
            except ServiceError as error:
                state.log(f"storing: {error}")
            if options.url is None and next(state.queued(), None) is not None:
                _store_here(state, options)
    except RetentiveError as error:
        state.log(f"storing: {error}")
    except Timeout:
        return  # the process that has the lock stores these messages too


def _store_here(state: HookState, options: HookOptions) -> None:
    with Engine.open(options.store, embedder=options.embedder, config=options.config) as engine:
        with suppress(Unavailable):  # then it is stored without a vector
            engine.embeddings.embedder()  # if it is not configured rightly, the messages stay in the queue
        view = ProfileView(engine, options.profile or engine.settings.profile)
        for path, message in state.queued():
            if message["profile"] != options.profile:
                continue
            memory = message["memory"]
            try:
                _remember(view, memory, message["key"])
            except (Invalid, Conflict) as error:
                state.log(f"a message was not stored: {type(error).__name__}")
            state.drop(path)


def _remember(view: ProfileView, memory: dict[str, Any], key: str) -> None:
    try:
        view.remember([memory], idempotency_key=key)
    except Conflict:
        view.remember([{**memory, "project": None}], idempotency_key=key)


def main(words: Sequence[str]) -> None:
    """Answer a request, or store messages."""
    if words:
        store_messages(parse_options(words))
        return
    answer(json.load(sys.stdin), sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
