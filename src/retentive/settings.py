"""Where the store is, which embedder, which tuning: arguments, then environment, then the config file, then defaults.

The environment spells a setting `RETENTIVE_STORE`, `RETENTIVE_EMBEDDER`, `RETENTIVE_EMBEDDER_MODEL`,
`RETENTIVE_TUNING_KEYWORD_WEIGHT`; the config file (`retentive.toml` here, or in the user's config folder) as

    store = "memories.db"
    [embedder]
    name = "memory-small"
    [tuning]
    keyword_weight = 1.0

or as JSON in `retentive.json`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast
from urllib.parse import quote, unquote

from retentive.errors import Invalid, NotFound
from retentive.lazy_models import LazyModel, field, plain_message

if TYPE_CHECKING:
    from pydantic import SecretStr, ValidationError

    from retentive.ranking.tuning import Tuning

PREFIX = "RETENTIVE_"

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


class EmbedderSettings(LazyModel):
    """Which model turns text into vectors."""

    name: str = field(
        default="memory-small",
        description="memory-small, multilingual, local:DIRECTORY, fastembed:MODEL, an http(s) address, or none.",
    )
    model: str | None = field(default=None, description="The model's name at an http(s) address.")
    api_key: SecretStr | None = field(default=None, description="The key for an http(s) address.")
    path: str | None = field(default=None, description="Where a fastembed model lies, if it is not to be fetched.")
    pooling: Literal["cls", "mean"] = field(default="cls", description="How a local model's token vectors become one.")
    query_prefix: str = field(default="", max_length=500, description="Text that the model expects before a query.")
    document_prefix: str = field(
        default="",
        max_length=500,
        description="Text that the model expects before a memory; another one needs `reembed`.",
    )
    timeout: float = field(default=10.0, gt=0, le=600, description="Seconds for one request to an http(s) address.")
    retries: int = field(default=3, ge=0, le=10, description="How often a failed request is tried again.")


class LlmSettings(LazyModel):
    """The LLM server that chat requests are passed on to: any server with OpenAI's chat completions API."""

    url: str | None = field(
        default=None,
        description="Base URL of the server, such as http://127.0.0.1:11434/v1 (Ollama) or https://api.openai.com/v1.",
    )
    model: str | None = field(default=None, description="Model for requests that do not name one.")
    api_key: SecretStr | None = field(default=None, description="API key for the server, if it needs one.")
    context_tokens: int = field(default=2000, ge=0, le=200_000, description="Token budget for memories in a prompt.")
    recent_turns: int = field(
        default=10, ge=0, le=1000, description="Number of the session's latest episodes that are in a prompt."
    )
    timeout: float = field(
        default=120.0, gt=0, le=3600, description="Seconds without any data after which a request fails."
    )
    extract_facts: bool = field(
        default=False,
        description="After each turn, ask `llm.model` for facts in the user's message and store them with keys.",
    )


LOOPBACK = ("127.0.0.1", "::1", "localhost")
"""Host names of this machine, at which a request needs no token."""


class ServerSettings(LazyModel):
    """Where the HTTP service listens, and which requests it accepts."""

    host: str = field(
        default="127.0.0.1",
        description="Address to listen on. On any address but loopback, every request needs a token.",
    )
    port: int = field(default=4000, ge=0, le=65535, description="Port to listen on; 0 chooses a free one.")
    workers: int = field(default=1, ge=1, le=64, description="Number of processes that serve the store.")
    require_token: bool = field(default=False, description="Require a token on loopback too.")
    hosts: tuple[str, ...] = field(
        default=(),
        description="Additional host names accepted in the Host header; with one, every request needs a token.",
    )
    public_url: str | None = field(
        default=None,
        description="Address under which clients reach the service, such as https://memory.example.org. It turns OAuth "
        "on for MCP clients.",
    )
    origins: tuple[str, ...] = field(default=(), description="Web origins whose pages may call the service (CORS).")
    liveness_port: int | None = field(
        default=None,
        ge=1,
        le=65535,
        description="Another port, at which any request is answered while the service runs, however busy it is.",
    )
    max_body: int = field(default=16_000_000, ge=1000, description="Maximum size of a request body, in bytes.")
    max_batch: int = field(default=1000, ge=1, description="Maximum number of memories in one request.")
    max_requests_per_token: int = field(
        default=32,
        ge=1,
        description="Maximum number of requests in progress for one token in each worker; more get 429.",
    )
    mcp_explain: bool = field(default=False, description="Offer the tool memory_explain to MCP clients.")
    log: Literal["text", "json", "off"] = field(default="text", description="Format of the request log on stderr.")
    sweep_seconds: float = field(
        default=3600.0,
        ge=0,
        description="Seconds after which expired memories are deleted again; 0 never deletes them.",
    )
    keep_expired_days: float = field(
        default=30.0,
        ge=0,
        le=36500,
        description="Days for which expired memories are kept before the service deletes them.",
    )

    @property
    def token_reason(self) -> str | None:
        """Why every request needs a token; None if it does not."""
        if self.host not in LOOPBACK:
            return f"{self.host} is not a loopback address"
        if self.require_token:
            return "server.require_token is set"
        # With a public address or host name, requests from other machines arrive from a proxy on this one.
        if self.public_url is not None:
            return "server.public_url is set"
        other = next((name for name in self.hosts if name.lower() not in LOOPBACK), None)
        return None if other is None else f"server.hosts has {other}, which is not a loopback name"


