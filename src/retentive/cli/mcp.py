"""Commands that serve memory to an MCP client, and print the configuration for each client."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from importlib.util import find_spec
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from retentive.cli.help import command, group
from retentive.cli.options import Common, common, with_store
from retentive.errors import Invalid, MissingExtra
from retentive.extras import needs_extra
from retentive.settings import PREFIX, ServerSettings, Settings, find_config, load_settings

NAME = "retentive"
TOKEN = "YOUR-TOKEN"  # noqa: S105 - a placeholder

mcp = group(
    "Serve memory to an MCP client over standard input and output, or print the client's configuration.",
    "retentive mcp config --client claude-code",
    "retentive mcp --project home --read-only",
)

Project = Annotated[
    str | None,
    typer.Option(help="Limit the client to this project; 'auto' is the name of the folder in which it works."),
]
Session = Annotated[
    str | None,
    typer.Option(help="Session for new memories; without --project, recall is limited to it as well."),
]
ReadOnly = Annotated[bool, typer.Option("--read-only", help="Do not allow changes.")]
Explain = Annotated[bool, typer.Option("--explain", help="Offer the tool memory_explain as well.")]


@mcp.callback()
def serve(
    ctx: typer.Context,
    project: Project = None,
    session: Session = None,
    read_only: ReadOnly = False,
    explain: Explain = False,
) -> None:
    """Serve memory to an MCP client over standard input and output, until it disconnects."""
    if ctx.invoked_subcommand:
        if project or session or read_only or explain:
            raise Invalid("put --project, --session, --read-only and --explain after 'config'")
        return
    output = _reserve_output()  # before the imports, which may print
    with needs_extra("the MCP server", "server"):
        from retentive.server.mcp.stdio import serve_stdio
        from retentive.server.mcp.tools import open_scope
    with common(ctx).engine(missing="create") as engine:
        scope_in = partial(open_scope, engine, session=session, read_only=read_only)
        serve_stdio(scope_in, output, project=project, read_only=read_only, explain=explain)


def _reserve_output() -> TextIO:
    """Reserve standard output for the protocol; everything else that is printed goes to standard error."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # text that is still buffered goes there too
    return TextIOWrapper(output, encoding="utf-8")


class Client(StrEnum):
    """The supported clients."""

    CLAUDE_DESKTOP = "claude-desktop"
    CLAUDE_CODE = "claude-code"
    CURSOR = "cursor"
    VSCODE = "vscode"
    WINDSURF = "windsurf"
    ZED = "zed"
    GEMINI_CLI = "gemini-cli"
    CODEX = "codex"
    OPENCLAW = "openclaw"


@command(mcp, "retentive mcp config --client claude-code", "retentive mcp config --client cursor --http")
def config(
    ctx: typer.Context,
    client: Annotated[Client, typer.Option(help="MCP client.")],
    http: Annotated[bool, typer.Option("--http", help="Connect to a running 'retentive serve'.")] = False,
    project: Project = None,
    session: Session = None,
    read_only: ReadOnly = False,
    explain: Explain = False,
) -> None:
    """Print the configuration of an MCP client. Standard error tells where to put it; --json always prints JSON."""
    given = common(ctx)
    settings = load_settings(
        {"store": given.store, "embedder": given.embedder, "profile": given.profile}, config=given.config
    )
    given_over_stdio = {
        "--session": session,
        "--read-only": read_only,
        "--explain": explain,
        "--project auto": project == "auto",
    }
    if http and (refused := [_OVER_HTTP[name] for name, value in given_over_stdio.items() if value]):
        raise Invalid("; ".join(refused))
    if http:
        built = _http_config(client, given, settings.server, project)
    else:
        if find_spec("mcp") is None:
            raise MissingExtra("the MCP server", "server")
        options = [f"--{name}={value}" for name, value in (("project", project), ("session", session)) if value]
        options += [name for name, wanted in (("--read-only", read_only), ("--explain", explain)) if wanted]
        built = _stdio_config(client, given, settings, options)
    if built.command and not given.json:
        typer.echo(shlex.join(built.command))
    elif client is Client.CODEX and not given.json:
        typer.echo(as_toml(built.settings))
    else:
        typer.echo(json.dumps(built.settings, indent=2, ensure_ascii=False))
    for line in (_destination(client, as_json=given.json), *built.notes):
        typer.echo(line, err=True)


