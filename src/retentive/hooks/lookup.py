"""Get memories for a hook: from the service of the store, or else from an engine in a child process."""

from __future__ import annotations

import os
import sys
import time

from retentive.hooks.events import MAX_ANSWER
from retentive.hooks.options import BUDGETS, HookOptions
from retentive.hooks.service_client import ServiceClient, ServiceError
from retentive.hooks.state import HookState
from retentive.server.light_json import dumps, loads
from retentive.server.runtime_file import running_service, store_digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

MAX_QUERY = 8000

AFTER_JUDGING_MS = 80
"""A hook needs so many milliseconds of its deadline for what follows once the best memories are judged."""

MAX_DEADLINE_MS = 60_000

_ANOTHER_STORE = 421
"""The status with which a service of another store refuses a request."""

_TASK = ("client", "store", "config", "profile")
"""The options that the engine in a child process needs."""

_ORDER = {"rules": 0, "identity": 1, "recent": 2, "facts": 3, "recalled": 4}
"""The parts of a block in the order in which their notes are chosen."""


class Found:
    """The block of a prompt, and the ids of the memories in it."""

    def __init__(self, text: str = "", ids: Sequence[str] = ()) -> None:
        self.text, self.ids = text, ids

    @classmethod
    def of(cls, answer: dict[str, Any]) -> Found:
        """Return the block of an answer, with as many of its notes as a client passes on.

        Notes are left out whole, in the order in which they would be if the token budget were smaller.
        """
        text, items = str(answer["text"]), answer["items"]
        if len(text) <= MAX_ANSWER:
            return cls(text, tuple(str(item["id"]) for item in items))
        lines = text.split("\n")
        first = len(lines) - 1 - len(items)  # each note is one line, and one line follows the last
        parts = [str(item["part"]) for item in items]
        kept = _fitting([len(line) + 1 for line in lines], first, parts) if first > 0 else []
        if not kept:
            return cls()
        block = [*lines[:first], *(lines[first + place] for place in kept), lines[-1]]
        return cls("\n".join(block), tuple(str(items[place]["id"]) for place in kept))


class Lookup:
    """Looks memories up until a deadline, a moment of `time.monotonic`. What does not arrive in time is not there."""

    def __init__(self, options: HookOptions, state: HookState, *, deadline: float) -> None:
        self._options, self._state, self._deadline = options, state, deadline

    def briefing(self, *, project: str | None, session: str) -> Found:
        """Return what a new session is given."""
        return self._find("/v1/briefing", {"project": project, "session": session, "budget": self._budget()})

    def context(self, prompt: str, *, session: str, project: str | None, exclude: Sequence[str]) -> Found:
        """Return the memories that are relevant to a prompt and that the session does not have yet."""
        narrow = self._options.scope == "project" and project is not None
        body = {
            "query": prompt[:MAX_QUERY],
            "session": session,
            "project": project,
            "everywhere": not narrow,
            "budget": self._budget(),
            "recent": 0,
            "parts": ["recalled"],
            "exclude": list(exclude),
            "excludeSession": True,
            "deadlineMs": self._judging_ms(),
            "store": None if self._options.capture else False,
        }
        return self._find("/v1/context", body)

    def service(self, *, seconds: float | None = None) -> ServiceClient | None:
        """Return a client of the service: of the address in the options, or of the one that runs for the store."""
        options = self._options
        url = options.url or running_service(options.store)
        if url is None:
            return None
        deadline = self._deadline if seconds is None else time.monotonic() + seconds
        token = os.environ.get("RETENTIVE_HOOK_TOKEN")
        # The file that names a running service may be left over, and its address be that of another service by now.
        store = None if options.url else store_digest(options.store)
        return ServiceClient(url, deadline=deadline, profile=options.profile, token=token, store=store)

    def _judging_ms(self) -> int:
        """How long the memories may be judged, in milliseconds from now."""
        left = int(1000 * (self._deadline - time.monotonic())) - AFTER_JUDGING_MS
        return max(1, min(left, MAX_DEADLINE_MS))

    def _budget(self) -> int:
        return self._options.budget or BUDGETS[self._options.event]

    def _find(self, path: str, body: dict[str, Any]) -> Found:
        sent = {name: value for name, value in body.items() if value is not None}
        try:
            service = self.service()
            if service is not None:
                return self._fitted(service.post(path, sent, X_Client=self._options.client))
        except (ServiceError, KeyError, TypeError) as error:
            self._state.log(f"{self._options.event}: {error}")
            if self._options.url or getattr(error, "status", 0) != _ANOTHER_STORE:
                return Found()
        return self._embedded(path, sent)

    def _fitted(self, answer: dict[str, Any]) -> Found:
        found = Found.of(answer)
        if answer["text"] and not found.text:
            self._state.log(f"{self._options.event}: no note fits into {MAX_ANSWER:,} characters; lower the --budget")
        return found

    def _embedded(self, path: str, body: dict[str, Any]) -> Found:
        """Run an engine in a child process: it can be ended at the deadline, whatever it loads at that moment.

        It runs in the folder of the hooks: the config file of a project that is worked on must not choose the store.
        """
        import subprocess
        from contextlib import suppress
        from threading import Timer

        options = self._options
        task = {"path": path, "body": body, "began": time.time(), **{name: getattr(options, name) for name in _TASK}}
        process: Any = subprocess.Popen(
            [sys.executable, "-m", "retentive.hooks.embedded"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self._state.folder,
        )  # fmt: skip
        timer = Timer(max(self._deadline - time.monotonic(), 0.001), process.kill)
        timer.daemon = True
        timer.start()
        with suppress(OSError):  # it has ended already
            process.stdin.write(dumps(task).encode())
            process.stdin.close()
        answer = process.stdout.read()  # then it writes the log of what was given, for which nobody waits
        timer.cancel()
        if answer:
            return self._fitted(loads(answer))
        if time.monotonic() >= self._deadline:
            self._state.log(f"{options.event}: no service runs, and the engine takes more than {options.deadline} ms")
        else:
            self._state.log(f"{options.event}: {process.stderr.read().decode(errors='replace')[-500:]}")
        return Found()


def _fitting(lengths: Sequence[int], first: int, parts: Sequence[str]) -> list[int]:
    """Return the places of the notes that fit into an answer, by the lengths of the lines of their block.

    The notes begin at line `first`. Recent notes are in the block from the oldest and are chosen from the newest.
    """

    def chosen(place: int) -> tuple[int, int]:
        return _ORDER.get(parts[place], len(_ORDER)), -place if parts[place] == "recent" else place

    left = MAX_ANSWER + 1 - sum(lengths[:first]) - lengths[-1]  # no line end follows the last line
    kept = []
    for place in sorted(range(len(parts)), key=chosen):
        if lengths[first + place] <= left:
            left -= lengths[first + place]
            kept.append(place)
    return sorted(kept)
