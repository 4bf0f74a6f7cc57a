"""docs/settings.md: every setting and every parameter with range, default and description, and the presets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from retentive.ranking import PRESETS, Tuning
from retentive.settings import PREFIX, Settings
from tools.markdown import GENERATED, code, page, table

INTRODUCTION = """# Settings

What is chosen before a store is opened: where it is, which model, who may come in. And the parameters of ranking, which
turn at any time.

A setting comes from the first of these that has it:

1. an argument (`Engine.open(…)`, `--store`),
2. the environment (`RETENTIVE_STORE`, `RETENTIVE_SERVER_PORT`),
3. the config file: the one named by `--config` or `RETENTIVE_CONFIG`, else `retentive.toml` in the present folder,
   else `config.toml` in the user's config folder (`~/.config/retentive` on Linux),
4. for parameters, what is kept in the store (`retentive config set`, `PATCH /settings`, *Save* in the playground),
5. the default.

A name that does not exist in the config file is an error that says so. A config file looks like this; every line may
be left out:

```toml
store = "memories.db"
profile = "ana"

[embedder]
name = "bge-small"

[server]
port = 4000
hosts = ["nas.local"]

[upstream]
url = "http://127.0.0.1:11434/v1"
model = "qwen3"

[tuning]
keyword_weight = 1.0
source_weights = { "notes/*" = 1.5 }
```"""

PARAMETERS = """\
Turn one for a single recall (`tuning={"keyword_weight": 2}`, `--set keyword_weight=2`, `"tuning": {"keywordWeight": 2}`
over HTTP), or for everybody who uses the store (`retentive config set keyword_weight=2`). Over HTTP parameters are spelled
in camelCase; both spellings are taken everywhere. What the steps do is told in
[how a recall works](how-a-recall-works.md), what they bring in [ranking](ranking.md)."""

HYBRID = """\
A block of the shape `hybrid = { vectorWeight = 0.7, textWeight = 0.3 }`, as older configurations have it, is
understood in the config file and by `PATCH /settings`: it turns `fusion`, `semantic_weight`, `keyword_weight` and
`rrf_k`.

```toml
[hybrid]
vectorWeight = 0.7
textWeight = 0.3
```"""

ROOMS = {
    name: field.annotation
    for name, field in Settings.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
}
"""The tables of the config file that have settings of their own."""

_BOUNDS = {"minimum": "≥ ", "exclusiveMinimum": "> ", "maximum": "≤ ", "exclusiveMaximum": "< "}


def settings_reference() -> str:
    """The page."""
    return page(
        INTRODUCTION,
        GENERATED,
        "## The store",
        _settings(Settings, ""),
        *(
            page(f"## {room.capitalize()}", " ".join((model.__doc__ or "").split()), _settings(model, room))
            for room, model in ROOMS.items()
        ),
        "## Parameters",
        PARAMETERS,
        _parameters(),
        HYBRID,
        "## Presets",
        'A preset is a whole tuning under a name: `--preset classic-rrf`, `tuning="classic-rrf"`. These are the parameters\n'
        "in which it differs from the default.",
        _presets(),
    )


def _settings(model: type[BaseModel], room: str) -> str:
    rows = []
    for name, schema in _properties(model).items():
        if not room and (name in ROOMS or name == "tuning"):
            continue  # it has a table of its own
        key = f"{room}.{name}" if room else name
        default = "`memories.db` in the user's data folder" if key == "store" else _default(schema)
        rows.append((code(key), code(variable(key)), default, _range(schema), schema.get("description", "")))
    return table(("setting", "environment", "default", "range", "what it is"), rows)


def variable(key: str) -> str:
    """The name of a setting in the environment."""
    return PREFIX + ("EMBEDDER" if key == "embedder.name" else key.replace(".", "_").upper())


def _parameters() -> str:
    rows = [
        (code(name), _default(schema), _range(schema), schema.get("description", ""))
        for name, schema in _properties(Tuning).items()
    ]
    return table(("parameter", "default", "range", "what it does"), rows)


def _presets() -> str:
    default = Tuning().model_dump()
    rows = []
    for name, tuning in PRESETS.items():
        turned = {parameter: value for parameter, value in tuning.model_dump().items() if value != default[parameter]}
        rows.append(
            (
                code(name),
                ", ".join(code(f"{parameter}={_spelled(value)}") for parameter, value in turned.items()) or "–",
            )
        )
    return table(("preset", "parameters"), rows)


def _properties(model: type[BaseModel]) -> Mapping[str, Mapping[str, Any]]:
    found: Mapping[str, Mapping[str, Any]] = model.model_json_schema(by_alias=False)["properties"]
    return found


def _default(schema: Mapping[str, Any]) -> str:
    value = schema.get("default", {} if schema.get("type") == "object" else None)
    return "" if value is None else code(_spelled(value))


def _spelled(value: object) -> str:
    """A value as the config file and the command line have it."""
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def _range(schema: Mapping[str, Any]) -> str:
    """What may be set, in a few words."""
    if "enum" in schema:
        return ", ".join(code(value) for value in schema["enum"])
    if "minimum" in schema and "maximum" in schema:
        return f"{_number(schema['minimum'])} – {_number(schema['maximum'])}"
    bounds = [f"{sign}{_number(schema[bound])}" for bound, sign in _BOUNDS.items() if bound in schema]
    if bounds:
        return ", ".join(bounds)
    kinds = {
        "boolean": "`true`, `false`",
        "array": "a list; in the environment with commas",
        "object": "pattern: weight",
    }
    return kinds.get(schema.get("type", ""), "")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"
