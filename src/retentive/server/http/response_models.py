"""The schemas of responses in the OpenAPI document. Handlers return JSON directly, so these do no validation.

Pydantic writes the schema of a dataclass that a model contains, in camelCase, as configured for the model. Models are
needed for named tuples, which are objects in JSON, and for whole responses; `@fields_of` adds the fields of the value.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from typing import Any, Literal, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.alias_generators import to_camel
from pydantic.config import JsonDict

from retentive import models
from retentive.evaluation.tune import HeldOut, Verdict
from retentive.pipeline import access_tokens, explain, review, similar, timeline
from retentive.pipeline.given import Given
from retentive.server.http.telemetry import Latency
from retentive.server.http.tune_job import TuneStatus
from retentive.stores import damage, values

M = TypeVar("M", bound=BaseModel)


class _Response(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        json_schema_serialization_defaults_required=True,
    )


def fields_of(kind: type[Any]) -> Callable[[type[M]], type[M]]:
    """Add the fields of a dataclass or named tuple that the model does not declare."""

    def extend(model: type[M]) -> type[M]:
        hints = get_type_hints(kind)
        missing: dict[str, Any] = {
            name: (hints[name], ...) for name in kind.__annotations__ if name not in model.model_fields
        }
        return create_model(
            model.__name__, __base__=model, __module__=model.__module__, __doc__=model.__doc__, **missing
        )

    return extend


def _may_lack(*names: str) -> ConfigDict:
    """Configure a model whose responses may lack some fields."""

    def remove(schema: JsonDict) -> None:
        required = schema["required"]
        schema["required"] = [name for name in required if name not in names] if isinstance(required, list) else []

    return ConfigDict(json_schema_extra=remove)


@fields_of(models.Memory)
class Memory(_Response):
    """A memory."""

    position: int | None = Field(description="Position in its session.")
    accessed: datetime | None = Field(description="Time of the last recall that returned it.")
    access_count: int = Field(description="Number of recalls that returned it.")
    evergreen: bool = Field(description="Whether time decay does not apply to it.")
    content_hash: str = Field(description="Hash of the text, ignoring case, white space and punctuation.")
    key: str | None = Field(description="Key of the fact; a key has one memory that is not retired in a project.")
    valid_from: datetime | None = Field(description="Since when it is valid, if not since it happened.")
    valid_to: datetime | None = Field(description="When it was retired; null while it is not.")
    superseded_by: str | None = Field(description="The id of the memory that replaced it.")
    reason: str | None = Field(description="Why it was retired.")
    actor: str | None = Field(description="Who retired it.")
    expires: datetime | None = Field(description="When it expires.")


class MemoryList(_Response):
    """Several memories."""

    memories: list[Memory]


class Page(_Response):
    """One page of memories, newest first."""

    memories: list[Memory]
    next_cursor: str | None = Field(description="The `cursor` of the next page; null on the last page.")
    damaged: list[damage.Damage] = Field(description="Memories of this page that are damaged and cannot be returned.")


@fields_of(review.Suggestion)
class Suggestion(_Response):
    """That a memory may have replaced another one."""

    old: str = Field(description="The id of the memory that may have been replaced.")
    new: str = Field(description="The id of the memory that may have replaced it.")
    proposal: str | None = Field(description="What an LLM thinks of it, if it was asked.")


class Review(_Response):
    """A suggestion with its two memories."""

    suggestion: Suggestion
    old: Memory
    new: Memory


class ReviewList(_Response):
    """Suggestions, oldest first."""

    reviews: list[Review]
    total: int = Field(description="Number of suggestions with this status, also beyond the limit.")


class GivenList(_Response):
    """What prompts got, the latest first."""

    given: list[Given]


@fields_of(similar.Similar)
class Similar(_Response):
    """A memory that is like the one that was stored."""

    cosine: float | None = Field(description="The cosine of both; null if one has no vector.")
    words: list[str] = Field(description="The words of both.")


class Stored(Memory):
    """A memory as it was stored."""

    model_config = _may_lack("similar")

    similar: list[Similar] | None = Field(description="Memories that are like it, if they were asked for.")


class Swept(_Response):
    """The result of deleting what has expired."""

    swept: int = Field(description="Number of memories that were deleted.")


class Imported(_Response):
    """What an import did."""

    format: str = Field(description="The format of the file.")
    added: int = Field(description="Number of memories that were added.")
    existing: int = Field(description="Number of memories that were stored already.")
    skipped: dict[str, int] = Field(description="How many parts of the file were skipped, by reason.")
    warnings: dict[str, int] = Field(description="How many parts were imported with a change or a loss, by reason.")
    truncated: list[str] = Field(description="The places at which reading stopped; empty if everything was read.")


class Forgotten(_Response):
    """The result of forgetting memories."""

    forgotten: int = Field(description="Number of memories that existed and were deleted.")


class Reason(_Response):
    """The effect of one ranking step on one hit. The changes of a hit add up to its score."""

    step: str
    change: float
    score: float
    rank: int | None
    value: float | None
    note: str


class Hit(_Response):
    """A memory in the result."""

    model_config = _may_lack("why")

    rank: int
    id: str
    score: float
    relevance: float | None = Field(
        description="The estimated probability, from 0 to 1, that it answers the query or helps; null if not read."
    )
    memory: Memory
    why: list[Reason] = Field(description="The reasons for the score; missing if `explain` is false.")


@fields_of(models.Recall)
class Recall(_Response):
    """The result of a recall."""

    model_config = _may_lack("dropped", "terms", "shortIds")

    hits: list[Hit]
    relevance: float = Field(description="The estimated probability, from 0 to 1, that anything stored helps.")
    degraded: str | None = Field(description="What was missing, such as keyword-only; null if nothing was.")
    stages: dict[str, float] = Field(description="Duration of each stage, in milliseconds.")
    period: models.NamedPeriod | None = Field(description="The period that the query names; null if it names none.")
    dropped: list[Hit] = Field(description="The candidates that are not hits, if they were requested.")
    terms: list[str] = Field(
        description="The terms of the query that tell what it is about, if reasons were requested. A word is given by "
        "its stem, which the matching words of a memory start with."
    )
    short_ids: dict[str, str] = Field(description="The first characters of each id, by id, if they were requested.")


class EpisodeHit(Hit):
    """An episode, also with the fields of other systems."""

    session_id: str | int | None = Field(description="The session; a name that is a number is one.")
    content: str
    created_at: str


class EpisodeSearch(Recall):
    """The result of a keyword search in episodes."""

    hits: list[EpisodeHit]  # type: ignore[assignment] # a list of a subclass


class Move(_Response):
    """The ranks of a memory in two results; null if it is not in a result."""

    id: str
    rank_a: int | None
    rank_b: int | None
    change: int | None = Field(description="How many ranks higher it is in b than in a.")


class RecallComparison(_Response):
    """The results of one query with two tunings."""

    query: str
    a: Recall
    b: Recall
    moved: list[Move]


@fields_of(explain.Explanation)
class Explanation(_Response):
    """Why a memory ranks where it does for a query, or why it does not appear."""

    memory: Memory
    hit: Hit | None
    above: Hit | None = Field(description="The hit before it.")
    below: Hit | None = Field(description="The hit after it.")
    part: str | None = Field(description="The part of the scope or of the filter (time, metadata) that excludes it.")
    same_as: str | None = Field(description="The id of a higher hit with the same text.")


@fields_of(values.Session)
class Session(_Response):
    """A conversation or run, in at most one project."""


class Sessions(_Response):
    """Sessions, by name."""

    sessions: list[Session]


class Projects(_Response):
    """Projects, by name."""

    projects: list[values.Project]


class Profiles(_Response):
    """Profiles, by name."""

    profiles: list[values.Profile]


@fields_of(timeline.Timeline)
class Timeline(_Response):
    """Number of memories by kind over time, oldest first. Buckets without memories are left out."""

    first: date | None = Field(description="Day of the oldest memory.")
    last: date | None = Field(description="Day of the newest memory.")


class Stats(_Response):
    """Statistics of the store, or of one profile. For a profile, the fields about the whole store are missing."""

    model_config = _may_lack("profiles", "byKind", "vectors", "unembedded", "model", "bytes", "lastStored")

    memories: int
    projects: int
    sessions: int
    profile: str | None = Field(description="The profile; null for the whole store.")
    profiles: int
    by_kind: dict[str, int]
    vectors: int
    unembedded: int
    model: models.Model | None
    bytes: int
    last_stored: datetime | None = Field(description="When the newest memory was stored.")


class Llm(_Response):
    """The LLM of chat."""

    model: str | None = Field(description="The model for requests that name none.")
    extract_facts: bool = Field(description="Whether facts are extracted from each turn.")


class Status(_Response):
    """Status of the service. Callers with a token get the counts of their profile."""

    version: str
    uptime_seconds: float
    profile: str
    access: access_tokens.Access = Field(description="The access of the caller.")
    memories: int = Field(description="Number of memories of the profile.")
    store: str = Field(description="File name or database name of the store.")
    embedder: str
    model: models.Model | None
    degraded: bool = Field(description="Whether the semantic retriever is unavailable.")
    degraded_reason: str | None
    llm: Llm | None = Field(description="The LLM of chat; null if none is configured.")
    unembedded: int | None = Field(description="Number of memories without a vector.")
    latency: Latency
    recalls: int | None = Field(description="Number of recalls since the start.")
    degraded_recalls: dict[str, int] | None = Field(description="Number of degraded recalls, by what was missing.")
    errors: int | None = Field(description="Number of failed requests (5xx) since the start.")


@fields_of(access_tokens.Token)
class Token(_Response):
    """A token, without its secret."""

    profile: str | None = Field(description="The profile that it is limited to; null if it is valid for all.")


class TokenList(_Response):
    """The tokens, oldest first."""

    tokens: list[Token]


class CreatedToken(Token):
    """A new token."""

    token: str = Field(description="The secret to send as `Authorization: Bearer …`. It is not shown again.")


class JudgementList(_Response):
    """Relevance judgements, in the order in which they were first given."""

    judgements: list[values.Judgement]


class MeasuredQuery(_Response):
    """The metrics of one judged query with both tunings."""

    query: str
    project: str | None
    relevant: int = Field(description="Number of memories judged relevant.")
    a: dict[str, float]
    b: dict[str, float]


class Measured(_Response):
    """The metrics of two tunings on the judged queries."""

    n: int = Field(description="Number of queries.")
    sentence: str
    metrics: list[str] = Field(description="The names of the metrics.")
    a: dict[str, float] | None = Field(description="The mean of each metric; null if there are no queries.")
    b: dict[str, float] | None
    p: dict[str, float] | None = Field(
        description="The p-value of a paired randomisation test of the difference, by metric; null without queries."
    )
    queries: list[MeasuredQuery]
    degraded: str | None = Field(description="What was missing, such as keyword-only; null if nothing was.")
    degraded_reason: str | None


class ParameterChange(_Response):
    """A tuning parameter before and after tuning."""

    before: Any
    after: Any


class TuneResult(_Response):
    """The result of a tuning run; `better` only if held-out queries show a significant gain."""

    metric: str
    n: int
    searched: int = Field(description="Number of queries in the search.")
    folds: int
    folds_by: Literal["project", "query"]
    tunings: int = Field(description="Number of tunings tried.")
    verdict: Verdict
    parameters: dict[str, ParameterChange] = Field(
        description="The parameters that the search would change, as PATCH /settings accepts them."
    )
    held_out: dict[str, HeldOut]


@fields_of(TuneStatus)
class TuneProgress(_Response):
    """The progress of a tuning run."""

    detail: str | None = Field(description="The reason for a failure.")
    result: TuneResult | None


class TuningChange(_Response):
    """A change of the saved tuning parameters."""

    id: int
    at: datetime
    by: str
    before: dict[str, Any]
    after: dict[str, Any]


class TuningChanges(_Response):
    """Changes of the saved tuning parameters, newest first."""

    changes: list[TuningChange]


class FieldError(_Response):
    """An invalid field, and the reason."""

    field: str
    message: str


class Problem(_Response):
    """An error (RFC 9457)."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:retentive:problem:invalid",
                    "title": "Unprocessable Content",
                    "status": 422,
                    "code": "invalid",
                    "detail": "keywordWeight: input should be less than or equal to 5",
                    "errors": [{"field": "keywordWeight", "message": "input should be less than or equal to 5"}],
                }
            ]
        },
        json_schema_serialization_defaults_required=False,
    )

    type: str
    title: str
    status: int
    code: str = Field(description="A stable code for programs.")
    detail: str = Field(description="What happened, and what to do.")
    errors: list[FieldError] = Field(default=[], description="The invalid fields.")
