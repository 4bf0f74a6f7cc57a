"""The review queue: pairs of memories of which the newer one may have replaced the older one.

A suggestion changes nothing until somebody confirms it, and that can be undone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal
from uuid import uuid4

from retentive.errors import Conflict, NotFound, RetentiveError
from retentive.models import Memory, Scope, Serializable, check_unicode, hash_text
from retentive.pipeline.facts import FactWriter
from retentive.pipeline.remember import CHANGE
from retentive.pipeline.similar import find_replaced
from retentive.stores.base import Store
from retentive.stores.json_entries import JsonEntries, Transaction, transact

log = logging.getLogger(__name__)

Status = Literal["open", "confirmed", "dismissed"]
STATUSES: tuple[Status, ...] = ("open", "confirmed", "dismissed")


@dataclass(frozen=True, slots=True)
class Suggestion(Serializable):
    """That a memory may have replaced another one. `proposal` is what an LLM thinks of it, if it was asked."""

    id: str
    profile: str
    old: str
    new: str
    reason: str
    created: datetime
    status: Status = "open"
    proposal: str | None = None


@dataclass(frozen=True, slots=True)
class Review(Serializable):
    """A suggestion with its two memories."""

    suggestion: Suggestion
    old: Memory
    new: Memory


class Reviews:
    """`engine.reviews`: the suggestions of a store, to confirm or to dismiss."""

    def __init__(self, store: Store, *, profile: str, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._profile = profile
        self._now = clock

    def suggest(self, memory: Memory) -> None:
        """Queue what a stored memory may have replaced, by the words in which it says that something has changed.

        A failure is logged: the memory is stored.
        """
        try:
            for similar, phrase in find_replaced(self._store, memory, now=self._now()):
                why = f'"{phrase.lower()}", and both are about {", ".join(similar.words[:5])}'
                self.add(similar.id, memory, why[:500])
        except RetentiveError as error:
            log.warning("no suggestions were made for memory %s: %s", memory.id, error)

    def suggest_again(self, memory: Memory) -> None:
        """Replace what the queue has about a memory with another text: it quotes the words of the old one."""
        self._drop_words(memory.id)
        if CHANGE.search(memory.text):
            self.suggest(memory)

    def add(self, old: str, new: Memory, reason: str) -> Suggestion:
        """Queue a pair of memories, once."""
        suggestion = Suggestion(str(uuid4()), new.profile, old, new.id, reason, self._now())
        entries = _entries(new.profile)
        for queued in entries.list(self._store).values():
            if (queued.old, queued.new) == (old, new.id):
                return queued
        transact(self._store, lambda transaction: transaction.create(entries, suggestion, suggestion.id))
        return suggestion

    def list(
        self, *, profile: str | None = None, status: Status = "open", within: Scope | None = None
    ) -> Sequence[Review]:
        """Return the suggestions with this status, oldest first. Those whose memories were forgotten are left out."""
        owner = self._profile if profile is None else profile
        suggestions = sorted(
            _entries(owner).list(self._store).values(), key=lambda suggestion: (suggestion.created, suggestion.id)
        )
        wanted = [suggestion for suggestion in suggestions if suggestion.status == status]
        ids = [id for suggestion in wanted for id in (suggestion.old, suggestion.new)]
        memories = {memory.id: memory for memory in self._store.get(ids, within=within or Scope(owner))}
        pairs = ((suggestion, memories.get(suggestion.old), memories.get(suggestion.new)) for suggestion in wanted)
        return [Review(suggestion, old, new) for suggestion, old, new in pairs if old is not None and new is not None]

    def confirm(
        self, id: str, *, actor: str | None = None, profile: str | None = None, within: Scope | None = None
    ) -> Suggestion:
        """Replace the old memory by the new one."""
        suggestion = self._get(id, profile, within, "open")
        facts = FactWriter(self._store, within=within or Scope(suggestion.profile))
        facts.supersede(suggestion.old, suggestion.new, now=self._now(), reason=suggestion.reason, actor=actor)
        return self._set(suggestion, status="confirmed")

    def dismiss(self, id: str, *, profile: str | None = None, within: Scope | None = None) -> Suggestion:
        """Keep both memories, and do not suggest it again."""
        return self._set(self._get(id, profile, within, "open"), status="dismissed")

    def undo(self, id: str, *, profile: str | None = None, within: Scope | None = None) -> Suggestion:
        """Undo that a suggestion was confirmed or dismissed: it is open again."""
        suggestion = self._get(id, profile, within, None)
        if suggestion.status == "confirmed":
            FactWriter(self._store, within=within or Scope(suggestion.profile)).restore(suggestion.old)
        return self._set(suggestion, status="open")

    def record_proposal(self, suggestion: Suggestion, proposal: str) -> Suggestion:
        """Store what an LLM thinks of a suggestion. Nothing else changes."""
        return self._set(suggestion, proposal=proposal)

    def drop_forgotten(self) -> None:
        """Delete the suggestions about memories that do not exist any more: they quote their words.

        A failure is logged.
        """
        try:
            suggestions = JsonEntries[Suggestion](_PREFIX, Suggestion).list(self._store)
            ids = {id for suggestion in suggestions.values() for id in (suggestion.old, suggestion.new)}
            existing = {memory.id for memory in self._store.get(sorted(ids))} if ids else ids
            gone = [
                key
                for key, suggestion in suggestions.items()
                if not existing.issuperset((suggestion.old, suggestion.new))
            ]
            if gone:
                self._store.compare_and_set({_PREFIX + key: None for key in gone})
        except RetentiveError as error:
            log.warning("suggestions about forgotten memories were not deleted: %s", error)

    def _get(self, id: str, profile: str | None, within: Scope | None, status: Status | None) -> Suggestion:
        check_unicode("id", id)
        owner = self._profile if profile is None else profile
        suggestion = _entries(owner).get(self._store, id)
        if suggestion is None or (
            within is not None and len(self._store.get([suggestion.old, suggestion.new], within=within)) < 2
        ):
            raise NotFound(f"there is no suggestion {id}; see: retentive review")
        if status is not None and suggestion.status != status:
            raise Conflict(f"suggestion {id} is {suggestion.status} already; undo it first: retentive review undo {id}")
        return suggestion

    def _set(self, suggestion: Suggestion, *, status: Status | None = None, proposal: str | None = None) -> Suggestion:
        entries = _entries(suggestion.profile)

        def change(transaction: Transaction) -> Suggestion:
            current = transaction.get(entries, suggestion.id) or suggestion
            changed = replace(current, status=status or current.status, proposal=proposal or current.proposal)
            transaction.set(entries, changed, suggestion.id)
            return changed

        return transact(self._store, change)

    def _drop_words(self, id: str) -> None:
        """Remove the words of a memory whose text has changed: from open suggestions by deleting them.

        A suggestion that was decided keeps its decision, so that it can be undone. A failure is logged.
        """
        try:
            entries = JsonEntries[Suggestion](_PREFIX, Suggestion)
            about = {
                key: suggestion
                for key, suggestion in entries.list(self._store).items()
                if id in (suggestion.old, suggestion.new)
            }
            if about:
                decided = {
                    key: entries.dump(replace(suggestion, reason="", proposal=None))
                    for key, suggestion in about.items()
                }
                self._store.compare_and_set(
                    {
                        _PREFIX + key: None if suggestion.status == "open" else decided[key]
                        for key, suggestion in about.items()
                    }
                )
        except RetentiveError as error:
            log.warning("suggestions about memory %s were not deleted: %s", id, error)


_PREFIX = "review/"


def _entries(profile: str) -> JsonEntries[Suggestion]:
    """The suggestions of a profile. Its name may have any characters, so that the entries have its hash."""
    return JsonEntries(f"{_PREFIX}{hash_text(profile)}/", Suggestion)
