"""Recall: find the memories that answer a query, explain a result, and compare two tunings."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Request
from fastapi import Query as QueryParameter
from fastapi.responses import JSONResponse
from pydantic import AliasChoices, ConfigDict, Field

from retentive import models
from retentive.pipeline.judgements import MAX_QUERY
from retentive.pipeline.short_ids import short_ids
from retentive.ranking import preset
from retentive.server.http.auth import ReadView, recall_cost
from retentive.server.http.openapi import problem_responses
from retentive.server.http.rendering import json_response, recall_to_json
from retentive.server.http.request_parsing import (
    EXAMPLE_ID,
    INTEGER,
    AsOf,
    CamelModel,
    Id,
    Kinds,
    MetadataValue,
    NameFilter,
    QueryText,
    SessionFilter,
    StrictRoute,
    Time,
    TimeBound,
    TuningChoice,
    tuning_override,
)
from retentive.server.http.response_models import EpisodeSearch, Explanation, Recall, RecallComparison
from retentive.tenancy import ProfileView

router = APIRouter(tags=["recall"], route_class=StrictRoute)

# A search for a word returns every episode that contains it, however common or repeated it is, and no neighbours. The
# judge does not read them: the words are what is asked for.
_EPISODE_TUNING = preset("keyword-only").with_parameters(max_document_frequency=1.0, dedup=False, judge="off")

Limit = Annotated[int, Field(ge=1, le=200), INTEGER]


class _QueryIn(CamelModel):
    query: QueryText = Field(description="The text to search for.")
    limit: Limit = Field(10, description="Maximum number of hits, from 1 to 200.")
    project: NameFilter | None = Field(None, description="Search only this project.")
    session: SessionFilter | None = Field(
        None, description="Search this session, or several, and the other sessions of their projects."
    )
    only_session: bool = Field(False, description="Search only the given sessions, not the others of their projects.")
    kinds: Kinds | None = Field(None, description="Search only these kinds.")
    exclude: list[Id] = Field(
        default_factory=list,
        max_length=10_000,
        validation_alias=AliasChoices("exclude", "recentIds", "recent_ids"),
        description="Ids of memories that the caller already has. `recentIds` is accepted too.",
    )
    since: TimeBound | None = Field(None, description="Search only memories from this time or date on.")
    until: TimeBound | None = Field(
        None, description="Search only memories before this time. A date includes that day."
    )
    metadata: dict[str, MetadataValue] = Field(
        default_factory=dict,
        max_length=100,
        description="Search only memories whose metadata has these keys with equal values.",
    )
    as_of: AsOf | None = Field(
        None, description="Search what was current at this time, or at the end of this day. Default: what is current."
    )
    include_retired: bool = Field(False, description="Search what is retired or expired, too.")
    now: Time | None = Field(None, description="The time to rank by. Default: the current time.")

    def to_query(self, view: ProfileView, tuning: TuningChoice | None) -> models.Query:
        """Build the query in a view."""
        return view.query(
            self.query,
            limit=self.limit,
            project=self.project,
            session=self.session,
            only_session=self.only_session,
            kinds=self.kinds,
            exclude=self.exclude,
            since=self.since,
            until=self.until,
            metadata=self.metadata,
            as_of=self.as_of,
            include_retired=self.include_retired,
            now=self.now,
            tuning=tuning_override(tuning),
        )


class RecallIn(_QueryIn):
    """A query with its scope and tuning."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"query": "What can Ana not eat?", "limit": 5, "tuning": {"keywordWeight": 2.0}},
                {"query": "Who plays the cello?", "tuning": "classic-rrf", "explain": False},
            ]
        }
    )

    tuning: TuningChoice | None = Field(None, description="Tuning of this recall: parameters, or the name of a preset.")
    explain: bool = Field(True, description="Include the reasons of each hit.")
    dropped: bool = Field(False, description="Include the candidates that are not hits, with their reasons.")
    record_use: bool = Field(True, description="Count the recall as a use of its hits.")
    short_ids: bool = Field(False, description="Include the first characters of each id, unique in the profile.")


class ExplainIn(_QueryIn):
    """A query, and the memory to explain."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"query": "What can Ana not eat?", "id": EXAMPLE_ID}]})

    id: Id = Field(description="The memory to explain.")
    tuning: TuningChoice | None = Field(None, description="Tuning of this recall: parameters, or the name of a preset.")


class CompareIn(_QueryIn):
    """A query and two tunings; null is the current tuning."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"query": "What can Ana not eat?", "a": None, "b": {"keywordWeight": 5}}]}
    )

    a: TuningChoice | None = None
    b: TuningChoice | None = None
    dropped: bool = Field(False, description="Include the candidates that are not hits, with their reasons.")


