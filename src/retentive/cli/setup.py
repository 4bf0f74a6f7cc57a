"""Connect the agents' clients on this machine to the store with one command, and undo it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from retentive.cli.hook import Client as HookClient
from retentive.cli.hook import hook_options
from retentive.cli.mcp import IN_CACHE, NAME, as_toml, common_arguments, file_contents, in_cache, program, settings_file
from retentive.cli.mcp import Client as McpClient
from retentive.cli.options import Common, common, emit, warn
from retentive.errors import Invalid, NotFound, RetentiveError
from retentive.hooks.install import (
    FileChange,
    client_home,
    config_file,
    hook_program,
    json_change,
    plan_install,
    plan_uninstall,
    read_json,
    read_text,
)
from retentive.server.runtime_file import running_service, user_folders, write_private
from retentive.settings import Settings, load_settings
from retentive.transfer.formats import find_format

PROGRAMS = {
    "claude-code": "claude", "codex": "codex", "cursor": "cursor", "openclaw": "openclaw", "gemini-cli": "gemini",
    "vscode": "code", "windsurf": "windsurf", "zed": "zed", "claude-desktop": "claude-desktop",
}  # fmt: skip
"""The clients that are looked for, and what they are called on the search path."""

TRANSCRIPTS = {"claude-code": "projects"}
"""Where clients keep the transcripts of earlier sessions, in their folders."""

START_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Change:
    """What setup changes in a file of a client."""

    client: str
    file: FileChange


def setup(
    ctx: typer.Context,
    client: Annotated[
        list[str] | None, typer.Option("--client", help="Only this client. Default: all that are found.")
    ] = None,
    import_transcripts: Annotated[
        bool, typer.Option("--import/--no-import", help="Import the transcripts of earlier sessions.")
    ] = True,
    service: Annotated[bool, typer.Option("--service/--no-service", help="Start the service of the store.")] = True,
    undo: Annotated[bool, typer.Option("--undo", help="Put the files back as they were before.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change and change nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Connect the agents' clients on this machine: hooks, MCP, the service, and what they said before."""
    given = common(ctx)
    if unknown := [name for name in client or () if name not in PROGRAMS]:
        raise Invalid(f"--client: one of {', '.join(PROGRAMS)}, not '{unknown[0]}'")
    if undo:
        _undo(ctx, dry_run=dry_run, yes=yes)
        return
    settings = load_settings(
        {"store": given.store, "embedder": given.embedder, "profile": given.profile}, config=given.config
    )
    clients = client or [name for name in PROGRAMS if _is_here(name)]
    if not clients:
        raise NotFound(f"no client was found on this machine; name one with --client: {', '.join(PROGRAMS)}")
    changes, problems = _plan(clients, given, settings)
    transcripts = [path for name in clients if import_transcripts and (path := _transcripts(name)) is not None]
    start = service and running_service(settings.store) is None
    _show(ctx, clients, changes, problems, transcripts, settings, start=start)
    result: dict[str, Any] = {
        "clients": clients,
        "problems": problems,
        "files": [{"path": str(one.file.path), "client": one.client, "diff": one.file.diff()} for one in changes],
        "imports": [str(path) for path in transcripts],
        "written": not dry_run,
    }
    if dry_run:
        emit(ctx, result, "Nothing was changed.")
        return
    if changes or transcripts or start:
        _ask("Make these changes?", yes=yes)
    _record(changes)
    for one in changes:
        one.file.apply()
    result["service"] = _start_service(given, settings) if start else running_service(settings.store)
    result["memories"], result["recalled"] = _fill(given, transcripts)
    emit(ctx, result, "\n".join(_done(clients, result)))


def _ask(question: str, *, yes: bool) -> None:
    if not yes and not sys.stdin.isatty():
        raise Invalid("nothing was changed; use --yes to make the changes without a question")
    if not yes:
        typer.confirm(question, abort=True, err=True)


def _is_here(client: str) -> bool:
    """Whether a client is installed: its folder exists, or its program is on the search path."""
    return _folder(client).is_dir() or shutil.which(PROGRAMS[client]) is not None


def _folder(client: str) -> Path:
    return client_home(client) if client in list(HookClient) else _mcp_file(client).parent


def _mcp_file(client: str) -> Path:
    """The file in which a client has its MCP servers."""
    if client == "claude-code":
        named = os.environ.get("CLAUDE_CONFIG_DIR", "")
        return Path(named).expanduser() / ".claude.json" if named else settings_file(McpClient.CLAUDE_CODE)
    if client == "codex":
        return client_home(client) / "config.toml"
    return config_file(client) if client == "openclaw" else settings_file(McpClient(client))


def _plan(clients: Sequence[str], given: Common, settings: Settings) -> tuple[list[Change], list[str]]:
    """The changes for each client, and why some clients are left out."""
    changes: list[Change] = []
    problems = []
    for client in clients:
        try:
            changes += _plan_client(client, given, settings)
        except Invalid as error:
            problems.append(f"{client}: {error}")
    return [one for one in changes if one.file.before != one.file.after], problems


