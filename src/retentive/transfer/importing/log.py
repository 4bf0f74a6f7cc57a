"""What each import added, noted in the store before it is added, so that an import can be taken back as a whole.

A run that was broken off is still open and goes on under its own name. Ids are noted in chunks, 22 characters each.
"""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from retentive.errors import NotFound
from retentive.models import Judgement, Serializable
from retentive.stores import Store
from retentive.transfer.importing.id_set import Seen

RUNS, NOTES = "imports/", "imported/"
"""Runs stand apart from what they added, so that listing them reads nothing else."""

OF_ONE_STORE = (RUNS, NOTES)
"""What is kept under names that begin so means nothing in another store."""

GROUP = 100
"""So many notes are read at once; there may be thousands."""

_Kind = Literal["ids", "judgements", "setting"]


@dataclass(frozen=True, slots=True)
class Run(Serializable):
    """An import that added something, and the profile in force. Without an end it was broken off, or still goes on."""

    id: str
    format: str
    path: str
    profile: str
    started: datetime
    ended: datetime | None = None
    added: int = 0
    groups: int = 0


@dataclass(frozen=True, slots=True)
class Undone(Serializable):
    """What taking back an import removed."""

    run: str
    memories: int
    judgements: int
    settings: int


def list_runs(store: Store) -> list[Run]:
    """Every import that can be taken back, newest first."""
    runs = map(_parsed, store.list_values(RUNS).values())
    return sorted(runs, key=lambda run: (run.started, run.id), reverse=True)


class RunLog:
    """The notes of one import. Nothing is written before there is something to note."""

    def __init__(self, store: Store, *, format: str, path: str, profile: str, now: datetime) -> None:
        self._store = store
        mine = (format, path, profile)
        unfinished = [run for run in list_runs(store) if not run.ended and (run.format, run.path, run.profile) == mine]
        self.resumed = bool(unfinished)
        self.run = unfinished[0] if unfinished else Run(secrets.token_hex(4), format, path, profile, now)
        self._number = max(self.run.groups - 1, 0) * GROUP

    def note(self, ids: Sequence[str]) -> str:
        """Note ids that are about to be added; gives the name of the note."""
        return self._put("ids", _packed(ids))

    def take_back(self, name: str) -> None:
        """What this note says did not happen."""
        self._store.keep({name: None})

    def note_judgements(self, judgements: Sequence[Judgement]) -> str:
        """Note judgements that are about to be given; gives the name of the note."""
        return self._put("judgements", [judgement.to_dict() for judgement in judgements])

    def note_settings(self, settings: Mapping[str, str]) -> None:
        """Note settings that are about to be kept where there were none."""
        self._put("setting", dict(settings))

    def finish(self, *, added: int, at: datetime) -> Run | None:
        """Close the run, which added so many memories beside those from before it was broken off.

        None if it noted nothing.
        """
        if not self.run.groups:
            return None
        if self.resumed:
            seen = Seen()  # what was noted but not added when it was broken off has been noted again since
            noted = (_unpacked(value) for _, kind, value in _notes(self._store, self.run) if kind == "ids")
            added = sum(seen.add(id) for ids in noted for id in self._store.keys(ids))
        while True:  # another import of the same may be in this run, and have noted more
            before = self._store.get_value(_name(self.run))
            groups = self.run.groups if before is None else max(self.run.groups, _parsed(before).groups)
            self.run = replace(self.run, ended=at, added=added, groups=groups)
            if self._store.keep({_name(self.run): json.dumps(self.run.to_dict())}, expected={_name(self.run): before}):
                return self.run

    def _put(self, kind: _Kind, value: Any) -> str:
        while True:  # others in the same run, before this process or beside it, may have taken a number
            name = f"{NOTES}{self.run.id}/{self._number // GROUP:06d}/{self._number:08d}"
            changes: dict[str, str | None] = {name: _written(kind, value)}
            expected: dict[str, str | None] = {name: None}
            if self._number // GROUP >= self.run.groups:
                before = self._store.get_value(_name(self.run))
                known = self.run if before is None else _parsed(before)
                self.run = replace(known, groups=max(known.groups, self._number // GROUP + 1), ended=None)
                changes[_name(self.run)] = json.dumps(self.run.to_dict())
                expected[_name(self.run)] = before
            self._number += 1
            if self._store.keep(changes, expected=expected):
                return name


def undo(store: Store, id: str, *, progress: Callable[[int], None] = lambda done: None) -> Undone:
    """Take back an import: every memory, judgement and setting that it added, and no other.

    It may be broken off and done again: a note is forgotten only when what it names is gone.
    """
    kept = store.get_value(f"{RUNS}{id}")
    if kept is None:
        raise NotFound(f"there is no import {id}; see: retentive imports")
    memories = judgements = settings = 0
    touched: set[tuple[str, str]] = set()
    for name, kind, value in _notes(store, _parsed(kept)):
        if kind == "ids":
            ids = _unpacked(value)
            touched.update((one.profile, one.session) for one in store.get(ids) if one.session is not None)
            memories += store.remove(ids)
            progress(len(ids))
        elif kind == "judgements":
            judgements += store.unjudge([_judgement(one) for one in value])
        else:  # what was turned since stays
            settings += sum(store.keep({one: None}, expected={one: was}) for one, was in value.items())
        store.keep({name: None})
    _release(store, touched)
    store.keep({f"{RUNS}{id}": None})
    return Undone(id, memories, judgements, settings)


def _release(store: Store, touched: Set[tuple[str, str]]) -> None:
    """Let sessions of which nothing is left belong to no project: what comes next into one says where it goes."""
    for profile in sorted({profile for profile, _ in touched}):
        for session in store.sessions(profile):
            if session.project is not None and not session.memories and (profile, session.name) in touched:
                store.move_session(profile, session.name, project=None)


def _notes(store: Store, run: Run) -> Iterator[tuple[str, _Kind, Any]]:
    """What a run noted, the last first: what was said of a memory goes before the memory."""
    for group in reversed(range(run.groups)):
        notes = store.list_values(f"{NOTES}{run.id}/{group:06d}/")
        for name in sorted(notes, reverse=True):
            note = json.loads(notes[name])
            yield name, note["kind"], note["value"]


def _name(run: Run) -> str:
    return f"{RUNS}{run.id}"


def _written(kind: _Kind, value: Any) -> str:
    return json.dumps({"kind": kind, "value": value}, ensure_ascii=False)


def _packed(ids: Sequence[str]) -> str:
    return base64.b64encode(b"".join(UUID(id).bytes for id in ids)).decode()


def _unpacked(text: str) -> list[str]:
    data = base64.b64decode(text)
    return [str(UUID(bytes=data[at : at + 16])) for at in range(0, len(data), 16)]


def _parsed(kept: str) -> Run:
    fields = json.loads(kept)
    times = {name: fields[name] and datetime.fromisoformat(fields[name]) for name in ("started", "ended")}
    return Run(**{**fields, **times})


def _judgement(value: dict[str, Any]) -> Judgement:
    times = {name: value[name] and datetime.fromisoformat(value[name]) for name in ("created", "asked_at")}
    return Judgement(**{**value, **times})
