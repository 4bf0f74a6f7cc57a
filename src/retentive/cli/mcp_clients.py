"""What each MCP client wants to be told of a server, and where it keeps it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from retentive.cli.options import Common
from retentive.errors import Invalid
from retentive.settings import PREFIX, ServerSettings, Settings, find_config

NAME = "retentive"
TOKEN = "YOUR-TOKEN"  # noqa: S105 - what stands where the token goes
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Client(StrEnum):
    """The clients we know."""

    CLAUDE_DESKTOP = "claude-desktop"
    CLAUDE_CODE = "claude-code"
    CURSOR = "cursor"
    VSCODE = "vscode"


@dataclass(frozen=True, slots=True)
class Configured:
    """What to paste: settings as JSON, or a command where the client has one; and what else to know."""

    settings: Mapping[str, Any]
    command: Sequence[str] = ()
    notes: Sequence[str] = field(default_factory=tuple)


def configured(
    client: Client,
    asked: Common,
    settings: Settings,
    *,
    http: bool,
    project: str | None,
    session: str | None,
    read_only: bool,
) -> Configured:
    """What a client is to be told of this server."""
    if http:
        if session or read_only:
            raise Invalid("over HTTP the token says what is allowed (retentive token create --scope read)")
        return _over_http(client, asked, settings.server, project)
    words = [*program(), "mcp", *_arguments(asked, settings)]
    words += [f"--{name}={value}" for name, value in (("project", project), ("session", session)) if value]
    words += ["--read-only"] if read_only else []
    entry = {"command": words[0], "args": words[1:]}
    command = ["claude", "mcp", "add", NAME, "--", *words] if client is Client.CLAUDE_CODE else ()
    return Configured(_in_file(client, entry, "stdio"), command, _left_out())


def _over_http(client: Client, asked: Common, server: ServerSettings, project: str | None) -> Configured:
    if client is Client.CLAUDE_DESKTOP:
        raise Invalid("Claude Desktop's settings file starts programs and takes no address; leave out --http")
    host = "127.0.0.1" if server.host in ("0.0.0.0", "::") else server.host  # noqa: S104 - compared, not listened on
    url = f"http://{f'[{host}]' if ':' in host else host}:{server.port or 4000}/mcp"
    headers, notes = {}, [f"it is reached while 'retentive serve' runs, at {url}"]
    if server.require_token or server.host not in LOOPBACK:
        headers["Authorization"] = f"Bearer {TOKEN}"
        notes.append(f"put a token in the place of {TOKEN}; make one with: retentive token create")
    if asked.profile:
        headers["X-Profile"] = asked.profile
    if project:
        headers["X-Project"] = project
    entry = {"url": url} | ({"headers": headers} if headers else {})
    command: list[str] = []
    if client is Client.CLAUDE_CODE:
        given = [word for name, value in headers.items() for word in ("--header", f"{name}: {value}")]
        command = ["claude", "mcp", "add", "--transport", "http", NAME, url, *given]
    return Configured(_in_file(client, entry, "http"), command, notes)


def _in_file(client: Client, entry: Mapping[str, Any], transport: str) -> dict[str, Any]:
    """The server's entry as it stands in the client's file."""
    if client is Client.VSCODE:
        return {"servers": {NAME: {"type": transport, **entry}}}
    if client is Client.CLAUDE_CODE:
        return {"mcpServers": {NAME: {"type": transport, **entry}}}
    return {"mcpServers": {NAME: dict(entry)}}


def place_for(client: Client, *, as_json: bool = False) -> Sequence[str]:
    """Where it goes, in a sentence or two."""
    file = _file_of(client)
    if client is Client.CLAUDE_CODE:
        if as_json:
            return (f"goes into .mcp.json in the folder of your project, or into {file} for all of them",)
        return ("run this in a terminal; add '--scope user' before the name for all projects",)
    again = "merge it if there is something already, and restart the client"
    if client is Client.VSCODE:
        return (f"goes into {file}, or into .vscode/mcp.json of a project; {again}",)
    return (f"goes into {file}; {again}",)


def _file_of(client: Client) -> Path:
    home = Path.home()
    if client is Client.CURSOR:
        return home / ".cursor" / "mcp.json"
    if client is Client.CLAUDE_CODE:
        return home / ".claude.json"
    if sys.platform == "darwin":
        settings = home / "Library" / "Application Support"
    elif sys.platform == "win32":
        settings = Path(os.environ.get("APPDATA") or home / "AppData" / "Roaming")
    else:
        settings = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    if client is Client.VSCODE:
        return settings / "Code" / "User" / "mcp.json"
    return settings / "Claude" / "claude_desktop_config.json"


def program() -> list[str]:
    """How to start this very installation from anywhere."""
    # Not resolved: the Python of a virtual environment is a link, and what it links to lacks our packages.
    python = Path(sys.executable).absolute()
    beside = python.parent / ("retentive.exe" if sys.platform == "win32" else "retentive")
    return [str(beside)] if os.access(beside, os.X_OK) else [str(python), "-m", "retentive"]


def _arguments(asked: Common, settings: Settings) -> list[str]:
    """What must be said so that a client, which has another folder and environment, gets the same store."""
    store = settings.store if "://" in settings.store else str(Path(settings.store).expanduser().absolute())
    words = [f"--store={store}"]
    if settings.profile != "default":
        words.append(f"--profile={settings.profile}")
    if settings.embedder.name != "bge-small":
        words.append(f"--embedder={settings.embedder.name}")
    file = find_config(os.environ, asked.config)
    if file:
        words.append(f"--config={file.absolute()}")
    return words


def _left_out() -> list[str]:
    """Settings in the environment that a client does not hand on."""
    carried = {f"{PREFIX}{name}" for name in ("STORE", "PROFILE", "EMBEDDER", "CONFIG")}
    rest = sorted(name for name in os.environ if name.startswith(PREFIX) and name not in carried and os.environ[name])
    if not rest:
        return []
    return [f'not in it are {", ".join(rest)} of your environment: add them to "env" of the entry if it needs them']
