"""The tuning saved in a store for every process that uses it, with a history in which each change can be undone."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from retentive.errors import Invalid, NotFound, RetentiveError, VersionConflict
from retentive.models import DEFAULT_MIN_RELEVANCE, Serializable
from retentive.pipeline.remember import to_idempotency_key
from retentive.ranking import Tuning, preset
from retentive.ranking.tuning import (
    OUTSIDE_PRESETS,
    REMOVED,
    RENAMED,
    WHOLE,
    expand,
    from_earlier_version,
    parameter_name,
    parse_tuning,
    unknown_parameter,
)
from retentive.settings import Settings
from retentive.stores.base import KeyValue
from retentive.stores.json_entries import JsonEntries, Transaction, transact
from retentive.stores.rules import is_sent_again
from retentive.stores.sql_codec import to_micros
from retentive.stores.values import IdempotencyKey

log = logging.getLogger(__name__)

PARAMETERS, HISTORY = "tuning", "tuning/history"
EXPORTED = (PARAMETERS, HISTORY)
"""The key-value entries that an export includes."""

MAX_HISTORY = 200

_SAVED = JsonEntries[dict[str, Any]](PARAMETERS, dict[str, Any])
_HISTORY = JsonEntries[list[dict[str, Any]]](HISTORY, list[dict[str, Any]])
_REQUESTS = JsonEntries[dict[str, tuple[str, datetime]]]("tuning/requests", dict[str, tuple[str, datetime]])
"""The fingerprint and the time of each request, by its idempotency key, for a day."""


@dataclass(frozen=True, slots=True)
class TuningChange(Serializable):
    """The saved parameters before and after one change."""

    id: int
    at: datetime
    by: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    idempotency_key: str | None = None


PROMPT_DEPTH = 20
"""How many hits the judge reads for a prompt: an agent waits seconds for its language model."""


class SavedTuning:
    """`engine.tuning`: the tuning in effect, and the parameters saved in the store."""

    def __init__(self, store: KeyValue, settings: Settings, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._cached: tuple[str | None, Tuning] | None = None

    def current(self, override: Tuning | Mapping[str, Any] | str | None = None) -> Tuning:
        """The tuning in effect: configured parameters, over those saved in the store, over the defaults.

        `override` replaces it: a whole `Tuning`, some parameters, or the name of a preset, which leaves `min_relevance`
        and the parameters of the judge as they are.
        """
        if isinstance(override, Tuning):
            return override
        tuning = self._in_effect()
        if isinstance(override, str):
            kept = {name: getattr(tuning, name) for name in OUTSIDE_PRESETS}
            return preset(override).model_copy(update=kept)
        given: Any = {} if override is None else override
        if not isinstance(given, Mapping):
            raise Invalid(f"tuning: a Tuning, parameters by name, or the name of a preset, not {type(given).__name__}")
        return tuning.with_parameters(**given) if given else tuning

    def _in_effect(self) -> Tuning:
        saved = self._store.get_value(PARAMETERS)
        if self._cached is None or self._cached[0] != saved:
            self._cached = (saved, self._settings.tuned(_present(json.loads(saved or "{}"))))
        return self._cached[1]

    def for_prompt(self, override: Tuning | Mapping[str, Any] | str | None = None) -> Tuning:
        """The tuning of a recall whose memories a model reads: in chat, MCP, `/v1/context` and hooks.

        It is the tuning in effect, with a judge that filters and reads more hits, unless `judge` or its depth is set
        anywhere; if it is off, with a smallest relevance. A preset or block does not set them.
        """
        tuning = self.current(override)
        given = override if isinstance(override, Mapping) else {}
        set_anywhere = {*map(parameter_name, given), *self._in_effect().model_fields_set}
        if isinstance(override, Tuning):
            return tuning
        defaults: dict[str, Any] = {"judge": "filter", "judge_depth": PROMPT_DEPTH}
        if tuning.judge == "off":
            defaults["min_relevance"] = DEFAULT_MIN_RELEVANCE
        return tuning.model_copy(update={name: value for name, value in defaults.items() if name not in set_anywhere})

    def saved(self) -> dict[str, Any]:
        """The parameters saved in the store."""
        return saved_parameters(self._store)

    def save(
        self,
        parameters: Mapping[str, Any],
        *,
        by: str = "",
        if_version: str | None = None,
        idempotency_key: str | None = None,
    ) -> Tuning:
        """Save parameters for every process on this store and return the tuning in effect; None resets a parameter.

        `if_version` is the `version` of the tuning that the caller has read: `VersionConflict` if it has changed since.
        """
        check = self._version_check(if_version)
        save_parameters(self._store, parameters, by=by, now=self._clock(), check=check, idempotency_key=idempotency_key)
        return self.current()

    def _version_check(self, if_version: str | None) -> Callable[[dict[str, Any]], None]:
        """A function that raises `VersionConflict` if saved parameters give a tuning of another version."""

        def check(saved: dict[str, Any]) -> None:
            if if_version is not None and self._settings.tuned(saved).version != if_version:
                raise VersionConflict("the tuning has changed since it was read; read it again, nothing was changed")

        return check

    def history(self) -> Sequence[TuningChange]:
        """The changes of the saved parameters, newest first."""
        return history(self._store)

    def undo(
        self, id: int | None = None, *, by: str = "", if_version: str | None = None, idempotency_key: str | None = None
    ) -> Tuning:
        """Undo a change, the last one by default, and return the tuning in effect. `if_version`: see `save`."""
        check = self._version_check(if_version)
        undo_change(self._store, id, by=by, now=self._clock(), check=check, idempotency_key=idempotency_key)
        return self.current()


def saved_parameters(store: KeyValue) -> dict[str, Any]:
    """The parameters saved in a store."""
    return _present(_SAVED.get(store) or {})


def _present(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Saved parameters under their present names. Those of an earlier version are named in the log."""
    former = [name for name in saved if name in RENAMED or name in REMOVED]
    for name in former:
        _warn(f"saved by an earlier version: {unknown_parameter(name)}")
    return from_earlier_version(saved) if former else dict(saved)


