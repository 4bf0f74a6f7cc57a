"""The tuning in force, read and turned while the service runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Body
from fastapi.responses import JSONResponse
from pydantic.alias_generators import to_camel

from recollect.api.auth import Administering, Caller, Known, Reading
from recollect.api.idempotency import Once
from recollect.api.knobs import SettingsPatch
from recollect.api.openapi import may_fail
from recollect.api.rendering import answer
from recollect.api.request_models import UndoIn
from recollect.api.response_models import Changes
from recollect.api.strict_route import StrictRoute
from recollect.engine import Engine
from recollect.errors import Conflict
from recollect.ranking import Tuning
from recollect.ranking.presets import PRESETS
from recollect.ranking.tuning import spelled_knob

router = APIRouter(tags=["settings"], route_class=StrictRoute)

_EXAMPLES: Any = {
    "one knob": {"value": {"keywordWeight": 1.0}},
    "two knobs": {"value": {"semanticWeight": 0.5, "keywordWeight": 2.0}},
    "back to the default": {"value": {"keywordWeight": None}},
    "the block of older configurations": {
        "value": {"hybrid": {"fusion": "weighted", "vectorWeight": 0.7, "textWeight": 0.3, "rrfK": 60}}
    },
}


@router.get("/settings", response_model=Tuning, summary="The tuning in force")
def get_settings(inside: Reading) -> JSONResponse:
    """Every knob as the next recall will have it: the store's, over which this service's own configuration goes."""
    return _tuning(inside.engine.tuned())


@router.patch("/settings", response_model=Tuning, summary="Turn knobs", responses=may_fail(409))
def patch_settings(
    engine: Administering,
    who: Known,
    knobs: Annotated[SettingsPatch, Body(openapi_examples=_EXAMPLES)],
    once: Once = None,
) -> JSONResponse:
    """Turns knobs from the next request on, in every process on this store, and after a restart; gives all of them.

    Null takes a knob back to its default. If one value is wrong, nothing is changed. A knob that this service's
    configuration file or environment sets cannot be turned here.
    """
    turned = knobs.turned()
    fixed = [name for name in turned if name in _fixed(engine)]
    if fixed:
        raise Conflict(
            f"{_listed(fixed)}: set by this service's configuration file or environment, which goes over what is kept "
            "in the store; change it there. Nothing was changed"
        )
    return _tuning(engine.keep_tuning(turned, by=who.name, once=_named(who, once)))


@router.get("/settings/schema", response_model=dict[str, Any], summary="Every knob, with its range and meaning")
def get_settings_schema(inside: Reading) -> JSONResponse:
    """The JSON schema of the settings. A knob that this service's own configuration sets is `readOnly`."""
    schema = Tuning.model_json_schema(by_alias=True)
    for name in _fixed(inside.engine):
        schema["properties"][to_camel(name)]["readOnly"] = True
    return JSONResponse(schema)


@router.get("/settings/history", response_model=Changes, summary="How the settings were changed")
def get_settings_history(inside: Reading) -> JSONResponse:
    """Every change that is remembered, newest first, with the knobs that the store kept before and after it."""
    changes = [
        {
            "id": change.id,
            "at": change.at,
            "by": change.by,
            "before": _camel(change.before),
            "after": _camel(change.after),
        }
        for change in inside.engine.tuning_history()
    ]
    return answer({"changes": changes})


@router.post("/settings/undo", response_model=Tuning, summary="Take a change back", responses=may_fail(404, 409))
def undo_settings(engine: Administering, who: Known, which: UndoIn | None = None, once: Once = None) -> JSONResponse:
    """Brings back the knobs as they were before a change, the last one if none is named. This can be undone too."""
    return _tuning(engine.undo_tuning(which.id if which else None, by=who.name, once=_named(who, once)))


@router.get("/settings/presets", response_model=dict[str, Tuning], summary="Tunings by name")
def get_settings_presets(_: Reading) -> JSONResponse:
    """Our default, and the ways in which other systems are known to fuse; a recall takes any of them by its name."""
    return answer({name: tuning.model_dump(by_alias=True) for name, tuning in PRESETS.items()})


def _tuning(tuning: Tuning) -> JSONResponse:
    return JSONResponse(tuning.model_dump(by_alias=True))


def _fixed(engine: Engine) -> set[str]:
    """The knobs that this process's own configuration sets."""
    return {spelled_knob(name) for name in engine.settings.tuning}


def _listed(knobs: Iterable[str]) -> str:
    return ", ".join(to_camel(name) for name in sorted(knobs))


def _named(who: Caller, once: str | None) -> str | None:
    """The name of a change, apart from those of other callers."""
    return None if once is None else f"{who.name}/{once}"


def _camel(knobs: Mapping[str, Any]) -> dict[str, Any]:
    return {to_camel(name): value for name, value in knobs.items()}