def _plan_client(client: str, given: Common, settings: Settings) -> list[Change]:
    words = [*program(), "mcp", *common_arguments(given, settings)]
    files: list[FileChange] = []
    if client in list(HookClient):
        files = plan_install(hook_program(), hook_options(HookClient(client), given, settings))
    path = _mcp_file(client)
    contents = file_contents(McpClient(client), {"command": words[0], "args": words[1:]}, "stdio")
    planned = next((one for one in files if one.path == path), None)  # OpenClaw has both in one file
    if client == "codex":
        files.append(_toml_change(path, as_toml(contents)))
    elif planned is not None:
        merged = _merged(json.loads(planned.after or "{}"), contents)
        text = json.dumps(merged, indent=2, ensure_ascii=False) + "\n"
        files = [FileChange(path, one.before, text) if one is planned else one for one in files]
    else:
        before = read_json(path)
        files.append(json_change(path, before, _merged(before, contents)))
    return [Change(client, one) for one in files]


def _merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """An object with the entries of another one: the entry of our server is replaced, all others stay."""
    merged = dict(old)
    for name, value in new.items():
        inner = merged.get(name)
        is_section = name != NAME and isinstance(value, Mapping)
        merged[name] = _merged(inner if isinstance(inner, Mapping) else {}, value) if is_section else value
    return merged


def _without(old: Mapping[str, Any], sections: Mapping[str, Any]) -> dict[str, Any]:
    """An object without the entry of our server."""
    kept = dict(old)
    for name, inner in sections.items():
        if name == NAME:
            kept.pop(name, None)
        elif isinstance(kept.get(name), Mapping) and isinstance(inner, Mapping):
            kept[name] = _without(kept[name], inner)
    return kept


_TOML_ENTRY = re.compile(rf"^\[mcp_servers\.{NAME}(?:\.[^\]]*)?\]\n(?:(?!\[).*\n?)*", re.MULTILINE)


def _toml_change(path: Path, entry: str | None) -> FileChange:
    """Add the table of our server to a TOML file, or remove it. Comments and all else stay as they are."""
    before = read_text(path)
    kept = _TOML_ENTRY.sub("", before or "")
    if entry is None:
        return FileChange(path, before, None if before is None else kept)
    gap = "\n" if kept.strip() and not kept.endswith("\n\n") else ""
    return FileChange(path, before, f"{kept if not kept or kept.endswith(chr(10)) else kept + chr(10)}{gap}{entry}\n")


def _transcripts(client: str) -> Path | None:
    """The folder of a client's earlier sessions, if there are any."""
    folder = client_home(client) / TRANSCRIPTS[client] if client in TRANSCRIPTS else None
    return folder if folder is not None and find_format(client).recognises(folder) else None


def _show(
    ctx: typer.Context,
    clients: Sequence[str],
    changes: Sequence[Change],
    problems: Sequence[str],
    transcripts: Sequence[Path],
    settings: Settings,
    *,
    start: bool,
) -> None:
    for problem in problems:
        warn(f"left out: {problem}")
    if common(ctx).json:
        return
    typer.echo(f"Clients: {', '.join(clients)}")
    typer.echo(f"Store: {settings.public_store}\n")
    for one in changes:
        typer.echo(one.file.diff() + "\n")
    if not changes:
        typer.echo("All of them are connected already.")
    for path in transcripts:
        typer.echo(f"import the sessions in {path}")
    if start:
        typer.echo(f"start the service: {'a service of this user' if _has_systemd() else 'in the background'}")


# What was changed


def _record_file() -> Path:
    return Path(user_folders().user_state_dir("retentive")) / "setup.json"


