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
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from platformdirs import user_config_path, user_data_path
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from retentive.errors import Invalid
from retentive.ranking.tuning import WHOLE, Tuning, expand, parse_tuning

PREFIX = "RETENTIVE_"

_SUGGESTED = re.compile(
    r"\bretentive(?= (?:(?:doctor|imports|judge|reembed|remember|samples|token|tune)\b|watch \S+ --forget))"
)
"""The start of a command that a message suggests and that works on a store."""


def default_store() -> str:
    """The store that is used if none is named."""
    return str(user_data_path("retentive") / "memories.db")


class EmbedderSettings(BaseModel):
    """Which model turns text into vectors."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(
        "memory-small",
        description="memory-small, multilingual, local:DIRECTORY, fastembed:MODEL, an http(s) address, or none.",
    )
    model: str | None = Field(None, description="The model's name at an http(s) address.")
    api_key: SecretStr | None = Field(None, description="The key for an http(s) address.")
    path: str | None = Field(None, description="Where a fastembed model lies, if it is not to be fetched.")
    pooling: Literal["cls", "mean"] = Field("cls", description="How a local model's token vectors become one.")
    timeout: float = Field(10.0, gt=0, le=600, description="Seconds for one request to an http(s) address.")
    retries: int = Field(3, ge=0, le=10, description="How often a failed request is tried again.")


class LlmSettings(BaseModel):
    """The LLM server that chat requests are passed on to: any server with OpenAI's chat completions API."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str | None = Field(
        None,
        description="Base URL of the server, such as http://127.0.0.1:11434/v1 (Ollama) or https://api.openai.com/v1.",
    )
    model: str | None = Field(None, description="Model for requests that do not name one.")
    api_key: SecretStr | None = Field(None, description="API key for the server, if it needs one.")
    timeout: float = Field(120.0, gt=0, le=3600, description="Seconds without any data after which a request fails.")
    context_tokens: int = Field(2000, ge=0, le=200_000, description="Token budget for memories in a prompt.")
    recent: int = Field(10, ge=0, le=1000, description="Number of the session's latest episodes in a prompt.")
    extract_facts: bool = Field(
        False, description="After each turn, ask `llm.model` for facts in the user's message and store them with keys."
    )


class ServerSettings(BaseModel):
    """Where the HTTP service listens, and which requests it accepts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = Field(
        "127.0.0.1", description="Address to listen on. On any address but loopback, every request needs a token."
    )
    port: int = Field(4000, ge=0, le=65535, description="Port to listen on; 0 chooses a free one.")
    workers: int = Field(1, ge=1, le=64, description="Number of processes that serve the store.")
    require_token: bool = Field(False, description="Require a token on loopback too.")
    hosts: tuple[str, ...] = Field((), description="Additional host names accepted in the Host header.")
    public_url: str | None = Field(
        None,
        description="Address under which clients reach the service, such as https://memory.example.org. It turns OAuth "
        "on for MCP clients.",
    )
    origins: tuple[str, ...] = Field((), description="Web origins whose pages may call the service (CORS).")
    max_body: int = Field(16_000_000, ge=1000, description="Maximum size of a request body, in bytes.")
    max_batch: int = Field(1000, ge=1, description="Maximum number of memories in one request.")
    max_requests_per_token: int = Field(
        32, ge=1, description="Maximum number of requests in progress for one token; more get 429."
    )
    mcp_explain: bool = Field(False, description="Offer the tool memory_explain to MCP clients.")
    log: Literal["text", "json", "off"] = Field("text", description="Format of the request log on stderr.")
    sweep_seconds: float = Field(
        3600.0, ge=0, description="Seconds after which expired memories are deleted again; 0 never deletes them."
    )
    keep_expired_days: float = Field(
        30.0, ge=0, le=36500, description="Days for which expired memories are kept before the service deletes them."
    )


class Settings(BaseModel):
    """Everything that is chosen before a store is opened."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    store: str = Field(
        default_factory=default_store,
        description="Where the memories are: the path of a file, or an address such as postgresql://… or qdrant+http://…",
    )
    profile: str = Field("default", min_length=1, description="The profile to work in, if none is given.")
    busy_seconds: float = Field(
        60.0, gt=0, le=3600, description="Seconds that a write waits for other processes that write to the store."
    )
    embedder: EmbedderSettings = EmbedderSettings()
    server: ServerSettings = ServerSettings()
    llm: LlmSettings = LlmSettings()
    tuning: dict[str, Any] = Field(default_factory=dict, description="Parameters that differ from the store's tuning.")

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

    def tuned(self, saved: Mapping[str, Any]) -> Tuning:
        """The tuning in effect: the parameters set here, over those saved in the store."""
        return parse_tuning({**saved, **self.configured_tuning})

    @property
    def configured_tuning(self) -> dict[str, Any]:
        """The parameters set here, by their Python names, also those that are settings of chat."""
        names = {"context_tokens": "context_tokens", "recent": "recent_turns"}
        of_chat = {new: getattr(self.llm, name) for name, new in names.items() if name in self.llm.model_fields_set}
        return {**of_chat, **expand(self.tuning)}