@cache
def _warn(message: str) -> None:
    """Log a warning, once in this process."""
    log.warning(message)


def save_parameters(
    store: KeyValue,
    parameters: Mapping[str, Any],
    *,
    by: str,
    now: datetime,
    check: Callable[[dict[str, Any]], None] = lambda saved: None,
    idempotency_key: str | None = None,
) -> None:
    """Save parameters over the saved ones; None resets one.

    An unknown name or an invalid value raises `Invalid` and changes nothing. A preset or `hybrid` block replaces all
    saved parameters but `min_relevance`; None in its place resets all. Neither changes the parameters of the judge.

    A request that was made before under its idempotency key is not made again, whatever was changed since. `Conflict`
    if the key was used for another request.
    """

    def changed(before: dict[str, Any], _: Sequence[TuningChange]) -> dict[str, Any]:
        given = _by_python_name(parameters)
        unknown = [name for name in given if name not in Tuning.model_fields and name not in before]
        if unknown:
            raise Invalid(unknown_parameter(unknown[0]))
        wanted = {name: value for name, value in {**before, **given}.items() if value is not None}
        checked = parse_tuning(wanted)
        return checked.model_dump(include=set(checked.model_fields_set))

    request = ["save", {parameter_name(name): value for name, value in parameters.items()}]
    _change(store, changed, check, request, by=by, now=now, idempotency_key=idempotency_key)


def history(store: KeyValue) -> Sequence[TuningChange]:
    """The recorded changes, newest first."""
    return [_to_change(entry) for entry in reversed(_HISTORY.get(store) or [])]


def undo_change(
    store: KeyValue,
    id: int | None = None,
    *,
    by: str,
    now: datetime,
    check: Callable[[dict[str, Any]], None] = lambda saved: None,
    idempotency_key: str | None = None,
) -> None:
    """Restore the parameters from before a change, the last one by default. An undo can be undone too."""

    def restored(_: dict[str, Any], changes: Sequence[TuningChange]) -> dict[str, Any]:
        undone = next((change for change in reversed(changes) if id is None or change.id == id), None)
        if undone is None:
            raise NotFound("there is no change to undo" if id is None else f"there is no change {id} to undo")
        return _present(undone.before)

    _change(store, restored, check, ["undo", id], by=by, now=now, idempotency_key=idempotency_key)


