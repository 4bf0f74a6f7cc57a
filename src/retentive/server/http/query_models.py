"""What requests about queries carry in their bodies: the query itself, and what people say of its answers."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema

from retentive.evaluation.metrics import Metric
from retentive.evaluation.tune import BUDGET, FEWEST, METRIC, SAMPLE, SEED
from retentive.pipeline.judgements import MAX_RELEVANCE
from retentive.server.http.fields import (
    EXAMPLE_ID,
    OTHER_ID,
    WHOLE,
    Camel,
    Id,
    Kinds,
    Name,
    QueryOptions,
    Sessions,
    Sought,
    Time,
)
from retentive.server.http.tuning_parameters import TuningChoice

Limit = Annotated[int, Field(ge=1, le=200), WHOLE]


class _Query(Camel):
    query: QueryOptions = Field(description="What is asked, in plain words.")
    limit: Limit = Field(10, description="The most hits.")
    project: Sought | None = Field(None, description="Only this project's memories.")
    session: Sessions | None = Field(
        None, description="A session, or several. One that belongs to a project stands for the whole project."
    )
    only_session: bool = Field(False, description="Whether a session stands for itself alone.")
    kinds: Kinds | None = None
    exclude: list[Id] = Field(
        default_factory=list, max_length=10_000, description="Memories that the caller already has."
    )
    now: Time | None = Field(None, description="The time at which it is asked; else now.")

    def asked(self) -> dict[str, Any]:
        """The arguments of a recall."""
        return {name: getattr(self, name) for name in _Query.model_fields if name != "query"}


class RecallIn(_Query):
    """A query, of which memories, and how the answer is to be ranked."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"query": "What can Ana not eat?", "limit": 5, "tuning": {"keywordWeight": 2.0}},
                {"query": "Who plays the cello?", "tuning": "classic-rrf", "explain": False},
            ]
        }
    )

    tuning: TuningChoice | None = Field(None, description="For this recall alone: parameters, or the name of a preset.")
    explain: bool = Field(True, description="Whether each hit says why it is there.")
    dropped: bool = Field(False, description="Whether to explain also what did not come into the result.")


class ExplainIn(_Query):
    """A query, and the memory that it is about."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"query": "What can Ana not eat?", "id": EXAMPLE_ID}]})

    id: Id = Field(description="The memory whose place is to be explained.")
    tuning: TuningChoice | None = Field(None, description="For this recall alone: parameters, or the name of a preset.")


class CompareIn(_Query):
    """A query and two tunings; null is the one in force."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"query": "What can Ana not eat?", "a": None, "b": {"keywordWeight": 5}}]}
    )

    a: TuningChoice | None = None
    b: TuningChoice | None = None
    dropped: bool = Field(False, description="Whether to explain also what did not come into the results.")


def _graded(value: Any) -> Any:
    """Ids that are merely good are relevant to degree 1."""
    if isinstance(value, list):
        if not all(isinstance(id, str) for id in value):
            raise ValueError("a list of ids, or an object that gives each id a relevance")
        return dict.fromkeys(value, 1)
    return value


_GRADES = {"type": "object", "maxProperties": 1000, "propertyNames": {"format": "uuid"}}
Good = Annotated[
    dict[Id, Annotated[int, Field(ge=1, le=MAX_RELEVANCE), WHOLE]],
    Field(max_length=1000),
    BeforeValidator(_graded),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "array", "maxItems": 1000, "items": {"type": "string", "format": "uuid"}},
                {**_GRADES, "additionalProperties": {"type": "integer", "minimum": 1, "maximum": MAX_RELEVANCE}},
            ]
        }
    ),
]


class JudgementIn(Camel):
    """What somebody says of memories as answers to a query. At least one is good or bad."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"query": "What can Ana not eat?", "good": {EXAMPLE_ID: 3}, "bad": [OTHER_ID]}],
            "anyOf": [
                {"required": ["good"], "properties": {"good": {"minItems": 1, "minProperties": 1}}},
                {"required": ["bad"], "properties": {"bad": {"minItems": 1}}},
            ],
        }
    )

    query: QueryOptions
    good: Good = Field(default_factory=dict, description="Ids, or for each id a relevance from 1 to 3.")
    bad: list[Id] = Field(default_factory=list, max_length=1000)
    project: Name | None = Field(None, description="The project in which it was asked.")
    asked_at: Time | None = None


class MeasureIn(Camel):
    """Two tunings to measure on what was judged; null is the one in force."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"a": None, "b": {"keywordWeight": 5}}, {"b": "weighted"}]}
    )

    a: TuningChoice | None = None
    b: TuningChoice | None = None
    project: Sought | None = Field(None, description="Only queries that were asked of this project.")
    limit: Annotated[int, Field(ge=1, le=2000), WHOLE] = Field(
        500, description="The most queries; of more, those judged last are asked."
    )


class TuneIn(Camel):
    """How to look for better parameters."""

    model_config = ConfigDict(json_schema_extra={"examples": [{}, {"metric": "MRR", "budget": 50}]})

    metric: Metric = Field(METRIC, description="What to raise.")
    budget: Annotated[int, Field(ge=1, le=2000), WHOLE] = Field(
        BUDGET, description="How many tunings each search may look at."
    )
    sample: Annotated[int, Field(ge=FEWEST, le=5000), WHOLE] = Field(
        SAMPLE, description="On how many queries to search; the verdict is on all."
    )
    seed: Annotated[int, Field(ge=0, lt=2**32), WHOLE] = Field(SEED, description="Another seed searches otherwise.")


class JudgementNamed(Camel):
    """Which judgement is meant."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"query": "What can Ana not eat?", "memory": EXAMPLE_ID}]}
    )

    query: QueryOptions
    memory: Id
    project: Sought | None = Field(None, description="The project in which it was asked, if it was asked in one.")