_OVER_HTTP = {
    "--project auto": "--project auto: over HTTP the service does not know the client's folder; name the project",
    "--session": "--session: over HTTP a client can be limited to a project (--project), not to a session",
    "--read-only": "--read-only: over HTTP the token determines what is allowed (retentive token create --access read)",
    "--explain": "--explain: over HTTP the setting server.mcp_explain of the service offers memory_explain",
}
"""What to do in place of the options of `retentive mcp` that a service over HTTP does not have."""


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """The configuration of a client: settings as JSON, or a command if the client has one; and notes."""

    settings: Mapping[str, Any]
    command: Sequence[str] = ()
    notes: Sequence[str] = field(default_factory=tuple)


def _stdio_config(client: Client, given: Common, settings: Settings, options: Sequence[str]) -> ClientConfig:
    words = [*program(), "mcp", *common_arguments(given, settings), *options]
    entry = {"command": words[0], "args": words[1:]}
    command = ["claude", "mcp", "add", NAME, "--", *words] if client is Client.CLAUDE_CODE else ()
    passed_on = {f"{PREFIX}{name}" for name in ("STORE", "PROFILE", "EMBEDDER", "CONFIG")}
    missing = sorted(
        name for name in os.environ if name.startswith(PREFIX) and name not in passed_on and os.environ[name]
    )
    note = f'these variables of your environment are not included: {", ".join(missing)}; add them to "env" if needed'
    notes = [*([note] if missing else []), *([IN_CACHE] if in_cache() else [])]
    return ClientConfig(file_contents(client, entry, "stdio"), command, notes)


def _http_config(client: Client, given: Common, server: ServerSettings, project: str | None) -> ClientConfig:
    if client is Client.CLAUDE_DESKTOP:
        raise Invalid("Claude Desktop's settings file starts programs and takes no address; leave out --http")
    host = "127.0.0.1" if server.host in ("0.0.0.0", "::") else server.host  # noqa: S104 - compared, not listened on
    url = f"http://{f'[{host}]' if ':' in host else host}:{server.port or 4000}/mcp"
    headers, notes = {}, [f"it needs a running 'retentive serve' at {url}"]
    if server.public_url:
        url = f"{server.public_url.rstrip('/')}/mcp"
        notes = [f"the client opens a page of {server.public_url}, on which you approve it with a token"]
    elif server.token_reason:
        headers["Authorization"] = f"Bearer {TOKEN}"
        notes.append(f"replace {TOKEN} with a token; create one with: {with_store('retentive token create')}")
    if given.profile:
        headers["X-Profile"] = given.profile
    if project:
        headers["X-Project"] = project
    entry = {"url": url} | ({"headers": headers} if headers else {})
    command: list[str] = []
    if client is Client.CLAUDE_CODE:
        options = [word for name, value in headers.items() for word in ("--header", f"{name}: {value}")]
        command = ["claude", "mcp", "add", "--transport", "http", NAME, url, *options]
    return ClientConfig(file_contents(client, entry, "http"), command, notes)


def file_contents(client: Client, entry: Mapping[str, Any], transport: str) -> dict[str, Any]:
    """The entry of the server, as it is in the client's file."""
    if client is Client.VSCODE:
        return {"servers": {NAME: {"type": transport, **entry}}}
    if client is Client.CLAUDE_CODE:
        return {"mcpServers": {NAME: {"type": transport, **entry}}}
    if client is Client.ZED:
        return {"context_servers": {NAME: dict(entry)}}
    if client is Client.OPENCLAW:
        return {"mcp": {"servers": {NAME: {**entry, **({"transport": "streamable-http"} if "url" in entry else {})}}}}
    names = _ADDRESS_NAMES.get(client, {})
    written = {names.get(name, name): value for name, value in entry.items()}
    return {"mcp_servers" if client is Client.CODEX else "mcpServers": {NAME: written}}


