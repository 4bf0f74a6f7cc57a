"""Ids of memories on the command line: a unique prefix stands for an id."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from retentive.cli.options import shown_ids
from retentive.errors import Invalid, NotFound
from retentive.models import Scope, canonical_id, snippet

if TYPE_CHECKING:
    from retentive.engine import Engine

LEAST = 4
"""The least number of characters of an id that is accepted."""

LISTED = 10
WHOLE = 36
"""The length of a UUID."""


def resolve_id(engine: Engine, word: str) -> str:
    """Return the id that a word stands for: the word itself if it is a whole id, else the one id that starts with it.

    Only the ids of the profile are searched. `NotFound` if none starts with it, `Invalid` with a list if several do.
    """
    prefix = canonical_id(word.strip().lower())
    if len(prefix) >= WHOLE:
        return prefix
    scope = Scope(engine.settings.profile)
    found = engine.store.ids_with_prefix(prefix, within=scope, limit=LISTED + 1) if len(prefix) >= LEAST else []
    if not found:
        short = f"; give at least the first {LEAST} characters of an id" if len(prefix) < LEAST else ""
        raise NotFound(f"there is no memory {word}{short}")
    if len(found) > 1:
        raise Invalid(_ambiguous(engine, prefix, found))
    return found[0]


def resolve_ids(engine: Engine, words: Iterable[str] | None) -> list[str]:
    """Return the ids that words stand for, see `resolve_id`."""
    return [resolve_id(engine, word) for word in words or ()]


def _ambiguous(engine: Engine, prefix: str, found: Sequence[str]) -> str:
    texts = {memory.id: memory.indexed_text for memory in engine.get_many(found[:LISTED])}
    shown = shown_ids(engine, found[:LISTED])
    lines = [f"  {shown[id]}  {snippet(texts.get(id, ''), 36)}".rstrip() for id in found[:LISTED]]
    more = ["  …"] if len(found) > LISTED else []
    return "\n".join([f"several ids start with {prefix}; give more characters:", *lines, *more])