def refusal(store: KeyValue, entries: Mapping[str, str]) -> str | None:
    """Why imported tuning entries cannot be saved here, in a sentence; None if they can."""
    if not entries.keys() <= set(EXPORTED):
        return "settings that this version does not know"
    try:
        parse_tuning(_present(json.loads(entries.get(PARAMETERS, "{}"))))
        list(map(_to_change, json.loads(entries.get(HISTORY, "[]"))))
    except (RetentiveError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return "settings that are not valid"
    if all(store.get_value(name) == value for name, value in entries.items()):
        return "these settings are there already"
    if any(store.get_value(name) is not None for name in EXPORTED):
        return "the store has saved settings of its own"
    return None


def _change(
    store: KeyValue,
    change: Callable[[dict[str, Any], Sequence[TuningChange]], dict[str, Any]],
    check: Callable[[dict[str, Any]], None],
    request: Sequence[Any],
    *,
    by: str,
    now: datetime,
    idempotency_key: str | None,
) -> None:
    """Change the saved parameters and record it. Of changes made at the same moment, none is lost.

    `change` gets the parameters and the changes so far, oldest first, and returns the new parameters. `check` gets the
    parameters in the same transaction, and may refuse the change.
    """
    key = None if idempotency_key is None else to_idempotency_key(idempotency_key, request, now)

    def work(transaction: Transaction) -> None:
        saved = transaction.get(_SAVED)
        before = _present(saved or {})
        entries = transaction.get(_HISTORY) or []
        changes = list(map(_to_change, entries))
        if key is not None and _is_repeated(transaction, key, changes):
            return
        check(before)
        after = change(before, changes)
        if after == before:
            return
        id = entries[-1]["id"] + 1 if entries else 1
        entries.append(_to_entry(TuningChange(id, now, by, before, after, idempotency_key)))
        transaction.set(_SAVED, after or None)
        transaction.set(_HISTORY, entries[-MAX_HISTORY:])

    transact(store, work)


def _is_repeated(transaction: Transaction, key: IdempotencyKey, changes: Sequence[TuningChange]) -> bool:
    """Whether a request was made before, also if it changed nothing. A new one is recorded."""
    recent = {
        name: recorded
        for name, recorded in (transaction.get(_REQUESTS) or {}).items()
        if recorded[1] >= key.expires_before
    }
    if key.name in recent and is_sent_again(key, recent[key.name][0], to_micros(recent[key.name][1])):
        return True
    transaction.set(_REQUESTS, {**recent, key.name: (key.fingerprint, key.at)})
    # An earlier version recorded it with the change only.
    return any(recorded.idempotency_key == key.name and recorded.at >= key.expires_before for recorded in changes)


def _by_python_name(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters under their Python names, so that one parameter in two spellings is one; None resets one."""
    whole = any(parameter_name(name) in WHOLE for name in parameters)
    reset = [parameter_name(name) for name, value in parameters.items() if value is None]
    given = expand({name: value for name, value in parameters.items() if value is not None})
    checked = parse_tuning(given)
    wanted = checked.model_dump(include=set(checked.model_fields_set))
    everything: dict[str, Any] = dict.fromkeys(Tuning.model_fields.keys() - set(OUTSIDE_PRESETS)) if whole else {}
    if any(name in WHOLE for name in reset):
        everything["min_relevance"] = None
    if whole:  # what equals its default is not saved, but a threshold of 0 is another one than none
        defaults = {**Tuning().model_dump(), "min_relevance": None}
        wanted = {name: value for name, value in wanted.items() if value != defaults[name]}
    return {**everything, **wanted, **dict.fromkeys(name for name in reset if name not in WHOLE)}


# In the store, the idempotency key is called "once"; stores written before must stay readable.


def _to_entry(change: TuningChange) -> dict[str, Any]:
    entry = change.to_dict()
    entry["once"] = entry.pop("idempotency_key")
    return entry


def _to_change(entry: dict[str, Any]) -> TuningChange:
    fields = {**entry, "at": datetime.fromisoformat(entry["at"])}
    fields["idempotency_key"] = fields.pop("once", None)
    return TuningChange(**fields)