_ADDRESS_NAMES: dict[Client, dict[str, str]] = {
    Client.WINDSURF: {"url": "serverUrl"},
    Client.GEMINI_CLI: {"url": "httpUrl"},
    Client.CODEX: {"headers": "http_headers"},
}
"""What some clients call the address of a server, and the headers that they send to it."""


def as_toml(settings: Mapping[str, Any]) -> str:
    """The settings of Codex, whose file is TOML. Strings and lists of JSON are the same in TOML."""
    entry = settings["mcp_servers"][NAME]
    plain = [f"{name} = {_dump(value)}" for name, value in entry.items() if not isinstance(value, Mapping)]
    lines = [f"[mcp_servers.{NAME}]", *plain]
    for name, value in entry.items():
        if isinstance(value, Mapping):
            lines += [f"[mcp_servers.{NAME}.{name}]", *(f"{key} = {_dump(text)}" for key, text in value.items())]
    return "\n".join(lines)


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _destination(client: Client, *, as_json: bool) -> str:
    """Where the configuration belongs, in a sentence."""
    file = settings_file(client)
    if client is Client.CLAUDE_CODE:
        if as_json:
            return f"put it into .mcp.json in the folder of your project, or into {file} for all projects"
        return "run this in a terminal; add '--scope user' before the name for all projects"
    merge = "merge it with what is there, and restart the client"
    if client is Client.VSCODE:
        return f"put it into {file}, or into .vscode/mcp.json of a project; {merge}"
    return f"put it into {file}; {merge}"


_FILES = {
    Client.CURSOR: ".cursor/mcp.json",
    Client.CLAUDE_CODE: ".claude.json",
    Client.WINDSURF: ".codeium/windsurf/mcp_config.json",
    Client.GEMINI_CLI: ".gemini/settings.json",
    Client.CODEX: ".codex/config.toml",
    Client.OPENCLAW: ".openclaw/openclaw.json",
}
"""The files of the clients that are at the same place in the home folder on every system."""


def settings_file(client: Client) -> Path:
    """The file in which a client has its MCP servers, those of all projects."""
    home = Path.home()
    if client in _FILES:
        return home / _FILES[client]
    if sys.platform == "darwin":
        settings = home / "Library" / "Application Support"
    else:
        settings = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    if client is Client.ZED:
        return home / ".config" / "zed" / "settings.json"
    if client is Client.VSCODE:
        return settings / "Code" / "User" / "mcp.json"
    return settings / "Claude" / "claude_desktop_config.json"


def program() -> list[str]:
    """The command that starts this installation from any folder."""
    # Not resolved: the Python of a virtual environment is a link, and its target has no access to our packages.
    python = Path(sys.executable).absolute()
    beside = python.parent / "retentive"
    return [str(beside)] if os.access(beside, os.X_OK) else [str(python), "-m", "retentive"]


IN_CACHE = "this program runs from a cache that can be emptied; first run 'uv tool install' or 'pipx install'"


def in_cache() -> bool:
    """Whether this installation is one that `uvx` or `pipx run` has made for a short time."""
    return any(part.lower() in (".cache", "cache", "caches") or part == "archive-v0" for part in Path(sys.prefix).parts)


def common_arguments(given: Common, settings: Settings) -> list[str]:
    """The options that select the same store from another folder and environment."""
    store = settings.store if "://" in settings.store else str(Path(settings.store).expanduser().absolute())
    words = [f"--store={store}"]
    if settings.profile != "default":
        words.append(f"--profile={settings.profile}")
    if settings.embedder.name != "memory-small":
        words.append(f"--embedder={settings.embedder.name}")
    file = find_config(os.environ, given.config)
    if file:
        words.append(f"--config={file.absolute()}")
    return words
