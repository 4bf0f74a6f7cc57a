"""What answers look like. Handlers send plain values of these shapes; the models are for the OpenAPI document."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel

from retentive import models
from retentive.models import Kind


class _Answer(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, json_schema_extra={"additionalProperties": False}
    )


class Memory(_Answer):
    """One stored thing."""

    id: str
    text: str
    created: datetime
    profile: str
    project: str | None
    session: str | None
    position: int | None = Field(description="Its place in the session.")
    kind: Kind
    speaker: str | None
    importance: float
    metadata: dict[str, JsonValue]
    source: str | None
    occurred: datetime | None
    accessed: datetime | None = Field(description="When a recall last gave it.")
    access_count: int
    evergreen: bool
    content_hash: str = Field(description="The same for texts that say the same thing.")


class Memories(_Answer):
    """Several memories."""

    memories: list[Memory]


class Page(_Answer):
    """Some memories, newest first, and where to go on."""

    memories: list[Memory]
    next_cursor: str | None = Field(description="What to send as `cursor` for the next page; null at the end.")


class Forgotten(_Answer):
    """How many memories there were, and are no more."""

    forgotten: int


class Reason(_Answer):
    """What one step of ranking did to one hit. The changes of a hit add up to its score."""

    step: str
    change: float
    score: float
    rank: int | None
    value: float | None
    note: str


class Hit(_Answer):
    """A memory in the result, with its score and why."""

    rank: int
    id: str
    score: float
    memory: Memory
    why: list[Reason] = Field(default=[], description="Left out where no explanation was asked for.")


class RetrieverReport(_Answer):
    """How one search of a recall went."""

    name: str
    weight: float
    ran: bool
    found: int
    elapsed_ms: float
    note: str


class Recall(_Answer):
    """The answer to a query."""

    query: str
    hits: list[Hit]
    retrievers: list[RetrieverReport]
    degraded: str | None = Field(description="What is missing, such as keyword-only; null if nothing is.")
    degraded_reason: str | None
    elapsed_ms: float
    stages: dict[str, float] = Field(description="Milliseconds by stage.")
    dropped: list[Hit] = Field(default=[], description="What did not come into the result; there if it was asked for.")


class Move(_Answer):
    """Where a memory stands in each list, null where it is not in it."""

    id: str
    rank_a: int | None
    rank_b: int | None
    change: int | None = Field(description="How many places higher it is in b than in a.")


class Standing(_Answer):
    """How one retriever of a recall sees a memory, whether it brought it or not."""

    retriever: str
    ran: bool
    score: float | None = Field(description="The retriever's own score of it.")
    rank: int | None = Field(
        description="Its place among all memories asked of; null where the retriever cannot find it."
    )
    found: int = Field(description="How many candidates the retriever brought.")
    last: float | None = Field(description="What the last of them scored.")
    note: str


class Explanation(_Answer):
    """Why a memory ranked where it did for a query, or why it did not appear."""

    query: str
    memory: Memory
    outcome: models.Outcome
    sentence: str
    standings: list[Standing]
    hit: Hit | None
    above: Hit | None = Field(description="The hit just before it.")
    below: Hit | None = Field(description="The hit just behind it.")
    part: str | None = Field(description="What of the scope it is outside of.")
    same_as: str | None = Field(description="The id of the hit that says the same.")
    degraded: str | None
    degraded_reason: str | None


class Comparison(_Answer):
    """One query, two tunings: both lists, and what moved."""

    query: str
    a: Recall
    b: Recall
    moved: list[Move]


class Session(_Answer):
    """A conversation or run, in at most one project."""

    name: str
    profile: str
    project: str | None
    memories: int
    first: datetime | None
    last: datetime | None


class Sessions(_Answer):
    """Sessions, by name."""

    sessions: list[Session]


class Project(_Answer):
    """A set of sessions, and memories that belong to no session."""

    name: str
    profile: str
    sessions: int
    memories: int


class Projects(_Answer):
    """Projects, by name."""

    projects: list[Project]


class Profile(_Answer):
    """Whose memories: the wall that no recall sees across."""

    name: str
    projects: int
    sessions: int
    memories: int


class Profiles(_Answer):
    """Profiles, by name."""

    profiles: list[Profile]


class Bucket(_Answer):
    """How many memories there are of a day, a month or a year."""

    start: date = Field(description="Its first day.")
    memories: int
    by_kind: dict[str, int]


class Timeline(_Answer):
    """Memories by kind over time, oldest first; what has none is left out."""

    by: models.TimelineBy
    first: date | None = Field(description="The day of the oldest memory.")
    last: date | None = Field(description="The day of the newest.")
    buckets: list[Bucket]


class Model(_Answer):
    """Which embedding model made the vectors."""

    name: str
    revision: str
    dimension: int
    fingerprint: str


class Stats(_Answer):
    """How much there is. What is of the whole store is left out for those who see one profile."""

    memories: int
    projects: int
    sessions: int
    profile: str | None = Field(description="Whose these are; null if they are everybody's.")
    profiles: int | None = None
    by_kind: dict[str, int] | None = None
    vectors: int | None = None
    unembedded: int | None = None
    model: Model | None = None
    bytes: int | None = None


class Times(_Answer):
    """Milliseconds."""

    p50: float
    p95: float


class Latency(_Answer):
    """How long the last few hundred recalls took, the whole and by stage; a stage counts where it ran."""

    recalls: int
    whole: Times | None = Field(description="Null before the first recall.")
    stages: dict[str, Times]


class Status(_Answer):
    """How the service is doing. What counts everybody's memories and recalls is null for whoever has a token."""

    version: str
    uptime_seconds: float
    profile: str
    memories: int = Field(description="Those of the profile.")
    store: str = Field(description="The name of the store's file.")
    embedder: str
    model: Model | None
    degraded: bool = Field(description="Whether recall by meaning is not to be had now.")
    degraded_reason: str | None
    unembedded: int | None = Field(description="How many memories wait for a vector.")
    latency: Latency
    recalls: int | None = Field(description="Since the start.")
    degraded_recalls: dict[str, int] | None = Field(description="Those that lacked something, by what they lacked.")
    errors: int | None = Field(description="Requests that the service itself failed, since the start.")


