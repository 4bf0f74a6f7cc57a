"""Store, read, change and delete memories."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Body, Path, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import (
    AfterValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    field_validator,
)

from retentive.errors import NotFound
from retentive.models import MAX_NAME, Kind
from retentive.server.http.auth import ReadView, WriteView
from retentive.server.http.openapi import problem_responses
from retentive.server.http.problems import invalid_field
from retentive.server.http.rendering import json_response, to_json
from retentive.server.http.request_parsing import (
    EXAMPLE_CURSOR,
    EXAMPLE_ID,
    INTEGER,
    OTHER_ID,
    AsOf,
    CamelModel,
    Expiry,
    Id,
    IdempotencyHeader,
    IfMatchHeader,
    Kinds,
    Metadata,
    MetadataValue,
    Name,
    NameFilter,
    SessionFilter,
    SessionName,
    StrictRoute,
    Text,
    Time,
    TimeBound,
    not_nullable,
)
from retentive.server.http.response_models import Forgotten, Memory, MemoryList, Page, Stored
from retentive.stores.rules import check_version
from retentive.stores.values import OnDuplicate

router = APIRouter(prefix="/v1/memories", tags=["memories"], route_class=StrictRoute)

Position = Annotated[int, Field(ge=0, lt=2**53), INTEGER]
Importance = Annotated[float, Field(ge=0, le=1, description="Importance, from 0 to 1.")]
_METADATA = TypeAdapter(dict[str, MetadataValue])


class MemoryIn(CamelModel):
    """A memory to store. Only the text is required."""

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
    id: Id | None = Field(None, description="A UUID. Default: a new one.")
    project: Name | None = None
    session: SessionName | None = None
    position: Position | None = Field(None, description="Position in the session. Default: the next free one.")
    kind: Kind = Field("episodic", description="episodic (an event), semantic (a fact) or identity (who the user is).")
    speaker: Name | None = None
    importance: Importance = 0.5
    metadata: Metadata = Field(default_factory=dict)
    source: Name | None = Field(None, description="Where it comes from, such as notes/trip.md.")
    created: Time | None = Field(None, description="When it was created. Default: now.")
    occurred: Time | None = Field(None, description="When it happened, if it differs from `created`.")
    evergreen: bool = Field(False, description="Do not apply time decay to it.")
    key: Name | None = Field(None, description="Key of the fact, such as ana/home-city: it replaces the earlier one.")
    valid_from: Time | None = Field(None, description="Since when it is valid. Default: when it happened.")
    expires: Expiry | None = Field(None, description="When it expires: a time, or a duration such as 12h, 30d or 2w.")
    valid_to: Time | None = Field(None, description="Until when it was valid, if it is stored again after it ended.")
    superseded_by: Id | None = Field(None, description="The id of the memory that replaced it, if it is stored again.")
    reason: Name | None = Field(None, description="Why it ended.")
    actor: Name | None = Field(None, description="Who ended it.")


class MemoriesIn(CamelModel):
    """Several memories to store, all or none."""

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


class MemoryPatch(CamelModel):
    """The fields of a memory to change. Missing fields are not changed."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"importance": 1.0, "evergreen": True}], "minProperties": 1}
    )

    text: Text | None = Field(None, json_schema_extra=not_nullable)
    kind: Kind | None = Field(None, json_schema_extra=not_nullable)
    speaker: Name | None = None
    importance: Importance | None = Field(None, json_schema_extra=not_nullable)
    metadata: Metadata | None = Field(None, json_schema_extra=not_nullable)
    source: Name | None = None
    occurred: Time | None = None
    evergreen: bool | None = Field(None, json_schema_extra=not_nullable)
    key: Name | None = None
    valid_from: Time | None = None
    expires: Expiry | None = None

    @field_validator("text", "kind", "importance", "metadata", "evergreen", mode="before")
    @classmethod
    def _check_not_null(cls, value: Any) -> Any:
        if value is None:
            raise ValueError("must not be null; leave the field out to keep its value")
        return value


class ScopeIn(CamelModel):
    """A scope; an empty one is the whole profile."""

    project: NameFilter | None = None
    session: SessionFilter | None = Field(
        None, description="A session, or several, without the others of their projects."
    )
    kinds: Kinds | None = None