class Settings(LazyModel):
    """Everything that is chosen before a store is opened."""

    store: str = field(
        default_factory=default_store,
        description="Where the memories are: the path of a file, or an address such as postgresql://…",
    )
    vectors: str | None = field(
        default=None,
        description="An index of the store's vectors on a Qdrant server: qdrant+http://host:6333/prefix or "
        "qdrant+https://…. Without one the store searches by itself.",
    )
    profile: str = field(default="default", min_length=1, description="The profile to work in, if none is given.")
    busy_seconds: float = field(
        default=60.0,
        gt=0,
        le=3600,
        description="Seconds that a write waits for other processes that write to the store.",
    )
    numeric_dates: Literal["day-first", "month-first"] = field(
        default="day-first", description="Whether 5/8/2023 in a query or a filter is 5 August or May 8."
    )
    given_days: float = field(
        default=30.0,
        ge=0,
        le=36500,
        description="Days for which the log of what agents were given is kept; 0 keeps no log.",
    )
    redact_secrets: bool = field(
        default=True,
        description="Replace keys, tokens, passwords, card and bank numbers in texts before they are stored, and leave "
        "out what is between <private> and </private>.",
    )
    embedder: EmbedderSettings = EmbedderSettings()
    server: ServerSettings = ServerSettings()
    llm: LlmSettings = LlmSettings()
    tuning: dict[str, Any] = field(default_factory=dict, description="Parameters that differ from the store's tuning.")

    @property
    def public_store(self) -> str:
        """The address of the store, without any password."""
        return public_address(self.store)

    @property
    def store_option(self) -> str:
        """The option that names the store in a command from any folder; empty for the default store."""
        if self.store in ("", default_store()):
            return ""
        store = self.public_store if "://" in self.store else str(Path(self.store).expanduser().absolute())
        return f"--store {shlex.quote(store)}"

    @property
    def month_first(self) -> bool:
        """Whether the month comes first in a date such as 5/8/2023."""
        return self.numeric_dates == "month-first"

    @property
    def search(self) -> dict[str, Any]:
        """What decides how the store is searched, as plain values; a process with the same ones finds the same."""
        embedder = self.embedder.model_dump(exclude_unset=True, exclude={"api_key"})
        return search_settings({"embedder": embedder, "tuning": self.tuning, "numeric_dates": self.numeric_dates})

    def tuned(self, saved: Mapping[str, Any]) -> Tuning:
        """The tuning in effect: the parameters set here, over those saved in the store."""
        from retentive.ranking.tuning import Tuning, parse_tuning

        chosen = {**saved, **self.configured_tuning}
        return parse_tuning(chosen) if chosen else Tuning()

    @property
    def configured_tuning(self) -> dict[str, Any]:
        """The parameters set here, by their Python names."""
        return dict(_expand(self.tuning)) if self.tuning else {}


TABLES: dict[str, type[LazyModel]] = {"embedder": EmbedderSettings, "server": ServerSettings, "llm": LlmSettings}
"""The tables of the config file, except `[tuning]`."""


def load_settings(
    arguments: Mapping[str, Any] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    config: str | os.PathLike[str] | None = None,
) -> Settings:
    """The settings in force. What is wrong is named with the place it comes from."""
    merged = configured(arguments, environment=environment, config=config)
    try:
        settings = Settings.model_validate(merged)
    except ValueError as error:  # pydantic's, which is imported only if there is something to check
        file = find_config(os.environ if environment is None else environment, config)
        where = f" (from {file}, the environment or arguments)" if file else ""
        raise Invalid(f"the settings are not valid{where}: {_problems(cast('ValidationError', error))}") from None
    if settings.tuning:
        from retentive.ranking.tuning import parse_tuning

        parse_tuning(settings.tuning)
    return settings


def _problems(error: ValidationError) -> str:
    found = [(".".join(str(part) for part in item["loc"]), plain_message(item["msg"])) for item in error.errors()]
    return "; ".join(f"{name}: {message}" for name, message in found)


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
    """Of configured values, those that decide how a store is searched; of the embedder not its key."""
    given = values.get("embedder") or {}
    embedder = {name: value for name, value in given.items() if name != "api_key"}
    name = str(embedder.get("name", EmbedderSettings().name))
    if name.startswith("local:"):
        name = f"local:{Path(name.removeprefix('local:')).absolute()}"
    return {
        "embedder": {**embedder, "name": name},
        "tuning": dict(values.get("tuning") or {}),
        "numeric_dates": values.get("numeric_dates", Settings().numeric_dates),
    }


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
    own = {name: value for name, value in read.items() if name in Settings.model_fields or name == "hybrid"}
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
    return {**layer, "tuning": _expand(tuning)} if isinstance(tuning, Mapping) else layer


def _expand(tuning: Mapping[str, Any]) -> Mapping[str, Any]:
    """Parameters by their Python names; a preset or `hybrid` block is replaced by its own. See `tuning.expand`."""
    if not any(name in ("preset", "hybrid") or _OTHER_SPELLING(str(name)) for name in tuning):
        return tuning
    from retentive.ranking.tuning import expand

    return expand(tuning)


_OTHER_SPELLING = re.compile("[A-Z-]").search
"""Finds what the Python name of a parameter does not have; the names are looked up only where they are needed."""


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in environment.items():
        if not name.startswith(PREFIX) or not value:
            continue
        setting = name.removeprefix(PREFIX).lower()
        table, _, inner = setting.partition("_")
        if setting == "embedder":
            found.setdefault("embedder", {})["name"] = value
        elif table == "tuning" and inner:
            found.setdefault("tuning", {})[inner] = parameter_value(value)
        elif table in TABLES and inner:
            found.setdefault(table, {})[inner] = _split_list(value) if inner in ("hosts", "origins") else value
        elif setting in Settings.model_fields and setting not in (*TABLES, "tuning"):
            found[setting] = value
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
