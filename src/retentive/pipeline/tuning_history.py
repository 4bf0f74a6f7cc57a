"""The parameters that a store keeps for everybody who uses it, with a history in which any change can be taken back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from retentive.errors import Conflict, NotFound, RetentiveError
from retentive.models import Serializable
from retentive.ranking.tuning import parse_tuning, spelled_parameter
from retentive.stores import Store

PARAMETERS, HISTORY = "tuning", "tuning/history"
EXPORTED = (PARAMETERS, HISTORY)
"""What of the notes in a store goes with it when it is exported."""

LONGEST = 200
"""So many changes are remembered."""

TRIES = 20


@dataclass(frozen=True, slots=True)
class Change(Serializable):
    """The parameters that are kept, before and after somebody turned some."""

    id: int
    at: datetime
    by: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    idempotency_key: str | None = None


def kept_parameters(store: Store) -> dict[str, Any]:
    """The parameters that are kept."""
    parameters: dict[str, Any] = json.loads(store.get_value(PARAMETERS) or "{}")
    return parameters


def turn(
    store: Store, parameters: Mapping[str, Any], *, by: str, now: datetime, idempotency_key: str | None = None
) -> None:
    """Keep these parameters, over those that are kept; None takes one back. What is wrong is named, and nothing changes.

    `once` names this change: sent again under the same name, it is not made again, whatever came after it.
    """

    def turned(before: dict[str, Any]) -> dict[str, Any]:
        wanted = {name: value for name, value in {**before, **_spelled(parameters)}.items() if value is not None}
        checked = parse_tuning(wanted)
        return checked.model_dump(include=set(checked.model_fields_set))

    _change(store, turned, by=by, now=now, idempotency_key=idempotency_key)


def history(store: Store) -> Sequence[Change]:
    """Every change that is remembered, newest first."""
    return [_parsed(entry) for entry in reversed(json.loads(store.get_value(HISTORY) or "[]"))]


def undo(store: Store, id: int | None = None, *, by: str, now: datetime, idempotency_key: str | None = None) -> None:
    """Bring back the parameters as they were before a change, the last one if none is named. This too can be undone."""
    changes = history(store)
    if _made(changes, idempotency_key):
        return
    found = next((change for change in changes if id is None or change.id == id), None)
    if found is None:
        raise NotFound("there is no change to undo" if id is None else f"there is no change {id} to undo")
    _change(store, lambda _: dict(found.before), by=by, now=now, idempotency_key=idempotency_key)


def refusal(store: Store, kept: Mapping[str, str]) -> str | None:
    """Why parameters and a history from elsewhere cannot be kept here, in a sentence; None if they can."""
    if not kept.keys() <= set(EXPORTED):
        return "settings that this version does not know"
    try:
        parse_tuning(json.loads(kept.get(PARAMETERS, "{}")))
        list(map(_parsed, json.loads(kept.get(HISTORY, "[]"))))
    except (RetentiveError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return "settings that are not valid"
    if all(store.get_value(name) == value for name, value in kept.items()):
        return "these settings are there already"
    if any(store.get_value(name) is not None for name in EXPORTED):
        return "the store keeps settings of its own"
    return None


def _made(changes: Sequence[Change], idempotency_key: str | None) -> bool:
    return idempotency_key is not None and any(change.idempotency_key == idempotency_key for change in changes)


def _change(store: Store, change: Any, *, by: str, now: datetime, idempotency_key: str | None) -> None:
    for _ in range(TRIES):  # another process may turn a parameter at the same moment; neither change may be lost
        old, log = store.get_value(PARAMETERS), store.get_value(HISTORY)
        before: dict[str, Any] = json.loads(old or "{}")
        entries = json.loads(log or "[]")
        if _made(list(map(_parsed, entries)), idempotency_key):
            return
        after = change(before)
        if after == before:
            return
        number = entries[-1]["id"] + 1 if entries else 1
        entries.append(Change(number, now, by, before, after, idempotency_key).to_dict())
        new = {PARAMETERS: json.dumps(after) if after else None, HISTORY: json.dumps(entries[-LONGEST:])}
        if store.keep(new, expected={PARAMETERS: old, HISTORY: log}):
            return
    raise Conflict("others are changing the settings at this moment; try again")


def _spelled(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters under their Python names, so that one spelled two ways is one."""
    taken_back = [name for name, value in parameters.items() if value is None]
    spelled = parse_tuning({name: value for name, value in parameters.items() if value is not None})
    return {
        **spelled.model_dump(include=set(spelled.model_fields_set)),
        **{spelled_parameter(name): None for name in taken_back},
    }


def _parsed(entry: dict[str, Any]) -> Change:
    return Change(**{**entry, "at": datetime.fromisoformat(entry["at"])})
