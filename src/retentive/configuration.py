"""What is configured, as plain values: arguments, then the environment, then the config file. Nothing is checked.

`settings.load_settings` checks the values. This module imports the standard library only, so that a command which asks
a running service does not load what checks them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from retentive.errors import Invalid, NotFound

PREFIX = "RETENTIVE_"

DEFAULT_EMBEDDER = "memory-small"

SETTINGS = ("store", "profile", "busy_seconds", "given_days", "redact_secrets", "embedder", "server", "llm", "tuning")
"""The names of all settings, see `settings.Settings`."""

_SUGGESTED = re.compile(
    r"\bretentive(?= (?:(?:doctor|imports|judge|reembed|remember|samples|token|tune)\b|watch \S+ --forget))"
)
"""The start of a command that a message suggests and that works on a store."""

_HOST = r"(?:\[[^]]*\]|[^:,]*)(?::\d*)?"
_HOSTS = re.compile(rf"{_HOST}(?:,{_HOST})*")
_REPLICA = re.compile(r"(?<=[?&]replica=)(postgres(?:ql)?(?::|%3A)(?:/|%2F){2}[^&]*)", re.IGNORECASE)
_PARAMETER = re.compile(r"([?&])([^=&?]*)=([^&]*)")


def default_store() -> str:
    """The store that is used if none is named."""
    from platformdirs import user_data_path

    return str(user_data_path("retentive") / "memories.db")


def configured(
    arguments: Mapping[str, Any] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    config: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """The values that are set anywhere. A preset or `hybrid` block is replaced by its parameters."""
    environment = os.environ if environment is None else environment
    file = find_config(environment, config)
    merged: dict[str, Any] = {}
    for layer in (_from_file(file) if file else {}, _from_environment(environment), _nested(arguments or {})):
        merged = _merge(merged, _expanded(layer))
    return merged


def search_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Of configured values, those that decide how a store is searched: the embedder without its key, and the tuning."""
    given = values.get("embedder") or {}
    embedder = {name: value for name, value in given.items() if name != "api_key"}
    name = str(embedder.get("name", DEFAULT_EMBEDDER))
    if name.startswith("local:"):
        name = f"local:{Path(name.removeprefix('local:')).absolute()}"
    return {"embedder": {**embedder, "name": name}, "tuning": dict(values.get("tuning") or {})}


def name_store(message: str, option: str) -> str:
    """Add the option that names the store to every command that a message suggests."""
    return _SUGGESTED.sub(lambda found: f"{found[0]} {option}", message) if option else message


def public_address(address: str) -> str:
    """An address with every password and key in it hidden.

    A password may contain the characters that end one in a URL: of an address of a store, all before the last @ is
    hidden.
    """
    scheme, separator, rest = address.partition("://")
    if not separator:
        return address
    first, *others = _REPLICA.split(rest)
    authority = re.split("[/?#]", first, maxsplit=1)[0]
    user, at, _ = (authority if scheme in ("http", "https") else first).rpartition("@")
    if at and ":" in user and not first.startswith("/"):
        first = f"{user.partition(':')[0]}:***{first[len(user) :]}"
    elif not at and not _HOSTS.fullmatch(authority):
        first = f"{authority.partition(':')[0]}:***"
    for place in range(0, len(others), 2):
        others[place] = quote(public_address(unquote(others[place])), safe=":/@*?=,[]")
    return f"{scheme}://{_PARAMETER.sub(_hide_secret, ''.join([first, *others]))}"


def _hide_secret(parameter: re.Match[str]) -> str:
    is_secret = unquote(parameter[2]).casefold().endswith(("password", "key", "token", "secret"))
    return f"{parameter[1]}{parameter[2]}=***" if is_secret else parameter[0]


def find_config(environment: Mapping[str, str], config: str | os.PathLike[str] | None = None) -> Path | None:
    """The config file in force: the one named, or `retentive.toml` or `.json` here, or the user's own."""
    named = config or environment.get(f"{PREFIX}CONFIG")
    if named:
        if not Path(named).is_file():
            raise NotFound(f"there is no config file {named}")
        return Path(named)
    from platformdirs import user_config_path

    own = user_config_path("retentive")
    places = (Path("retentive.toml"), Path("retentive.json"), own / "config.toml", own / "config.json")
    return next((place for place in places if place.is_file()), None)


def _from_file(path: Path) -> dict[str, Any]:
    """The settings in a TOML file, or in a JSON5 file if it is called JSON, with the `hybrid` block as tuning."""
    import tomllib

    as_json = path.suffix.lower() in (".json", ".json5")
    try:
        text = path.read_text(encoding="utf-8")
        read = json.loads(_plain_json(text)) if as_json else tomllib.loads(text)
    except (json.JSONDecodeError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"{path} is not valid {'JSON' if as_json else 'TOML'}: {error}") from None
    if not isinstance(read, dict):
        raise Invalid(f"{path}: the settings are a JSON object")
    if "agents" in read:  # the configuration of an agent, which has settings of its own beside ours
        read = _of_agent(read, path)
    block = read.pop("hybrid", None)
    if block is not None:
        read["tuning"] = {"hybrid": block, **read.get("tuning", {})}
    try:
        return _expanded(read)
    except Invalid as error:
        raise Invalid(f"{path}: {error}") from None


