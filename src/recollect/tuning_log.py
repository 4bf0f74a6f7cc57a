"""The knobs that a store keeps for everybody who uses it, with a history in which any change can be taken back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from recollect.errors import Conflict, NotFound, RecollectError
from recollect.models import Plain
from recollect.ranking.tuning import parse_tuning, spelled_knob
from recollect.stores import Store

KNOBS, HISTORY = "tuning", "tuning/history"
EXPORTED = (KNOBS, HISTORY)
"""What of the notes in a store goes with it when it is exported."""

LONGEST = 200
"""So many changes are remembered."""

TRIES = 20


@dataclass(frozen=True, slots=True)
class Change(Plain):
    """The knobs that are kept, before and after somebody turned some."""

    id: int
    at: datetime
    by: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    once: str | None = None


def kept_knobs(store: Store) -> dict[str, Any]:
    """The knobs that are kept."""
    knobs: dict[str, Any] = json.loads(store.kept(KNOBS) or "{}")
    return knobs


def turn(store: Store, knobs: Mapping[str, Any], *, by: str, now: datetime, once: str | None = None) -> None:
    """Keep these knobs, over those that are kept; None takes one back. What is wrong is named, and nothing changes.

    `once` names this change: sent again under the same name, it is not made again, whatever came after it.
    """

    def turned(before: dict[str, Any]) -> dict[str, Any]:
        wanted = {name: value for name, value in {**before, **_spelled(knobs)}.items() if value is not None}
        checked = parse_tuning(wanted)
        return checked.model_dump(include=set(checked.model_fields_set))

    _change(store, turned, by=by, now=now, once=once)


def history(store: Store) -> Sequence[Change]:
    """Every change that is remembered, newest first."""
    return [_parsed(entry) for entry in reversed(json.loads(store.kept(HISTORY) or "[]"))]


def undo(store: Store, id: int | None = None, *, by: str, now: datetime, once: str | None = None) -> None:
    """Bring back the knobs as they were before a change, the last one if none is named. This too can be undone."""
    changes = history(store)
    if _made(changes, once):
        return
    found = next((change for change in changes if id is None or change.id == id), None)
    if found is None:
        raise NotFound("there is no change to undo" if id is None else f"there is no change {id} to undo")
    _change(store, lambda _: dict(found.before), by=by, now=now, once=once)


def refusal(store: Store, kept: Mapping[str, str]) -> str | None:
    """Why knobs and a history from elsewhere cannot be kept here, in a sentence; None if they can."""
    if not kept.keys() <= set(EXPORTED):
        return "settings that this version does not know"
    try:
        parse_tuning(json.loads(kept.get(KNOBS, "{}")))
        list(map(_parsed, json.loads(kept.get(HISTORY, "[]"))))
    except (RecollectError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return "settings that are not valid"
    if all(store.kept(name) == value for name, value in kept.items()):
        return "these settings are there already"
    if any(store.kept(name) is not None for name in EXPORTED):
        return "the store keeps settings of its own"
    return None


def _made(changes: Sequence[Change], once: str | None) -> bool:
    return once is not None and any(change.once == once for change in changes)


def _change(store: Store, change: Any, *, by: str, now: datetime, once: str | None) -> None:
    for _ in range(TRIES):  # another process may turn a knob at the same moment; neither change may be lost
        old, log = store.kept(KNOBS), store.kept(HISTORY)
        before: dict[str, Any] = json.loads(old or "{}")
        entries = json.loads(log or "[]")
        if _made(list(map(_parsed, entries)), once):
            return
        after = change(before)
        if after == before:
            return
        number = entries[-1]["id"] + 1 if entries else 1
        entries.append(Change(number, now, by, before, after, once).to_dict())
        new = {KNOBS: json.dumps(after) if after else None, HISTORY: json.dumps(entries[-LONGEST:])}
        if store.keep(new, expecting={KNOBS: old, HISTORY: log}):
            return
    raise Conflict("others are changing the settings at this moment; try again")


def _spelled(knobs: Mapping[str, Any]) -> dict[str, Any]:
    """The knobs under their Python names, so that one spelled two ways is one."""
    taken_back = [name for name, value in knobs.items() if value is None]
    spelled = parse_tuning({name: value for name, value in knobs.items() if value is not None})
    return {
        **spelled.model_dump(include=set(spelled.model_fields_set)),
        **{spelled_knob(name): None for name in taken_back},
    }


def _parsed(entry: dict[str, Any]) -> Change:
    return Change(**{**entry, "at": datetime.fromisoformat(entry["at"])})
