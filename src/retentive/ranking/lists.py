"""Ranked lists from ids and scores, for callers with retrievers of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from retentive.models import Candidate, Memory, RankedList

_NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)
_NO_TEXTS: Mapping[str, str] = {}


def ranked_list(
    name: str, found: Iterable[str | tuple[str, float]], *, weight: float = 1.0, texts: Mapping[str, str] = _NO_TEXTS
) -> RankedList:
    """Make a ranked list of what a retriever found, best first: ids with scores, or ids alone for fusion by ranks.

    Larger scores are better. `texts` has the texts by id; deduplication compares them. An id without a text is never a
    duplicate.
    """
    candidates = []
    for place, item in enumerate(found, 1):
        id, score = (item, 1.0 / place) if isinstance(item, str) else item
        text = texts.get(id)
        hash = "" if text is not None else f"id {id}"
        candidates.append(Candidate(Memory(id, id if text is None else text, _NO_TIME, content_hash=hash), score))
    return RankedList(name, tuple(candidates), weight)