_JSON5 = re.compile(
    r"""(?P<space>\s+) | (?P<comment>//[^\n]*|/\*.*?\*/)
    | (?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    | (?P<name>[A-Za-z_$][\w$]*)(?=\s*:)
    | (?P<number>[+-]?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)) | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)


def _plain_json(text: str) -> str:
    """JSON5 as JSON of the same lines: without comments and trailing commas, with quotes around names and texts."""
    parts: list[str] = []
    comma = None  # the place of a comma that only spaces and comments follow
    for found in _JSON5.finditer(text):
        kind, part = found.lastgroup, found[0]
        if kind == "comment":
            part = re.sub(r"[^\n]", " ", part)
        elif kind == "text" and part[0] == "'":
            part = '"' + re.sub(r"\\'|\"", lambda one: "'" if one[0] == "\\'" else '\\"', part[1:-1]) + '"'
        elif kind == "name":
            part = f'"{part}"'
        elif kind == "number":
            part = str(int(part, 16)) if "x" in part.lower() else repr(float(part)) if "." in part else part.lstrip("+")
        elif part in ("}", "]") and comma is not None:
            parts[comma] = " "
        if kind not in ("space", "comment"):
            comma = len(parts) if part == "," else None
        parts.append(part)
    return "".join(parts)


def _of_agent(read: dict[str, Any], path: Path) -> dict[str, Any]:
    """Our own settings in an agent's configuration, and its block at `agents.defaults.memorySearch.query`.

    What else it has of the search is not taken, and a warning tells so.
    """
    from retentive.ranking.hybrid import HYBRID_NAMES

    search: Any = read
    for name in ("agents", "defaults", "memorySearch"):
        search = search.get(name) if isinstance(search, dict) else None
    search = dict(search) if isinstance(search, dict) else {}
    query = search.pop("query", None)
    query = dict(query) if isinstance(query, dict) else {}
    hybrid = query.pop("hybrid", None)
    own = {name: value for name, value in read.items() if name in SETTINGS or name == "hybrid"}
    block: dict[str, Any] = {}
    left = [*search]
    for prefix, part in (("query.", query), ("query.hybrid.", hybrid if isinstance(hybrid, dict) else {})):
        block |= {name: value for name, value in part.items() if name in HYBRID_NAMES}
        left += [prefix + name for name in part if name not in HYBRID_NAMES]
    if left:
        _warn(f"{path}: not taken from agents.defaults.memorySearch: {', '.join(left)}")
    return {"hybrid": block, **own} if block or hybrid is not None else own


@cache
def _warn(message: str) -> None:
    """Log a warning, once in this process."""
    import logging

    logging.getLogger(__name__).warning(message)


def _expanded(layer: dict[str, Any]) -> dict[str, Any]:
    """A layer of settings with parameters by their Python names; a preset or `hybrid` block is replaced by its own."""
    tuning = layer.get("tuning")
    if not isinstance(tuning, Mapping) or not any(name in _WHOLE or _OTHER_SPELLING(str(name)) for name in tuning):
        return layer
    from retentive.ranking.tuning import expand

    return {**layer, "tuning": expand(tuning)}


_WHOLE = ("preset", "hybrid")
_OTHER_SPELLING = re.compile("[A-Z-]").search
"""Finds what the Python name of a parameter does not have; the names are looked up only where they are needed."""


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in environment.items():
        if not name.startswith(PREFIX) or not value:
            continue
        setting = name.removeprefix(PREFIX).lower()
        if setting in ("store", "profile", "busy_seconds", "given_days", "redact_secrets"):
            found[setting] = value
        elif setting == "embedder":
            found.setdefault("embedder", {})["name"] = value
        elif setting.startswith(("embedder_", "server_", "llm_")):
            section, _, field = setting.partition("_")
            found.setdefault(section, {})[field] = _split_list(value) if field in ("hosts", "origins") else value
        elif setting.startswith("tuning_"):
            found.setdefault("tuning", {})[setting.removeprefix("tuning_")] = parameter_value(value)
    return found


def _split_list(value: str) -> list[str]:
    return [item.strip() for item in value.split(",") if item.strip()]


def parameter_value(text: str) -> Any:
    """A parameter's value as typed: JSON where it is JSON (numbers, true, {"notes/*": 2}), else the text itself."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def parse_pairs(pairs: list[str] | None, example: str, *, noun: str = "key") -> dict[str, Any]:
    """Parse `key=value`; a value that is a JSON number, true, false or null is that, any other is text."""
    values = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise Invalid(f"'{pair}': write a {noun} as {noun}=value, such as {example}")
        values[name.strip()] = parameter_value(value.strip())
    return values


def _nested(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that were given; an embedder may be named by its name alone."""
    given = {name: value for name, value in arguments.items() if value is not None}
    if isinstance(given.get("embedder"), str):
        given["embedder"] = {"name": given["embedder"]}
    return given


def _merge(below: dict[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of one layer over those below. Tables such as `[tuning]` are merged; what they hold is replaced."""
    merged = dict(below)
    for name, value in above.items():
        old = merged.get(name)
        merged[name] = {**old, **value} if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged
