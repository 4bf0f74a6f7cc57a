"""What requests about memories carry in their bodies, with limits and examples that work."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    Tag,
    WithJsonSchema,
    field_validator,
)

from retentive.models import Kind
from retentive.server.http.fields import (
    EXAMPLE_ID,
    OTHER_ID,
    WHOLE,
    Camel,
    Id,
    Kinds,
    Name,
    Sessions,
    Sought,
    Text,
    Time,
)

Position = Annotated[int, Field(ge=0, lt=2**53), WHOLE]
Numbered = Annotated[int, Field(ge=1), WHOLE]
Importance = Annotated[float, Field(ge=0, le=1, description="How much it matters, from 0 to 1.")]
Metadata = Annotated[dict[str, JsonValue], Field(description="Anything else that is to be kept with it.")]


class MemoryIn(Camel):
    """Something to remember. Only the text is needed."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "text": "I am allergic to peanuts",
                    "session": "2026-05-08",
                    "speaker": "Ana",
                    "importance": 0.9,
                    "occurred": "2026-05-08T13:56:00+02:00",
                }
            ]
        }
    )

    text: Text
    id: Id | None = Field(None, description="A UUID of your own; without it one is made.")
    project: Name | None = None
    session: Name | None = None
    position: Position | None = Field(None, description="Its place in the session; else the next free one.")
    kind: Kind = Field("episodic", description="What happened (episodic), what is known (semantic), who one is.")
    speaker: Name | None = None
    importance: Importance = 0.5
    metadata: Metadata = Field(default_factory=dict)
    source: Name | None = Field(None, description="Where it comes from, such as notes/trip.md.")
    created: Time | None = Field(None, description="When it was noted down; else now.")
    occurred: Time | None = Field(None, description="When it happened, if that was another time.")
    evergreen: bool = Field(False, description="Whether it never fades with age.")


class MemoriesIn(Camel):
    """Several things to remember: all of them are stored, or none."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"memories": [{"text": "Bo plays the cello"}, {"text": "Ana lives in Lisbon", "kind": "semantic"}]}
            ]
        }
    )

    memories: list[MemoryIn] = Field(min_length=1)


def _one_or_many(value: Any) -> str:
    return "(many)" if isinstance(value, dict) and "memories" in value else "(one)"


OneOrMany = Annotated[
    Annotated[MemoryIn, Tag("(one)")] | Annotated[MemoriesIn, Tag("(many)")], Discriminator(_one_or_many)
]


def _never_null(schema: dict[str, Any]) -> None:
    """Null is no value of such a field: it only stands for one that was left out."""
    schema.pop("default")
    schema.update(schema.pop("anyOf")[0])


class MemoryPatch(Camel):
    """What to change of a memory; what is left out stays."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"importance": 1.0, "evergreen": True}], "minProperties": 1}
    )

    text: Text | None = Field(None, json_schema_extra=_never_null)
    kind: Kind | None = Field(None, json_schema_extra=_never_null)
    speaker: Name | None = None
    importance: Importance | None = Field(None, json_schema_extra=_never_null)
    metadata: Metadata | None = Field(None, json_schema_extra=_never_null)
    source: Name | None = None
    occurred: Time | None = None
    evergreen: bool | None = Field(None, json_schema_extra=_never_null)

    @field_validator("text", "kind", "importance", "metadata", "evergreen", mode="before")
    @classmethod
    def _stays_something(cls, value: Any) -> Any:
        if value is None:
            raise ValueError("this cannot be null; leave it out to keep it")
        return value


class ScopeIn(Camel):
    """Exactly these memories; an empty scope is the whole profile."""

    project: Sought | None = None
    session: Sessions | None = Field(None, description="A session, or several, each for itself alone.")
    kinds: Kinds | None = None


class ForgetThese(Camel):
    """Memories to forget by their ids."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"ids": [EXAMPLE_ID, OTHER_ID]}]})

    ids: list[Id] = Field(min_length=1, max_length=10_000)


def _meant(confirm: bool) -> bool:
    if not confirm:
        raise ValueError("forgetting a whole scope cannot be undone; say true if that is meant")
    return confirm


Confirmed = Annotated[bool, AfterValidator(_meant), WithJsonSchema({"type": "boolean", "const": True})]


class ForgetScope(Camel):
    """A whole scope to forget; `confirm` says that this is meant."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"scope": {"session": "2026-05-08"}, "confirm": True}]})

    scope: ScopeIn
    confirm: Confirmed = Field(description="It cannot be undone.")


def _ids_or_scope(value: Any) -> str:
    return "(scope)" if isinstance(value, dict) and "scope" in value else "(ids)"


IdsOrScope = Annotated[
    Annotated[ForgetThese, Tag("(ids)")] | Annotated[ForgetScope, Tag("(scope)")], Discriminator(_ids_or_scope)
]


class SessionPatch(Camel):
    """Where a session is to go, with all its memories."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"project": "garden"}]})

    project: Name | None = Field(description="The project; null takes the session out of its project.")


class UndoIn(Camel):
    """Which change to take back."""

    model_config = ConfigDict(json_schema_extra={"examples": [{}, {"id": 3}]})

    id: Numbered | None = Field(None, description="A change of the history; without it the last one.")
