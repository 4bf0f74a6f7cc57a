"""What comes with imported memories: judgements of them, and the settings of a whole store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from retentive.errors import Invalid, NotFound
from retentive.models import Judgement
from retentive.pipeline import tuning_history as tuning_log
from retentive.stores import Store
from retentive.transfer.formats import Setting
from retentive.transfer.importing.log import RunLog

_Said = tuple[str | None, str, str]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judgement, and where it stands."""

    judgement: Judgement
    where: str


class Asides:
    """Keeps what is new; what the store has stays as it is. Without a log, it only says what it would keep."""

    def __init__(self, store: Store, log: RunLog | None, skip: Callable[[str, str], None]) -> None:
        self._store = store
        self._log = log
        self._skip = skip
        self._known: dict[str, set[_Said]] = {}

    def judge(self, given: Sequence[Verdict]) -> int:
        """How many of these judgements are new and were kept."""
        new = []
        for one in given:
            said = (one.judgement.project, one.judgement.query, one.judgement.memory)
            known = self._said(one.judgement.profile)
            if said not in known:
                known.add(said)
                new.append(one)
        if self._log is None or not new:
            return len(new)
        there = self._store.keys([one.judgement.memory for one in new])
        for one in new:
            if one.judgement.memory not in there:
                self._skip(one.where, "the memory that was judged is not there")
        return self._keep(self._log, [one for one in new if one.judgement.memory in there])

    def _keep(self, log: RunLog, good: Sequence[Verdict]) -> int:
        if not good:
            return 0
        judgements = [one.judgement for one in good]
        note = log.note_judgements(judgements)
        try:
            self._store.judge(judgements)
        except (NotFound, Invalid) as error:  # a file in which one profile judges another's memory
            log.take_back(note)
            for one in good:
                self._skip(one.where, str(error))
            return 0
        return len(good)

    def _said(self, profile: str) -> set[_Said]:
        if profile not in self._known:
            judged = self._store.judgements(profile)
            self._known[profile] = {(one.project, one.query, one.memory) for one in judged}
        return self._known[profile]

    def keep_settings(self, settings: Sequence[Setting], *, into_profile: bool) -> int:
        """How many settings were kept: all where there are none yet, or not one."""
        wanted = {one.name: one.value for one in settings}
        if not wanted:
            return 0
        reason = "settings of a whole store, and this goes into one profile" if into_profile else None
        reason = reason or tuning_log.refusal(self._store, wanted)
        if reason:
            for one in settings:
                self._skip(one.where, reason)
            return 0
        if self._log is not None:
            self._log.note_settings(wanted)
            self._store.keep(wanted, expected=dict.fromkeys(wanted))
        return len(wanted)