class Judgement(_Answer):
    """How relevant somebody found a memory to a query: 0 is not, 1 to 3 more and more."""

    query: str
    memory: str
    relevance: int
    created: datetime
    profile: str
    project: str | None
    asked_at: datetime | None


class Judgements(_Answer):
    """Judgements, in the order in which they were first given."""

    judgements: list[Judgement]


class MeasuredQuery(_Answer):
    """One judged query under both tunings."""

    query: str
    project: str | None
    relevant: int = Field(description="How many memories were judged good for it.")
    a: dict[str, float]
    b: dict[str, float]


class Measured(_Answer):
    """How well two tunings find what was judged good."""

    n: int = Field(description="How many queries were asked.")
    sentence: str
    metrics: list[str] = Field(description="What was measured, for each query and in the mean.")
    a: dict[str, float] | None = Field(description="The mean of each metric; null without a query.")
    b: dict[str, float] | None
    queries: list[MeasuredQuery]
    degraded: str | None = Field(description="What recalls lacked, such as keyword-only; null if nothing.")
    degraded_reason: str | None


class Turned(_Answer):
    """A parameter before and after tuning."""

    before: Any
    after: Any


class HeldOut(_Answer):
    """One metric on held-out queries, before and after tuning, each with its 95 % interval."""

    before: float
    before_interval: tuple[float, float]
    after: float
    after_interval: tuple[float, float]
    gain: float
    gain_interval: tuple[float, float]
    p_value: float


class TuneResult(_Answer):
    """What tuning found; `better` only where held-out queries show a gain that is not chance."""

    metric: str
    n: int
    searched: int = Field(description="On how many queries the search looked.")
    folds: int
    folds_by: Literal["project", "query"]
    tunings: int = Field(description="How many tunings were looked at.")
    verdict: Literal["better", "stands"]
    parameters: dict[str, Turned] = Field(
        description="Those that the search would turn, as PATCH /settings takes them."
    )
    held_out: dict[str, HeldOut]


class TuneProgress(_Answer):
    """How far a search for parameters has come."""

    state: Literal["idle", "running", "done", "failed", "stopped"]
    stage: str | None
    done: int
    total: int
    detail: str | None = Field(description="Why it failed.")
    result: TuneResult | None


class Change(_Answer):
    """The parameters that are kept in the store, before and after somebody turned some."""

    id: int
    at: datetime
    by: str
    before: dict[str, Any]
    after: dict[str, Any]


class Changes(_Answer):
    """Changes of the settings, newest first."""

    changes: list[Change]


class Wrong(_Answer):
    """A field that is wrong, and why."""

    field: str
    message: str


class Problem(_Answer):
    """Something that did not work (RFC 9457)."""

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
        }
    )

    type: str
    title: str
    status: int
    code: str = Field(description="Stable: what a program goes by.")
    detail: str = Field(description="What happened, and what to do.")
    errors: list[Wrong] = Field(default=[], description="The fields that are wrong.")
