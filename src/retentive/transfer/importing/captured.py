"""Messages that hooks have stored while a session ran: its transcript does not store them again."""

from __future__ import annotations

from retentive.models import Memory, Scope
from retentive.stores.base import Memories
from retentive.stores.rules import pages
from retentive.text.normal_form import normalised

CAPTURED = 20_000
"""Of a longer message, hooks store this many characters."""


class CapturedMessages:
    """What is stored of the last session that was asked for."""

    def __init__(self, store: Memories) -> None:
        self._store = store
        self._session: tuple[str, str] | None = None
        self._known: set[tuple[str | None, str | None, str]] = set()

    def has(self, memory: Memory, turn: str) -> bool:
        """Whether the message of a memory is stored with this turn as its source."""
        if memory.session is None:
            return False
        if self._session != (memory.profile, memory.session):
            self._session = (memory.profile, memory.session)
            self._known = self._read(Scope(memory.profile, sessions=(memory.session,), only_sessions=True))
        return (turn, memory.speaker, _start(memory.text)) in self._known

    def _read(self, scope: Scope) -> set[tuple[str | None, str | None, str]]:
        found = pages(lambda cursor: self._store.list(scope, cursor=cursor, limit=500))
        return {(one.source, one.speaker, _start(one.text)) for page in found for one in page.memories}


def _start(text: str) -> str:
    return normalised(text[:CAPTURED])
