"""Relevance judgements: how well memories answer a query, as a person rated them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from retentive.errors import Invalid, NotFound
from retentive.models import Scope, canonical_id, check_unicode
from retentive.stores.base import Store
from retentive.stores.values import Judgement

MAX_QUERY = 10_000
MAX_RELEVANCE = 3


class JudgementLog:
    """`engine.judgements`: list and remove relevance judgements. `engine.judge` adds them."""

    def __init__(self, store: Store, *, profile: str) -> None:
        self._store = store
        self._profile = profile

    def remove(self, *judgements: Judgement) -> int:
        """Remove judgements and return how many existed."""
        return self._store.unjudge(judgements)

    # Defined last: after it, `list` in this class is no longer the type.
    def list(self, *, project: str | None = None, profile: str | None = None) -> list[Judgement]:
        """Return the judgements of a profile or of one project, in the order in which they were first given."""
        return self._store.judgements(self._profile if profile is None else profile, project=project)


def to_judgements(
    store: Store,
    query: str,
    scope: Scope,
    *,
    good: Iterable[str] | Mapping[str, int],
    bad: Iterable[str],
    asked_at: datetime | None,
    now: datetime,
) -> list[Judgement]:
    """Check judgements and return them. `Invalid` if a recall in this scope could never return such a memory."""
    _check_query(query)
    bad_ids, grades = _ids(bad), _grades(good)
    both = sorted(set(bad_ids) & set(grades))
    if both:
        raise Invalid(f"memory {both[0]} cannot be good and bad at once")
    grades = {**dict.fromkeys(bad_ids, 0), **grades}
    if not grades:
        raise Invalid("name at least one memory that is good or bad")
    memories = {memory.id: memory for memory in store.get(list(grades), within=Scope(scope.profile))}
    for id in grades:
        if id not in memories:
            raise NotFound(f"there is no memory {id}")
        memory = memories[id]
        shared = memory.kind == "identity" and memory.project is None  # a recall of any project finds it
        if scope.project not in (None, memory.project) and not shared:
            raise Invalid(f"memory {id} is not in project '{scope.project}'; nothing was judged")
    text = query.strip()
    return [
        Judgement(text, id, grade, now, scope.profile, scope.project, asked_at) for id, grade in sorted(grades.items())
    ]


def _check_query(query: Any) -> None:
    if not isinstance(query, str) or not query.strip() or len(query) > MAX_QUERY:
        raise Invalid(f"query: a text of 1 to {MAX_QUERY:,} characters, not {query!r:.80}")
    check_unicode("query", query)


def _ids(given: Iterable[str]) -> list[str]:
    return [canonical_id(id) for id in ([given] if isinstance(given, str) else given)]


def _grades(good: Iterable[str] | Mapping[str, int]) -> dict[str, int]:
    given = good if isinstance(good, Mapping) else dict.fromkeys(_ids(good), 1)
    grades = {canonical_id(id): grade for id, grade in given.items()}
    for id, grade in grades.items():
        if type(grade) is not int or not 1 <= grade <= MAX_RELEVANCE:
            raise Invalid(f"the relevance of {id}: an integer from 1 to {MAX_RELEVANCE}, not {grade!r:.80}")
    return grades
