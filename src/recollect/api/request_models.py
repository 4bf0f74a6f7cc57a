"""What requests carry in their bodies, field by field with its limits and an example that works."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, JsonValue, Tag, WithJsonSchema, field_validator
from pydantic.json_schema import SkipJsonSchema

from recollect.api.fields import EXAMPLE_ID, OTHER_ID, Asked, Camel, Id, Kinds, Name, Sessions, Sought, Text, Time
from recollect.api.knobs import TuningChoice
from recollect.judge import MOST_RELEVANT
from recollect.models import Kind

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
    position: int | None = Field(None, ge=0, lt=2**53, description="Its place in the session; else the next free one.")
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


def _without_default(schema: dict[str, Any]) -> None:
    """Null is no value of such a field: it only stands for one that was left out."""
    schema.pop("default")


class MemoryPatch(Camel):
    """What to change of a memory; what is left out stays."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"importance": 1.0, "evergreen": True}], "minProperties": 1}
    )

    text: Text | SkipJsonSchema[None] = Field(None, json_schema_extra=_without_default)
    kind: Kind | SkipJsonSchema[None] = Field(None, json_schema_extra=_without_default)
    speaker: Name | None = None
    importance: Importance | SkipJsonSchema[None] = Field(None, json_schema_extra=_without_default)
    metadata: Metadata | SkipJsonSchema[None] = Field(None, json_schema_extra=_without_default)
    source: Name | None = None
    occurred: Time | None = None
    evergreen: bool | SkipJsonSchema[None] = Field(None, json_schema_extra=_without_default)

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


class ForgetScope(Camel):
    """A whole scope to forget; `confirm` says that this is meant."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"scope": {"session": "2026-05-08"}, "confirm": True}]})

    scope: ScopeIn
    confirm: Literal[True] = Field(description="It cannot be undone.")


def _ids_or_scope(value: Any) -> str:
    return "(scope)" if isinstance(value, dict) and "scope" in value else "(ids)"


IdsOrScope = Annotated[
    Annotated[ForgetThese, Tag("(ids)")] | Annotated[ForgetScope, Tag("(scope)")], Discriminator(_ids_or_scope)
]


class _Question(Camel):
    query: Asked = Field(description="What is asked, in plain words.")
    limit: int = Field(10, ge=1, le=200, description="The most hits.")
    project: Sought | None = Field(None, description="Only this project's memories.")
    session: Sessions | None = Field(
        None, description="A session, or several. One that belongs to a project stands for the whole project."
    )
    only_session: bool = Field(False, description="Whether a session stands for itself alone.")
    kinds: Kinds | None = None
    recent_ids: list[Id] = Field(
        default_factory=list, max_length=10_000, description="Memories that the caller already has."
    )
    now: Time | None = Field(None, description="The time at which it is asked; else now.")

    def asked(self) -> dict[str, Any]:
        """The arguments of a recall."""
        return {name: getattr(self, name) for name in _Question.model_fields if name != "query"}


class RecallIn(_Question):
    """A question, of which memories, and how the answer is to be ranked."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"query": "What can Ana not eat?", "limit": 5, "tuning": {"keywordWeight": 2.0}},
                {"query": "Who plays the cello?", "tuning": "classic-rrf", "explain": False},
            ]
        }
    )

    tuning: TuningChoice | None = Field(None, description="For this recall alone: knobs, or the name of a preset.")
    explain: bool = Field(True, description="Whether each hit says why it is there.")
    dropped: bool = Field(False, description="Whether to explain also what did not come into the result.")


class CompareIn(_Question):
    """A question and two tunings; null is the one in force."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"query": "What can Ana not eat?", "a": None, "b": {"keywordWeight": 5}}]}
    )

    a: TuningChoice | None = None
    b: TuningChoice | None = None


class SessionPatch(Camel):
    """Where a session is to go, with all its memories."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"project": "garden"}]})

    project: Name | None = Field(description="The project; null takes the session out of its project.")


def _graded(value: Any) -> Any:
    """Ids that are merely good are relevant to degree 1."""
    if isinstance(value, list):
        if not all(isinstance(id, str) for id in value):
            raise ValueError("a list of ids, or an object that gives each id a relevance")
        return dict.fromkeys(value, 1)
    return value


_GRADES = {"type": "object", "maxProperties": 1000, "propertyNames": {"format": "uuid"}}
Good = Annotated[
    dict[Id, Annotated[int, Field(ge=1, le=MOST_RELEVANT)]],
    Field(max_length=1000),
    BeforeValidator(_graded),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "array", "maxItems": 1000, "items": {"type": "string", "format": "uuid"}},
                {**_GRADES, "additionalProperties": {"type": "integer", "minimum": 1, "maximum": MOST_RELEVANT}},
            ]
        }
    ),
]


class JudgementIn(Camel):
    """What somebody says of memories as answers to a question. At least one is good or bad."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"question": "What can Ana not eat?", "good": {EXAMPLE_ID: 3}, "bad": [OTHER_ID]}]
        }
    )

    question: Asked
    good: Good = Field(default_factory=dict, description="Ids, or for each id a relevance from 1 to 3.")
    bad: list[Id] = Field(default_factory=list, max_length=1000)
    project: Name | None = Field(None, description="The project in which it was asked.")
    asked_at: Time | None = None


class JudgementNamed(Camel):
    """Which judgement is meant."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"question": "What can Ana not eat?", "memory": EXAMPLE_ID}]}
    )

    question: Asked
    memory: Id
    project: Sought | None = Field(None, description="The project in which it was asked, if it was asked in one.")


class UndoIn(Camel):
    """Which change to take back."""

    model_config = ConfigDict(json_schema_extra={"examples": [{}, {"id": 3}]})

    id: int | None = Field(None, ge=1, description="A change of the history; without it the last one.")
