"""A search by words inside sessions that are named."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse

from retentive.pipeline.judgements import MAX_QUERY
from retentive.ranking import preset
from retentive.server.http.auth import Reading
from retentive.server.http.rendering import recalled
from retentive.server.http.response_models import Recall
from retentive.server.http.strict_route import StrictRoute

router = APIRouter(tags=["recall"], route_class=StrictRoute)

# Whoever searches for a word wants every episode that has it, however common the word is and however often it was
# said, and no neighbour that does not have it.
_WORDS = preset("keyword-only").with_parameters(common_words=1.0, dedup=False)


@router.get("/episodes/search", response_model=Recall, summary="Search words inside sessions")
def search_episodes(
    inside: Reading,
    q: Annotated[str, Query(min_length=1, max_length=MAX_QUERY, description="Words.", examples=["hello"])],
    session_ids: Annotated[
        list[str],
        Query(alias="sessionIds", description="Sessions, parted by commas.", examples=["1,2,3"], max_length=1000),
    ],
    limit: Annotated[int, Query(ge=1, le=200)] = 20,
) -> JSONResponse:
    """The episodes with these words in exactly these sessions, best first. A session that is not there adds nothing."""
    sessions = [name for names in session_ids for name in names.split(",")]
    found = inside.recall(
        q, limit=limit, session=sessions, only_session=True, kinds=("episodic",), tuning=_WORDS, record_use=False
    )
    return JSONResponse(recalled(found, explain=False))
