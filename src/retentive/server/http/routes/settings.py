"""The tuning in force, read and turned while the service runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Body
from fastapi.responses import JSONResponse
from pydantic.alias_generators import to_camel

from retentive.engine import Engine
from retentive.errors import Conflict
from retentive.ranking import Tuning
from retentive.ranking.presets import PRESETS
from retentive.ranking.tuning import parameter_name
from retentive.server.http.auth import Administering, Caller, Known, Reading
from retentive.server.http.idempotency import IdempotencyKey
from retentive.server.http.openapi import may_fail
from retentive.server.http.rendering import answer
from retentive.server.http.request_models import UndoIn
from retentive.server.http.response_models import Changes
from retentive.server.http.strict_route import StrictRoute
from retentive.server.http.tuning_parameters import SettingsPatch

router = APIRouter(tags=["settings"], route_class=StrictRoute)

_EXAMPLES: Any = {
    "one parameter": {"value": {"keywordWeight": 1.0}},
    "two parameters": {"value": {"semanticWeight": 0.5, "keywordWeight": 2.0}},
    "back to the default": {"value": {"keywordWeight": None}},
    "the block of older configurations": {
        "value": {"hybrid": {"fusion": "weighted", "vectorWeight": 0.7, "textWeight": 0.3, "rrfK": 60}}
    },
}


@router.get("/settings", response_model=Tuning, summary="The tuning in force")
def get_settings(inside: Reading) -> JSONResponse:
    """Every parameter as the next recall will have it: the store's, over which this service's own configuration goes."""
    return _tuning(inside.engine.tuning.current())


@router.patch("/settings", response_model=Tuning, summary="Turn parameters", responses=may_fail(409))
def patch_settings(
    engine: Administering,
    who: Known,
    parameters: Annotated[SettingsPatch, Body(openapi_examples=_EXAMPLES)],
    idempotency_key: IdempotencyKey = None,
) -> JSONResponse:
    """Turns parameters from the next request on, in every process on this store, and after a restart; gives all of them.

    Null takes a parameter back to its default. If one value is wrong, nothing is changed. A parameter that this service's
    configuration file or environment sets cannot be turned here.
    """
    turned = parameters.turned()
    fixed = [name for name in turned if name in _fixed(engine)]
    if fixed:
        raise Conflict(
            f"{_listed(fixed)}: set by this service's configuration file or environment, which goes over what is kept "
            "in the store; change it there. Nothing was changed"
        )
    return _tuning(engine.tuning.save(turned, by=who.name, idempotency_key=_named(who, idempotency_key)))


@router.get("/settings/schema", response_model=dict[str, Any], summary="Every parameter, with its range and meaning")
def get_settings_schema(inside: Reading) -> JSONResponse:
    """The JSON schema of the settings. A parameter that this service's own configuration sets is `readOnly`."""
    schema = Tuning.model_json_schema(by_alias=True)
    for name in _fixed(inside.engine):
        schema["properties"][to_camel(name)]["readOnly"] = True
    return JSONResponse(schema)


@router.get("/settings/history", response_model=Changes, summary="How the settings were changed")
def get_settings_history(inside: Reading) -> JSONResponse:
    """Every change that is remembered, newest first, with the parameters that the store kept before and after it."""
    changes = [
        {
            "id": change.id,
            "at": change.at,
            "by": change.by,
            "before": _camel(change.before),
            "after": _camel(change.after),
        }
        for change in inside.engine.tuning.history()
    ]
    return answer({"changes": changes})


@router.post("/settings/undo", response_model=Tuning, summary="Take a change back", responses=may_fail(404, 409))
def undo_settings(
    engine: Administering, who: Known, which: UndoIn | None = None, idempotency_key: IdempotencyKey = None
) -> JSONResponse:
    """Brings back the parameters as they were before a change, the last one if none is named. This can be undone too."""
    return _tuning(
        engine.tuning.undo(which.id if which else None, by=who.name, idempotency_key=_named(who, idempotency_key))
    )


@router.get("/settings/presets", response_model=dict[str, Tuning], summary="Tunings by name")
def get_settings_presets(_: Reading) -> JSONResponse:
    """Our default, and the ways in which other systems are known to fuse; a recall takes any of them by its name."""
    return answer({name: tuning.model_dump(by_alias=True) for name, tuning in PRESETS.items()})


def _tuning(tuning: Tuning) -> JSONResponse:
    return JSONResponse(tuning.model_dump(by_alias=True))


def _fixed(engine: Engine) -> set[str]:
    """The parameters that this process's own configuration sets."""
    return {parameter_name(name) for name in engine.settings.tuning}


def _listed(parameters: Iterable[str]) -> str:
    return ", ".join(to_camel(name) for name in sorted(parameters))


def _named(who: Caller, idempotency_key: str | None) -> str | None:
    """The name of a change, apart from those of other callers."""
    return None if idempotency_key is None else f"{who.name}/{idempotency_key}"


def _camel(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {to_camel(name): value for name, value in parameters.items()}
