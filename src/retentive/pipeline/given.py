"""The log of what was given: the memories that each prompt of an agent got, with their relevance.

Entries are written together, a second after the first of them, on a thread of their own. They have ids of memories and
the beginning of the prompt, never the text of a memory.
"""

from __future__ import annotations

import json
import logging
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from retentive.errors import RetentiveError, describe_error
from retentive.models import Memory, Scope, Serializable, hash_text, snippet
from retentive.stores.base import Store
from retentive.stores.json_entries import JsonEntries
from retentive.text.secrets import without_secrets

log = logging.getLogger(__name__)

MAX_QUERY = 300
"""So many characters of a prompt are kept."""

MAX_SHOWN = 300
"""So many characters of a memory's text are shown."""

MAX_ENTRIES = 5000
"""How many entries of a profile are kept; the oldest go first."""

PRUNE_EVERY = 100
"""After about so many entries, those that are too old or too many are deleted."""

WRITE_SECONDS = 1.0
"""Entries are written so long after the first of them."""


@dataclass(frozen=True, slots=True)
class GivenNote(Serializable):
    """A memory that was given. `text` is the beginning of its text now; None if it was forgotten."""

    id: str
    part: str
    relevance: float | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Given(Serializable):
    """What one prompt got; without notes if nothing was given.

    `client` is the client of a hook, "chat", "mcp" or "context". `project` is the project that was searched, or None
    for the whole profile. `judged` is how many memories the judge has read, and `left_out` how many were left out for
    each reason.
    """

    at: datetime
    client: str
    profile: str
    project: str | None = None
    session: str | None = None
    query: str = ""
    notes: tuple[GivenNote, ...] = ()
    tokens: int = 0
    judged: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)


class GivenLog:
    """`engine.given`: what prompts got."""

    def __init__(self, store: Store, *, profile: str, days: float, clock: Callable[[], datetime]) -> None:
        """With the number of days for which entries are kept; 0 keeps none."""
        self._store = store
        self._profile = profile
        self._days = days
        self._clock = clock
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._unwritten: list[Given] = []
        self._timer: threading.Timer | None = None

    def add(self, given: Given) -> None:
        """Write an entry soon."""
        if self._days <= 0:
            return
        with self._lock:
            self._unwritten.append(replace(given, query=without_secrets(given.query[:MAX_QUERY])))
            if self._timer is None:
                self._timer = threading.Timer(WRITE_SECONDS, self.write)
                self._timer.daemon = True
                self._timer.start()

    def write(self) -> None:
        """Write what was added. A failure is logged and nothing else."""
        with self._writing:
            with self._lock:
                timer, self._timer = self._timer, None
                new, self._unwritten = self._unwritten, []
            if timer is not None:
                timer.cancel()
            try:
                self._write(new)
            except Exception as error:
                what = error if isinstance(error, RetentiveError) else describe_error(error)
                log.warning("what was given was not logged: %s", what)

    def _write(self, new: Sequence[Given]) -> None:
        if not new:
            return
        # As `JsonEntries` reads it, without its type adapter: a hook has no time to load pydantic.
        self._store.compare_and_set({_name(entry): json.dumps(entry.to_dict()) for entry in new})
        for profile in {entry.profile for entry in new}:
            if secrets.randbelow(PRUNE_EVERY) < len(new):
                self.prune(profile)

    def prune(self, profile: str) -> None:
        """Delete the entries of a profile that are older than `given_days`, and the oldest of too many."""
        entries = _entries(profile)
        names = sorted(self._store.list_values(entries.prefix))
        oldest = entries.prefix + self._oldest()
        gone = {name: None for number, name in enumerate(reversed(names)) if name < oldest or number >= MAX_ENTRIES}
        if gone:
            self._store.compare_and_set(gone)

    def erase(self, scope: Scope) -> None:
        """Delete the entries of a profile, or those of its projects or sessions that the scope names."""
        self.write()
        entries = _entries(scope.profile)
        if scope.project is None and scope.sessions is None:
            gone = [*self._store.list_values(entries.prefix)]
        else:
            gone = [
                entries.prefix + key
                for key, entry in entries.list(self._store).items()
                if scope.project in (None, entry.project)
                and (scope.sessions is None or entry.session in scope.sessions)
            ]
        if gone:
            self._store.compare_and_set(dict.fromkeys(gone))

    # Defined last: after it, `list` in this class is no longer the type.
    def list(
        self, profile: str | None = None, *, project: str | None = None, client: str | None = None, limit: int = 100
    ) -> Sequence[Given]:
        """Return the latest entries of a profile, newest first, or those of one project or client of it.

        With a project, texts are those of its own memories and of identity memories without a project.
        """
        self.write()
        owner = self._profile if profile is None else profile
        entries = _entries(owner)
        values = self._store.list_values(entries.prefix)
        oldest = entries.prefix + self._oldest()
        listed: list[Given] = []
        for name in sorted(values, reverse=True):
            if name < oldest or len(listed) >= limit:
                break
            entry = entries.parse(values[name])
            if project in (None, entry.project) and client in (None, entry.client):
                listed.append(entry)
        ids = sorted({note.id for entry in listed for note in entry.notes})
        memories = self._store.get(ids, within=Scope(owner)) if ids else ()
        texts = {memory.id: snippet(memory.text, MAX_SHOWN) for memory in memories if _is_of(memory, project)}
        return [
            replace(entry, notes=tuple(replace(note, text=texts.get(note.id)) for note in entry.notes))
            for entry in listed
        ]

    def _oldest(self) -> str:
        """The key of the oldest entry that is kept; without any days, of the next one."""
        try:
            return _key(self._clock() - timedelta(days=self._days))
        except OverflowError:
            return ""


def _is_of(memory: Memory, project: str | None) -> bool:
    """Whether a recall in a project could return a memory."""
    return project in (None, memory.project) or (memory.kind == "identity" and memory.project is None)


def _key(time: datetime) -> str:
    """The start of the key of an entry; keys have the order of their times."""
    return time.astimezone(UTC).isoformat(timespec="microseconds")


def _name(given: Given) -> str:
    return f"{_entries(given.profile).prefix}{_key(given.at)}/{secrets.token_hex(4)}"


PREFIX = "given/"


def _entries(profile: str) -> JsonEntries[Given]:
    """The entries of a profile. Its name may have any characters, so that the entries have its hash."""
    return JsonEntries(f"{PREFIX}{hash_text(profile)}/", Given)
