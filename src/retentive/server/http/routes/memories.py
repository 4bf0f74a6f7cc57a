"""Memories in and out."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Body, Path, Query, Request, Response
from fastapi.responses import JSONResponse

from retentive.errors import NotFound
from retentive.models import Kind
from retentive.pipeline.remember import MAX_NAME
from retentive.server.http.auth import Reading, Writing
from retentive.server.http.fields import EXAMPLE_ID
from retentive.server.http.idempotency import IdempotencyKey
from retentive.server.http.openapi import may_fail
from retentive.server.http.problems import wrong
from retentive.server.http.rendering import answer, plain
from retentive.server.http.request_models import ForgetThese, IdsOrScope, MemoriesIn, MemoryPatch, OneOrMany
from retentive.server.http.response_models import Forgotten, Memories, Memory, Page
from retentive.server.http.strict_route import StrictRoute

router = APIRouter(prefix="/v1/memories", tags=["memories"], route_class=StrictRoute)

# Only what is an id is the address of a memory; /v1/memories/forget is not.
Id = Annotated[UUID, Path(description="The memory's id.", examples=[EXAMPLE_ID])]
Sought = Annotated[str, Query(max_length=MAX_NAME)]

_ONE_OR_MANY: Any = {
    "one": {"value": {"text": "I am allergic to peanuts", "session": "2026-05-08", "speaker": "Ana"}},
    "many": {
        "value": {"memories": [{"text": "Bo plays the cello"}, {"text": "Ana lives in Lisbon", "kind": "semantic"}]}
    },
}
_FORGET: Any = {
    "by id": {"value": {"ids": [EXAMPLE_ID]}},
    "a whole session": {"value": {"scope": {"session": "2026-05-08"}, "confirm": True}},
}


@router.post(
    "",
    status_code=201,
    response_model=Memory | Memories,
    summary="Remember one thing or many",
    responses=may_fail(404, 409),
)
def create_memories(
    request: Request,
    inside: Writing,
    given: Annotated[OneOrMany, Body(openapi_examples=_ONE_OR_MANY)],
    idempotency_key: IdempotencyKey = None,
) -> JSONResponse:
    """Stores a memory, or several, all or none, and gives them as stored."""
    many = isinstance(given, MemoriesIn)
    drafts = given.memories if isinstance(given, MemoriesIn) else [given]
    most = request.app.state.settings.server.max_batch
    if len(drafts) > most:
        raise wrong("memories", f"a request has at most {most:,} memories, not {len(drafts):,}; send several requests")
    stored = inside.remember([draft.model_dump() for draft in drafts], idempotency_key=idempotency_key)
    if not many and not stored:
        raise NotFound("what this request stored when it was first sent has been forgotten since")
    return answer({"memories": stored} if many else stored[0], status=201)


@router.get("", response_model=Page, summary="List memories, newest first")
def list_memories(
    inside: Reading,
    project: Sought | None = None,
    session: Annotated[list[str] | None, Query(max_length=1000, description="May be given several times.")] = None,
    only_session: Annotated[
        bool, Query(alias="onlySession", description="Whether a session stands for itself alone, not for its project.")
    ] = False,
    kinds: Annotated[list[Kind] | None, Query(max_length=3, description="May be given several times.")] = None,
    cursor: Annotated[
        str | None, Query(max_length=100, description="The `nextCursor` of the page before.", examples=[EXAMPLE_ID])
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> JSONResponse:
    """Memories of a scope, newest first, page by page."""
    return answer(
        inside.list(
            project=project, session=session, only_session=only_session, kinds=kinds, cursor=cursor, limit=limit
        )
    )


@router.post(
    "/forget",
    response_model=Forgotten,
    summary="Forget several memories, or a whole scope",
    responses=may_fail(409),
)
def forget_memories(
    inside: Writing, what: Annotated[IdsOrScope, Body(openapi_examples=_FORGET)], idempotency_key: IdempotencyKey = None
) -> JSONResponse:
    """Forgets memories, with what was judged of them, and tells how many there were.

    A session stands for itself alone here. The service keeps nothing of them; whoever still has them can store them
    again under their ids.
    """
    if isinstance(what, ForgetThese):
        return answer({"forgotten": inside.forget(*what.ids, idempotency_key=idempotency_key)})
    scope = what.scope
    gone = inside.forget_scope(project=scope.project, session=scope.session, kinds=scope.kinds, confirm=what.confirm)
    return answer({"forgotten": gone})


@router.get("/{id:uuid}", response_model=Memory, summary="One memory", responses=may_fail(404))
def get_memory(inside: Reading, id: Id) -> JSONResponse:
    """The memory of that id."""
    return answer(inside.get(str(id)))


@router.patch("/{id:uuid}", response_model=Memory, summary="Change a memory", responses=may_fail(404, 409))
def update_memory(
    inside: Writing, id: Id, changes: MemoryPatch, idempotency_key: IdempotencyKey = None
) -> JSONResponse:
    """The memory with some fields changed; its words and vector follow its text."""
    changed = {name: getattr(changes, name) for name in changes.model_fields_set}
    memory = inside.update(str(id), idempotency_key=idempotency_key, **changed) if changed else inside.get(str(id))
    return answer(plain(memory))


@router.delete(
    "/{id:uuid}", status_code=204, response_class=Response, summary="Forget a memory", responses=may_fail(404, 409)
)
def delete_memory(inside: Writing, id: Id, idempotency_key: IdempotencyKey = None) -> Response:
    """Forgets a memory, with what was judged of it.

    The service keeps nothing of it. Whoever still has it as it was read can store it again with its id, times, position
    and all else, and it is as it was; only judgements and counts of its use begin anew.
    """
    if not inside.forget(str(id), idempotency_key=idempotency_key):
        raise NotFound(f"there is no memory {id}")
    return Response(status_code=204)