class ForgetIds(CamelModel):
    """The ids of memories to delete."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"ids": [EXAMPLE_ID, OTHER_ID]}]})

    ids: list[Id] = Field(min_length=1, max_length=10_000)


def _check_confirmed(confirm: bool) -> bool:
    if not confirm:
        raise ValueError("forgetting a whole scope cannot be undone; set it to true to confirm")
    return confirm


Confirmed = Annotated[bool, AfterValidator(_check_confirmed), WithJsonSchema({"type": "boolean", "const": True})]


class ForgetScope(CamelModel):
    """A scope whose memories are all deleted. `confirm` must be true."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"scope": {"session": "2026-05-08"}, "confirm": True}]})

    scope: ScopeIn
    confirm: Confirmed = Field(description="Must be true: this cannot be undone.")


def _ids_or_scope(value: Any) -> str | None:
    if isinstance(value, dict) and "ids" not in value and "scope" not in value:
        return None
    return "(scope)" if isinstance(value, dict) and "scope" in value else "(ids)"


IdsOrScope = Annotated[
    Annotated[ForgetIds, Tag("(ids)")] | Annotated[ForgetScope, Tag("(scope)")],
    Discriminator(
        _ids_or_scope,
        custom_error_type="neither_ids_nor_scope",
        custom_error_message='it has neither ids nor a scope; send {"ids": ["…"]}, or {"scope": {"project": "…"}, '
        '"confirm": true} for all memories of a scope',
    ),
]

# The path accepts only a UUID, so that it does not match /v1/memories/forget.
IdPath = Annotated[UUID, Path(description="The id of the memory.", examples=[EXAMPLE_ID])]

_CREATE_EXAMPLES: Any = {
    "one": {"value": {"text": "I am allergic to peanuts", "session": "2026-05-08", "speaker": "Ana"}},
    "many": {
        "value": {"memories": [{"text": "Bo plays the cello"}, {"text": "Ana lives in Lisbon", "kind": "semantic"}]}
    },
}
_FORGET_EXAMPLES: Any = {
    "by id": {"value": {"ids": [EXAMPLE_ID]}},
    "a whole session": {"value": {"scope": {"session": "2026-05-08"}, "confirm": True}},
}


@router.post(
    "",
    status_code=201,
    response_model=Stored | MemoryList,
    summary="Store one or several memories",
    responses=problem_responses(404, 409),
)
def create_memories(
    request: Request,
    view: WriteView,
    body: Annotated[OneOrMany, Body(openapi_examples=_CREATE_EXAMPLES)],
    idempotency_key: IdempotencyHeader = None,
    on_duplicate: Annotated[
        OnDuplicate,
        Query(
            alias="onDuplicate",
            description="A text that is stored already: keep stores it again, count counts it, refuse is an error.",
        ),
    ] = "keep",
    similar: Annotated[bool, Query(description="Return the memories that are like the one that is stored.")] = False,
) -> JSONResponse:
    """Stores a memory, or several, all or none, and returns them as stored."""
    many = isinstance(body, MemoriesIn)
    drafts = body.memories if isinstance(body, MemoriesIn) else [body]
    most = request.app.state.settings.server.max_batch
    if len(drafts) > most:
        message = f"a request has at most {most:,} memories, not {len(drafts):,}; send several requests"
        raise invalid_field("memories", message)
    stored = view.remember(
        [draft.model_dump() for draft in drafts], on_duplicate=on_duplicate, idempotency_key=idempotency_key
    )
    if not many and not stored:
        raise NotFound("the memory that this request stored when it was first sent has been deleted since")
    if similar and not many:
        return json_response({**to_json(stored[0]), "similar": view.similar(stored[0].id)}, status=201)
    return json_response({"memories": stored} if many else stored[0], status=201)