@router.post("/v1/recall", response_model=Recall, summary="Recall memories")
def recall_memories(request: Request, view: ReadView, body: RecallIn) -> JSONResponse:
    """Returns the memories that answer a query, best first, with the reasons for each score.

    Without an embedder, only the keyword retriever runs, and `degraded` is "keyword-only".
    """
    request.app.state.work.charge(request, recall_cost(body.tuning))
    found = view.recall(body.to_query(view, body.tuning), record_use=body.record_use)
    written = recall_to_json(found, explain=body.explain, dropped=body.dropped and body.explain)
    if body.short_ids:
        written["shortIds"] = short_ids(view.engine.store, (hit.id for hit in found), within=view.within)
    return JSONResponse(written)


@router.post(
    "/v1/recall/explain",
    response_model=Explanation,
    summary="Explain the rank of a memory",
    responses=problem_responses(404),
)
def explain_recall(request: Request, view: ReadView, body: ExplainIn) -> JSONResponse:
    """Explains why a memory ranks where it does for a query, or why it does not appear."""
    request.app.state.work.charge(request, recall_cost(body.tuning))
    return json_response(view.explain(body.to_query(view, body.tuning), body.id))


@router.post(
    "/v1/recall/compare",
    response_model=RecallComparison,
    summary="Compare two tunings",
)
def compare_recalls(request: Request, view: ReadView, body: CompareIn) -> JSONResponse:
    """Returns the results of one query with two tunings, and the ranks of each memory in both.

    It does not record the use of memories.
    """
    request.app.state.work.charge(request, recall_cost(body.a, body.b))
    query_a = body.to_query(view, body.a)
    query_b = replace(query_a, tuning=view.engine.tuning.current(tuning_override(body.b)))
    a, b = (view.recall(query, record_use=False) for query in (query_a, query_b))
    return JSONResponse(
        {
            "query": a.query,
            "a": recall_to_json(a, explain=True, dropped=body.dropped),
            "b": recall_to_json(b, explain=True, dropped=body.dropped),
            "moved": _moves(a, b),
        }
    )


def _moves(a: models.Recall, b: models.Recall) -> list[dict[str, str | int | None]]:
    """Return the ranks of each memory in both results; memories that are only in b come last."""
    in_a, in_b = ({hit.id: hit.rank for hit in found.hits} for found in (a, b))
    return [
        {
            "id": id,
            "rankA": in_a.get(id),
            "rankB": in_b.get(id),
            "change": in_a[id] - in_b[id] if id in in_a and id in in_b else None,
        }
        for id in {**in_a, **in_b}
    ]


@router.get("/episodes/search", response_model=EpisodeSearch, summary="Keyword search in episodes")
def search_episodes(
    view: ReadView,
    q: Annotated[
        str,
        QueryParameter(
            min_length=1,
            max_length=MAX_QUERY,
            description='Words, "a phrase", prefix*, -word, and OR between phrases.',
            examples=["hello", '"green tea" -milk'],
        ),
    ],
    session_ids: Annotated[
        list[str] | None,
        QueryParameter(
            alias="sessionIds",
            description="Sessions, separated by commas. Default: the whole profile.",
            examples=["1,2,3"],
            max_length=1000,
        ),
    ] = None,
    limit: Annotated[int, QueryParameter(ge=1, le=200, description="Maximum number of hits, from 1 to 200.")] = 20,
) -> JSONResponse:
    """Returns the episodes that contain the words, best first: in exactly these sessions, or in the whole profile.

    Unknown sessions are empty. A phrase in quotes must occur, or one of several joined by OR; `tea*` matches the
    beginning of a word, and a word or phrase after a minus must not occur. Any text is valid.
    """
    sessions = None if session_ids is None else _session_names(session_ids)
    query = view.query(q, limit=limit, session=sessions, only_session=True, kinds=("episodic",), tuning=_EPISODE_TUNING)
    written = recall_to_json(view.recall(query, record_use=False), explain=False)
    for hit in written["hits"]:
        memory = hit["memory"]
        session = memory["session"]
        number = session is not None and session.isdecimal() and str(int(session)) == session
        hit |= {
            "sessionId": int(session) if number else session,
            "content": memory["text"],
            "createdAt": memory["created"],
        }
    return JSONResponse(written)


def _session_names(lists: list[str]) -> list[str]:
    """Return the names in lists that are separated by commas; a JSON array is such a list, too."""
    texts = (text[1:-1] if text.startswith("[") and text.endswith("]") else text for text in map(str.strip, lists))
    return [name for text in texts for name in map(str.strip, text.split(",")) if name]
