"""Functions that the adapters share: the view of a profile, the metadata of a hit, and the check of options."""

from __future__ import annotations

from typing import Any

from retentive.engine import Engine
from retentive.errors import Invalid
from retentive.models import Hit
from retentive.pipeline.query_options import QueryOptions
from retentive.tenancy import ProfileView

HIT_FIELDS = ("rank", "score", "when", "created", "kind", "speaker", "importance", "project", "session", "source")
"""Fields of a hit in the metadata of a document. The memory's own metadata cannot use these names."""


def profile_view(memory: Engine | ProfileView) -> ProfileView:
    """Return a view of the engine's own profile, or the view that was given."""
    return memory if isinstance(memory, ProfileView) else ProfileView(memory, memory.settings.profile)


def hit_metadata(hit: Hit) -> dict[str, Any]:
    """Return the memory's own metadata with the fields of the hit, as JSON values. Empty fields are left out."""
    memory = hit.memory
    fields = {
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
    own = {name: value for name, value in memory.metadata.items() if name not in HIT_FIELDS}
    return own | {name: value for name, value in fields.items() if value is not None}


def check_options(options: QueryOptions) -> QueryOptions:
    """Return the options of a query; `Invalid` if there is an unknown one. The profile cannot be chosen."""
    valid = [name for name in QueryOptions.__annotations__ if name != "profile"]
    unknown = sorted(options.keys() - set(valid))
    if unknown:
        raise Invalid(f"unexpected option '{unknown[0]}'; valid options: {', '.join(valid)}")
    return options
