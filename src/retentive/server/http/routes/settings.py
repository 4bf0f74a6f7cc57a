"""Read and change the tuning while the service runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Body
from fastapi.responses import JSONResponse
from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from retentive.engine import Engine
from retentive.errors import Conflict
from retentive.ranking import Tuning
from retentive.ranking.presets import PRESETS
from retentive.ranking.tuning import WHOLE
from retentive.server.http.auth import AdminEngine, Caller, CurrentCaller, ReadView
from retentive.server.http.openapi import problem_responses
from retentive.server.http.rendering import json_response
from retentive.server.http.request_parsing import (
    INTEGER,
    CamelModel,
    IdempotencyHeader,
    IfMatchHeader,
    SettingsPatch,
    StrictRoute,
)
from retentive.server.http.response_models import TuningChanges

router = APIRouter(prefix="/settings", tags=["settings"], route_class=StrictRoute)

_EXAMPLES: Any = {
    "one parameter": {"value": {"keywordWeight": 1.0}},
    "two parameters": {"value": {"semanticWeight": 0.5, "keywordWeight": 2.0}},
    "reset to the default": {"value": {"keywordWeight": None}},
    "a preset": {"value": {"preset": "classic-rrf"}},
    "the block of other systems' configurations": {
        "value": {"hybrid": {"fusion": "weighted", "vectorWeight": 0.7, "textWeight": 0.3, "rrfK": 60}}
    },
}


TuningOut = Tuning.pydantic_model()
"""The body of a response with all parameters."""


class UndoIn(CamelModel):
    """The change to undo."""

    model_config = ConfigDict(json_schema_extra={"examples": [{}, {"id": 3}]})

    id: Annotated[int, Field(ge=1), INTEGER] | None = Field(
        None, description="The id of a change in the history. Default: the last one."
    )


@router.get("", response_model=TuningOut, summary="Get the current tuning")
def get_settings(view: ReadView) -> JSONResponse:
    """Returns all parameters of the next recall: configured ones, over those saved in the store, over defaults.

    Its ETag changes with every change of a parameter.
    """
    return _tuning_response(view.engine.tuning.current())


@router.patch("", response_model=TuningOut, summary="Save tuning parameters", responses=problem_responses(409, 412))
def patch_settings(
    engine: AdminEngine,
    caller: CurrentCaller,
    body: Annotated[SettingsPatch, Body(openapi_examples=_EXAMPLES)],
    idempotency_key: IdempotencyHeader = None,
    if_match: IfMatchHeader = None,
) -> JSONResponse:
    """Saves parameters in the store and returns all parameters. They apply from the next request, in every process.

    Null resets a parameter to its default. `preset` and `hybrid` set every parameter. If one value is invalid, nothing
    is saved. A parameter that is set by the service's configuration file or environment cannot be changed here. With
    `If-Match`, nothing is saved unless the tuning still has this ETag.
    """
    changes = body.changes()
    whole = Tuning.model_fields.keys() if changes.keys() & set(WHOLE) else set()
    fixed = sorted((whole | changes.keys()) & _configured(engine))
    if fixed:
        raise Conflict(
            f"{', '.join(map(to_camel, fixed))}: set by the service's configuration file or environment, which takes "
            "precedence over the store; change it there. Nothing was saved"
        )
    key = _own_key(caller, idempotency_key)
    return _tuning_response(engine.tuning.save(changes, by=caller.name, if_version=if_match, idempotency_key=key))


@router.get("/schema", response_model=dict[str, Any], summary="Get the JSON schema of the parameters")
def get_settings_schema(view: ReadView) -> JSONResponse:
    """Returns the range, default and description of each parameter. Configured parameters are `readOnly`."""
    schema = Tuning.model_json_schema(by_alias=True)
    for name in _configured(view.engine):
        schema["properties"][to_camel(name)]["readOnly"] = True
    return JSONResponse(schema)


@router.get("/history", response_model=TuningChanges, summary="List the changes of the saved parameters")
def get_settings_history(view: ReadView) -> JSONResponse:
    """Returns all recorded changes, newest first, with the saved parameters before and after each."""
    changes = [
        {
            "id": change.id,
            "at": change.at,
            "by": change.by,
            "before": _camel_keys(change.before),
            "after": _camel_keys(change.after),
        }
        for change in view.engine.tuning.history()
    ]
    return json_response({"changes": changes})


@router.post("/undo", response_model=TuningOut, summary="Undo a change", responses=problem_responses(404, 409, 412))
def undo_settings(
    engine: AdminEngine,
    caller: CurrentCaller,
    body: UndoIn | None = None,
    idempotency_key: IdempotencyHeader = None,
    if_match: IfMatchHeader = None,
) -> JSONResponse:
    """Restores the saved parameters from before a change, the last one by default. An undo can be undone too."""
    key = _own_key(caller, idempotency_key)
    id = body.id if body else None
    return _tuning_response(engine.tuning.undo(id, by=caller.name, if_version=if_match, idempotency_key=key))


@router.get(
    "/presets",
    response_model=dict[str, TuningOut],  # type: ignore[valid-type]  # made at run time
    summary="List the presets",
)
def get_settings_presets(_: ReadView) -> JSONResponse:
    """Returns the named tunings: the default, and the ways in which other systems fuse results."""
    return json_response({name: tuning.model_dump(by_alias=True) for name, tuning in PRESETS.items()})


def _tuning_response(tuning: Tuning) -> JSONResponse:
    return JSONResponse(tuning.model_dump(by_alias=True), headers={"ETag": f'"{tuning.version}"'})


def _configured(engine: Engine) -> set[str]:
    """Return the parameters that this process's configuration sets."""
    return set(engine.settings.configured_tuning)


def _own_key(caller: Caller, idempotency_key: str | None) -> str | None:
    """Return an idempotency key that differs from those of other callers."""
    return None if idempotency_key is None else json.dumps([caller.name, idempotency_key])


def _camel_keys(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {to_camel(name): value for name, value in parameters.items()}