def _raw(path: Path) -> str | None:
    """The text of a file with its line ends as they are; None if there is none."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None


def _record(changes: Sequence[Change]) -> None:
    """Keep what the files were before the first setup and are now, so that `--undo` can put them back.

    A file that somebody has changed since is not put back as it was: only our entries will be taken out.
    """
    found = _recorded()
    files, after = found["files"], found["after"]
    for one in changes:
        path, now = str(one.file.path), _raw(one.file.path)
        if path not in after:
            files.append({"path": path, "client": one.client, "before": now})
        after[path] = one.file.after if path not in after or now == after[path] else None
    _write_record(found)


def _recorded() -> dict[str, Any]:
    text = _raw(_record_file())
    return json.loads(text) if text else {"files": [], "after": {}, "service": None}


def _write_record(found: Mapping[str, Any]) -> None:
    path = _record_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(str(path), json.dumps(found))


def _undo(ctx: typer.Context, *, dry_run: bool, yes: bool) -> None:
    """Put back the files that only setup has changed since, and take our entries out of the others."""
    found = _recorded()
    changes: list[FileChange] = []
    exact: dict[Path, str] = {}
    for one in found["files"]:
        path, now = Path(one["path"]), _raw(Path(one["path"]))
        if now == found["after"].get(one["path"]):
            changes.append(FileChange(path, now, one["before"]))
            exact[path] = one["before"]
        else:
            changes += _taken_out(one["client"], path)
    changed = [one for one in changes if one.before != one.after]
    result = {"files": [{"path": str(one.path), "diff": one.diff()} for one in changed], "written": not dry_run}
    if not common(ctx).json:
        typer.echo("\n\n".join(one.diff() for one in changed) or "Nothing is to be undone.")
    if dry_run:
        emit(ctx, result, "Nothing was changed.")
        return
    if changed:
        _ask("Undo these changes?", yes=yes)
    for one in changed:
        one.apply()
        if exact.get(one.path) is not None:
            one.path.write_bytes(exact[one.path].encode())
    _stop_service(found["service"])
    _record_file().unlink(missing_ok=True)
    emit(ctx, result, "The clients are as they were before. Memories are kept.")


def _taken_out(client: str, path: Path) -> list[FileChange]:
    """The changes that take our entries out of a file that others have changed since."""
    if client == "codex" and path.suffix == ".toml":
        return [_toml_change(path, None)]
    files = [one for one in plan_uninstall(client) if one.path == path] if client in list(HookClient) else []
    if path != _mcp_file(client):
        return files
    before = files[0].after if files else read_text(path)
    contents = file_contents(McpClient(client), {"command": ""}, "stdio")
    after = _without(json.loads(before or "{}"), contents)
    text = json.dumps(after, indent=2, ensure_ascii=False) + "\n"
    return [FileChange(path, read_text(path), text)]


# The service

_UNIT = """[Unit]
Description=Retentive, a memory for agents

[Service]
ExecStart={command}
Restart=on-failure

[Install]
WantedBy=default.target
"""


def _unit_file() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd/user/retentive.service"


def _has_systemd() -> bool:
    """Whether this user has services of systemd."""
    if shutil.which("systemctl") is None:
        return False
    asked = subprocess.run(["systemctl", "--user", "show-environment"], capture_output=True, check=False)
    return asked.returncode == 0


def _start_service(given: Common, settings: Settings) -> str | None:
    """Start the service of the store, as a service of systemd where the user has these; return its address."""
    words = [*program(), "serve", *common_arguments(given, settings)]
    if _is_taken(settings.server.port):
        words += ["--port", "0"]
    pid = None
    if _has_systemd():
        unit = _unit_file()
        unit.parent.mkdir(parents=True, exist_ok=True)
        unit.write_text(_UNIT.format(command=subprocess.list2cmdline(words)), encoding="utf-8")
        for command in (["daemon-reload"], ["enable", "--now", unit.name]):
            subprocess.run(["systemctl", "--user", *command], check=False, capture_output=True)
    else:
        log = _record_file().with_name("service.log")
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            silent = subprocess.DEVNULL
            pid = subprocess.Popen(words, stdin=silent, stdout=output, stderr=output, start_new_session=True).pid
    _write_record({**_recorded(), "service": pid or str(_unit_file())})
    ends = time.monotonic() + START_SECONDS
    while (address := running_service(settings.store)) is None and time.monotonic() < ends:
        time.sleep(0.1)
    if address is None:
        warn("the service has not started yet; see: retentive hook status")
    return address


def _is_taken(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def _stop_service(started: int | str | None) -> None:
    if isinstance(started, str) and Path(started).is_file():
        subprocess.run(["systemctl", "--user", "disable", "--now", Path(started).name], check=False)
        Path(started).unlink()
    elif isinstance(started, int):
        with suppress(ProcessLookupError):
            os.kill(started, signal.SIGTERM)


# The first recall


def _fill(given: Common, transcripts: Sequence[Path]) -> tuple[int, list[str]]:
    """Import earlier sessions; return how many memories there are, and the first hits of a recall."""
    with given.engine(missing="create") as engine:
        for path in transcripts:
            try:
                engine.import_from(path)
            except RetentiveError as error:
                warn(f"{path} was not imported: {error}")
        count = engine.stats().memories
        if not count:
            return 0, []
        latest = engine.list(limit=1).memories[0]
        answer = engine.recall(latest.text[:200], limit=3, record_use=False)
        return count, [hit.memory.text[:100].replace("\n", " ") for hit in answer.hits]


def _done(clients: Sequence[str], result: Mapping[str, Any]) -> list[str]:
    lines = [f"Connected: {', '.join(clients)}. Restart them."]
    if "codex" in clients:
        lines.append("In Codex, approve the hooks with /hooks.")
    if in_cache():
        lines.append(f"Note: {IN_CACHE}.")
    if result["service"]:
        lines.append(f"The service runs at {result['service']}; its page shows what is stored and what agents get.")
    lines.append(f"The store has {result['memories']:,} memories." if result["memories"] else "The store is empty.")
    lines += [f"  {text}" for text in result["recalled"]]
    return [*lines, "To undo: retentive setup --undo"]
