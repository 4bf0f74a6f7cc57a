"""Short JSON schemas of tools. A client sends them to the model with every request, so each character is paid for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

_NOISE = ("title", "$defs")
_RESULT_NOISE = (*_NOISE, "description", "default", "enum", "required")


def short_arguments(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema that accepts the same arguments, without titles, definitions and empty defaults."""
    return {**_short(schema, schema.get("$defs", {}), _NOISE), "additionalProperties": False}


def short_result(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with the names of a result, and the types of what is never null: the result is easy to read.

    A memory in it is only called an object: it has the fields that the list of hits names.
    """
    short = _short(schema, schema.get("$defs", {}), _RESULT_NOISE)
    for name, field in short["properties"].items():
        field.pop("properties", None)
        if name != "hits":
            field.get("items", {}).pop("properties", None)
    return short


def _short(schema: Mapping[str, Any], definitions: Mapping[str, Any], noise: Collection[str]) -> dict[str, Any]:
    if "$ref" in schema:
        named = definitions[schema["$ref"].rpartition("/")[2]]
        schema = {**named, **{name: value for name, value in schema.items() if name != "$ref"}}
    short: dict[str, Any] = {}
    for name, value in schema.items():
        if name in noise or (name == "default" and value in (None, "", [], {})):
            continue
        if name == "properties":
            short[name] = {key: _short(part, definitions, noise) for key, part in value.items()}
        elif name in ("items", "additionalProperties") and isinstance(value, Mapping):
            short[name] = _short(value, definitions, noise)
        elif name == "anyOf":
            choices = [_short(part, definitions, noise) for part in value]
            if noise is not _RESULT_NOISE or {"type": "null"} not in choices:
                short.update(_one_of(choices))
        else:
            short[name] = value
    if short.get("additionalProperties") is True:
        del short["additionalProperties"]
    return short


def _one_of(choices: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a choice as one schema: several plain types as a list, and a type or null as that type with null."""
    if all(choice.keys() == {"type"} for choice in choices):
        return {"type": [choice["type"] for choice in choices]}
    if len(choices) == 2 and choices[1] == {"type": "null"} and isinstance(choices[0].get("type"), str):
        nullable = {**choices[0], "type": [choices[0]["type"], "null"]}
        if "enum" in nullable:
            nullable["enum"] = [*nullable["enum"], None]
        return nullable
    return {"anyOf": choices}
