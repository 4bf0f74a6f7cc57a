"""What the adapters share: the wall around a profile, and a hit as the metadata of a document."""

from __future__ import annotations

from typing import Any

from retentive.engine import Engine, QueryOptions
from retentive.errors import Invalid
from retentive.models import Hit
from retentive.tenancy import ProfileView

FACTS = ("rank", "score", "when", "created", "kind", "speaker", "importance", "project", "session", "source")
"""What is told of every hit beside its text and id; a memory's own metadata cannot take these names."""


def confined(memory: Engine | ProfileView) -> ProfileView:
    """The wall itself, or one around the engine's own profile."""
    return memory if isinstance(memory, ProfileView) else ProfileView(memory, memory.settings.profile)


def facts(hit: Hit) -> dict[str, Any]:
    """A memory's metadata, and beside it what is known of the memory and of its place; plain JSON values."""
    memory = hit.memory
    known = {
        "rank": hit.rank,
        "score": hit.score,
        "when": memory.when.isoformat(),
        "created": memory.created.isoformat(),
        "kind": memory.kind,
        "speaker": memory.speaker,
        "importance": memory.importance,
        "project": memory.project,
        "session": memory.session,
        "source": memory.source,
    }
    given = {name: value for name, value in memory.metadata.items() if name not in FACTS}
    return given | {name: value for name, value in known.items() if value is not None}


def check_asked(asked: QueryOptions) -> QueryOptions:
    """What is asked beside every query, if it is nothing but that."""
    unknown = sorted(asked.keys() - QueryOptions.__annotations__.keys())
    if unknown:
        raise Invalid(f"a query is not asked with '{unknown[0]}'; it is with {', '.join(QueryOptions.__annotations__)}")
    return asked