@router.get("", response_model=Page, summary="List memories, newest first")
def list_memories(
    view: ReadView,
    project: Annotated[str | None, Query(max_length=MAX_NAME)] = None,
    session: Annotated[list[str] | None, Query(max_length=1000, description="May be repeated.")] = None,
    only_session: Annotated[
        bool,
        Query(alias="onlySession", description="List only the given sessions, not the others of their projects."),
    ] = False,
    kinds: Annotated[list[Kind] | None, Query(max_length=3, description="May be repeated.")] = None,
    cursor: Annotated[
        str | None,
        Query(max_length=100, description="Cursor returned by the previous page.", examples=[EXAMPLE_CURSOR]),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
    as_of: Annotated[
        AsOf | None, Query(alias="asOf", description="What was current at this time, or at the end of this day.")
    ] = None,
    include_retired: Annotated[
        bool, Query(alias="includeRetired", description="Include what is retired or expired.")
    ] = False,
    since: Annotated[TimeBound | None, Query(description="List only memories from this time or date on.")] = None,
    until: Annotated[
        TimeBound | None, Query(description="List only memories before this time. A date includes that day.")
    ] = None,
    metadata: Annotated[
        str | None,
        Query(
            max_length=10_000,
            description="A JSON object: list only memories whose metadata has these keys with equal values.",
            examples=['{"channel": "mail"}'],
        ),
    ] = None,
) -> JSONResponse:
    """Returns one page of the memories of a scope, newest first: those that are current.

    With `metadata`, a page may have few memories or none, and yet a `nextCursor`.
    """
    return json_response(
        view.list(
            project=project,
            session=session,
            only_session=only_session,
            kinds=kinds,
            cursor=cursor,
            limit=limit,
            as_of=as_of,
            include_retired=include_retired,
            since=since,
            until=until,
            metadata=_to_metadata(metadata),
        )
    )


def _to_metadata(text: str | None) -> dict[str, Any] | None:
    try:
        return None if text is None else _METADATA.validate_json(text)
    except ValidationError:
        message = "a JSON object whose values are texts, numbers, true, false or null"
        raise invalid_field("metadata", message) from None


@router.post(
    "/forget", response_model=Forgotten, summary="Delete several memories or a scope", responses=problem_responses(409)
)
def forget_memories(
    view: WriteView,
    body: Annotated[IdsOrScope, Body(openapi_examples=_FORGET_EXAMPLES)],
    idempotency_key: IdempotencyHeader = None,
) -> JSONResponse:
    """Deletes memories and their judgements for good, and returns how many existed.

    A session in the scope does not include the other sessions of its project.
    """
    if isinstance(body, ForgetIds):
        return json_response({"forgotten": len(view.forget(*body.ids, idempotency_key=idempotency_key))})
    scope = body.scope
    count = view.forget_scope(project=scope.project, session=scope.session, kinds=scope.kinds, confirm=body.confirm)
    return json_response({"forgotten": count})


@router.get("/{id:uuid}", response_model=Memory, summary="Get a memory", responses=problem_responses(404))
def get_memory(view: ReadView, id: IdPath) -> JSONResponse:
    """Returns the memory with this id. Its ETag changes with every change of the memory, but not with its use."""
    return json_response(view.get(str(id)))


@router.patch(
    "/{id:uuid}", response_model=Memory, summary="Change a memory", responses=problem_responses(404, 409, 412)
)
def update_memory(
    view: WriteView,
    id: IdPath,
    body: MemoryPatch,
    idempotency_key: IdempotencyHeader = None,
    if_match: IfMatchHeader = None,
) -> JSONResponse:
    """Changes some fields of a memory and returns it. Its terms and vector follow its text.

    Fields that are missing are not changed, also not by requests that come at the same time. With `If-Match`, nothing
    is changed unless the memory still has this ETag.
    """
    changes: Any = {name: getattr(body, name) for name in body.model_fields_set}
    if not changes:
        memory = view.get(str(id))
        check_version(memory, if_match)
        return json_response(memory)
    return json_response(view.update(str(id), if_version=if_match, idempotency_key=idempotency_key, **changes))


@router.delete(
    "/{id:uuid}",
    status_code=204,
    response_class=Response,
    summary="Delete a memory",
    responses=problem_responses(404, 409, 412),
)
def delete_memory(
    view: WriteView, id: IdPath, idempotency_key: IdempotencyHeader = None, if_match: IfMatchHeader = None
) -> Response:
    """Deletes a memory and its judgements for good. With `If-Match`, only if the memory still has this ETag.

    A client that has a copy of the memory can store it again with its id, times and position; its judgements and access
    count are not restored.
    """
    if not view.forget(str(id), if_version=if_match, idempotency_key=idempotency_key):
        raise NotFound(f"there is no memory {id}")
    return Response(status_code=204)
