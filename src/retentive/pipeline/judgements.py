"""What somebody says of memories becomes judgements, checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from retentive.errors import Invalid, NotFound
from retentive.models import Judgement, Scope
from retentive.stores import Store

MAX_QUERY = 10_000
MOST_RELEVANT = 3


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
    """The judgements that were meant; `Invalid` if a recall in this scope could never give such a memory."""
    _check_query(query)
    grades = {**dict.fromkeys(_ids(bad), 0), **_grades(good)}
    both = sorted(set(_ids(bad)) & set(_grades(good)))
    if both:
        raise Invalid(f"memory {both[0]} cannot be good and bad at once")
    if not grades:
        raise Invalid("name at least one memory that is good or bad")
    memories = {memory.id: memory for memory in store.get(list(grades))}
    for id in grades:
        if id not in memories or memories[id].profile != scope.profile:
            raise NotFound(f"there is no memory {id}")
        if scope.project not in (None, memories[id].project):
            raise Invalid(f"memory {id} is not in project '{scope.project}'; nothing was judged")
    text = query.strip()
    return [
        Judgement(text, id, grade, now, scope.profile, scope.project, asked_at) for id, grade in sorted(grades.items())
    ]


def _check_query(query: Any) -> None:
    if not isinstance(query, str) or not query.strip() or len(query) > MAX_QUERY:
        raise Invalid(f"query: a text of 1 to {MAX_QUERY:,} characters, not {query!r:.80}")
    try:
        query.encode()
    except UnicodeEncodeError:
        raise Invalid("query: half of a surrogate pair cannot be stored") from None


def _ids(given: Iterable[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def _grades(good: Iterable[str] | Mapping[str, int]) -> dict[str, int]:
    grades = dict(good) if isinstance(good, Mapping) else dict.fromkeys(_ids(good), 1)
    for id, grade in grades.items():
        if type(grade) is not int or not 1 <= grade <= MOST_RELEVANT:
            raise Invalid(f"the relevance of {id}: a whole number from 1 to {MOST_RELEVANT}, not {grade!r:.80}")
    return grades