def name_store(message: str, option: str) -> str:
    """Add the option that names the store to every command that a message suggests."""
    return _SUGGESTED.sub(lambda found: f"{found[0]} {option}", message) if option else message


def public_address(address: str) -> str:
    """An address with every password in it hidden."""
    hidden = re.sub(r"://([^:/@?]*):[^@/]*@", r"://\1:***@", address)
    hidden = re.sub(r"%3A%2F%2F([^&]*?)(?::|%3A)[^&]*?(?:@|%40)", r"%3A%2F%2F\1:***@", hidden, flags=re.IGNORECASE)
    return re.sub(r"([?&][a-z_]*(?:password|key|token)=)[^&]*", r"\1***", hidden, flags=re.IGNORECASE)


def load_settings(
    arguments: Mapping[str, Any] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    config: str | os.PathLike[str] | None = None,
) -> Settings:
    """The settings in force. What is wrong is named with the place it comes from."""
    environment = os.environ if environment is None else environment
    file = find_config(environment, config)
    layers = [_from_file(file) if file else {}, _from_environment(environment), _nested(arguments or {})]
    layers = [_expanded(layer) for layer in layers]
    merged: dict[str, Any] = {}
    for layer in layers:
        merged = _merge(merged, layer)
    try:
        settings = Settings.model_validate(merged)
    except ValidationError as error:
        where = f" (from {file}, the environment or arguments)" if file else ""
        raise Invalid(f"the settings are not valid{where}: {_problems(error)}") from None
    parse_tuning(settings.tuning)
    return settings


def _problems(error: ValidationError) -> str:
    return "; ".join(f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}" for item in error.errors())


def find_config(environment: Mapping[str, str], config: str | os.PathLike[str] | None = None) -> Path | None:
    """The config file in force: the one named, or `retentive.toml` or `.json` here, or the user's own."""
    named = config or environment.get(f"{PREFIX}CONFIG")
    if named:
        if not Path(named).is_file():
            raise Invalid(f"there is no config file {named}")
        return Path(named)
    own = user_config_path("retentive")
    places = (Path("retentive.toml"), Path("retentive.json"), own / "config.toml", own / "config.json")
    return next((place for place in places if place.is_file()), None)


def _from_file(path: Path) -> dict[str, Any]:
    """The settings in a TOML file, or in a JSON file if it is called that, with the `hybrid` block as tuning."""
    as_json = path.suffix.lower() in (".json", ".json5")
    try:
        text = path.read_text(encoding="utf-8")
        read = json.loads(text) if as_json else tomllib.loads(text)
    except (json.JSONDecodeError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"{path} is not valid {'JSON' if as_json else 'TOML'}: {error}") from None
    if not isinstance(read, dict):
        raise Invalid(f"{path}: the settings are a JSON object")
    if "agents" in read:  # the configuration of an agent, which has settings of its own beside ours
        read = _of_agent(read)
    block = read.pop("hybrid", None)
    if block is not None:
        read["tuning"] = {"hybrid": block, **read.get("tuning", {})}
    try:
        return _expanded(read)
    except Invalid as error:
        raise Invalid(f"{path}: {error}") from None


def _of_agent(read: dict[str, Any]) -> dict[str, Any]:
    """Our own settings in an agent's configuration, and the block at `agents.defaults.memorySearch.query.hybrid`."""
    found: Any = read
    for name in ("agents", "defaults", "memorySearch", "query", "hybrid"):
        found = found.get(name) if isinstance(found, dict) else None
    own = {name: value for name, value in read.items() if name in Settings.model_fields or name == "hybrid"}
    return own if found is None else {"hybrid": found, **own}


def _expanded(layer: dict[str, Any]) -> dict[str, Any]:
    """A layer of settings in which a preset or `hybrid` block is replaced by its parameters."""
    tuning = layer.get("tuning")
    if not isinstance(tuning, Mapping) or not any(name in tuning for name in WHOLE):
        return layer
    return {**layer, "tuning": expand(tuning)}


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in environment.items():
        if not name.startswith(PREFIX) or not value:
            continue
        setting = name.removeprefix(PREFIX).lower()
        if setting in ("store", "profile", "busy_seconds"):
            found[setting] = value
        elif setting == "embedder":
            found.setdefault("embedder", {})["name"] = value
        elif setting.startswith("embedder_"):
            found.setdefault("embedder", {})[setting.removeprefix("embedder_")] = value
        elif setting.startswith(("server_", "llm_")):
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


def _nested(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that were given; an embedder may be named by its name alone."""
    given = {name: value for name, value in arguments.items() if value is not None}
    if isinstance(given.get("embedder"), str):
        given["embedder"] = {"name": given["embedder"]}
    return given


def _merge(below: dict[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for name, value in above.items():
        old = merged.get(name)
        merged[name] = _merge(old, value) if isinstance(old, dict) and isinstance(value, Mapping) else value
    return merged
