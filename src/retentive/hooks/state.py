"""What hooks keep between their runs: the open turn of each session, messages that are not stored yet, and the log.

All of it is in a private folder beside the store. It imports the standard library only.
"""

from __future__ import annotations

import os
import time

from retentive.server.light_json import dumps, loads
from retentive.server.runtime_file import beside, make_private_folder, remove, write_private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

MAX_LOG = 1_000_000
MAX_INJECTED = 200
"""How many of the memories that a session was given last are not given to it again."""


class SessionState:
    """One session: its project, the user's message without an answer yet, and the memories it was given."""

    def __init__(self, path: str, values: dict[str, Any]) -> None:
        self._path = path
        self.project: str | None = values.get("project")
        self.prompt: str = values.get("prompt") or ""
        self.turn: str = values.get("turn") or ""
        self.asked: str = values.get("asked") or ""
        self.injected: list[str] = list(values.get("injected") or ())

    def save(self) -> None:
        """Write it."""
        values = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        values["injected"] = self.injected[-MAX_INJECTED:]
        write_private(self._path, dumps(values))


class HookState:
    """The folder of the hooks of one store. `PermissionError` if another user could have written what is in it."""

    def __init__(self, store: str) -> None:
        self.folder = beside(store, ".hooks")
        for name in ("", "sessions", "outbox"):
            make_private_folder(os.path.join(self.folder, name).rstrip(os.sep))

    def session(self, name: str) -> SessionState:
        """Return the state of a session; an empty one if there is none or if it cannot be read."""
        is_plain = len(name) < 150 and name.replace(":", "").replace("-", "").isalnum() and name.isascii()
        path = os.path.join(self.folder, "sessions", f"{name.replace(':', '.') if is_plain else digest(name)}.json")
        try:
            with open(path, encoding="utf-8") as file:
                values = loads(file.read())
        except (OSError, ValueError):
            values = {}
        return SessionState(path, values if isinstance(values, dict) else {})

    def queue(self, memory: dict[str, Any], *, turn: str, profile: str | None) -> None:
        """Add a message to those that are not stored yet. The same message of the same turn has the same key."""
        key = digest(dumps([memory["session"], turn, memory["speaker"], memory["text"]]))
        name = f"{time.time_ns():020}-{key}.json"
        message = {"key": f"hook/{key}", "profile": profile, "memory": memory}
        write_private(os.path.join(self.folder, "outbox", name), dumps(message))

    def queued(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the path and the content of each message that is not stored yet, oldest first."""
        folder = os.path.join(self.folder, "outbox")
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            if not name.endswith(".json"):
                continue  # another process is writing it
            try:
                with open(path, encoding="utf-8") as file:
                    yield path, loads(file.read())
            except FileNotFoundError:
                continue  # another process has stored it
            except ValueError:
                self.log(f"a message could not be read and was dropped: {name}")
                self.drop(path)

    def drop(self, path: str) -> None:
        """Remove a message from those that are not stored yet."""
        remove(path)

    def log(self, line: str) -> None:
        """Append a line to the log. It never contains text of a conversation."""
        path = os.path.join(self.folder, "hooks.log")
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        try:
            if os.path.exists(path) and os.path.getsize(path) > MAX_LOG:
                os.replace(path, f"{path}.1")
            file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with os.fdopen(file, "a", encoding="utf-8", errors="replace") as log:
                log.write(f"{stamp} {' '.join(line.split())}\n")
        except OSError:
            return


def digest(text: str) -> str:
    """Return a hash that can be the name of a file."""
    import hashlib

    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]
