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

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from retentive.checked import Checked, field, plain_message
from retentive.configuration import configured, default_store, find_config, public_address, search_settings
from retentive.errors import Invalid
from retentive.ranking.tuning import Tuning, expand, parse_tuning

if TYPE_CHECKING:
    from pydantic import SecretStr, ValidationError


class EmbedderSettings(Checked):
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


class LlmSettings(Checked):
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


class ServerSettings(Checked):
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


class Settings(Checked):
    """Everything that is chosen before a store is opened."""

    store: str = field(
        default_factory=default_store,
        description="Where the memories are: the path of a file, or an address such as postgresql://…",
    )
    profile: str = field(default="default", min_length=1, description="The profile to work in, if none is given.")
    busy_seconds: float = field(
        default=60.0,
        gt=0,
        le=3600,
        description="Seconds that a write waits for other processes that write to the store.",
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
    def search(self) -> dict[str, Any]:
        """What decides how the store is searched, as plain values; a process with the same ones finds the same."""
        embedder = self.embedder.model_dump(exclude_unset=True, exclude={"api_key"})
        return search_settings({"embedder": embedder, "tuning": self.tuning})

    def tuned(self, saved: Mapping[str, Any]) -> Tuning:
        """The tuning in effect: the parameters set here, over those saved in the store."""
        chosen = {**saved, **self.configured_tuning}
        return parse_tuning(chosen) if chosen else Tuning()

    @property
    def configured_tuning(self) -> dict[str, Any]:
        """The parameters set here, by their Python names."""
        return dict(expand(self.tuning)) if self.tuning else {}


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
        parse_tuning(settings.tuning)
    return settings


def _problems(error: ValidationError) -> str:
    found = [(".".join(str(part) for part in item["loc"]), plain_message(item["msg"])) for item in error.errors()]
    return "; ".join(f"{name}: {message}" for name, message in found)
