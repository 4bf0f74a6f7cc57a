"""Write the hooks into the configuration of a client, and remove them again. What else is there is kept."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from importlib.resources import files
from pathlib import Path
from typing import Any

from retentive.errors import Invalid
from retentive.hooks.events import EVENTS
from retentive.hooks.options import HookOptions

TIMEOUT_SECONDS = 5
SESSION_END_SECONDS = 3
"""Codex allows no more at the end of a session."""

_CLAUDE_EVENTS = {
    "session-start": "SessionStart",
    "prompt": "UserPromptSubmit",
    "turn-end": "Stop",
    "session-end": "SessionEnd",
}
_CURSOR_EVENTS = {
    "session-start": "sessionStart",
    "prompt": "beforeSubmitPrompt",
    "turn-end": "afterAgentResponse",
    "session-end": "sessionEnd",
}
_START = "import sys; sys.path.append(sys.argv[1]); from retentive.hooks.main import run_hook; run_hook(sys.argv[3:])"
"""What Python runs. The words after it are the folder of the package, the word `hook` and those of the hook."""

_PLUGIN = {"id": "retentive", "name": "Retentive", "description": "Recall and capture with Retentive."}


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file before and after; None if it does not exist."""

    path: Path
    before: str | None
    after: str | None

    def diff(self) -> str:
        """Return the change as a unified diff; empty if nothing changes."""
        before, after = (self.before or "").splitlines(), (self.after or "").splitlines()
        old, new = (str(self.path) if text is not None else os.devnull for text in (self.before, self.after))
        return "\n".join(unified_diff(before, after, old, new, lineterm=""))

    def apply(self) -> None:
        """Write the file, or remove it."""
        if self.before == self.after:
            return
        if self.after is None:
            self.path.unlink(missing_ok=True)
            if self.path.parent.name == _PLUGIN["id"] and not any(self.path.parent.iterdir()):
                self.path.parent.rmdir()
            return
        target = self.path.resolve()  # a link, as from a folder of dotfiles, stays one
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f"{target.name}.{os.getpid()}.part")
        part.write_text(self.after, encoding="utf-8")
        if target.exists():
            part.chmod(target.stat().st_mode & 0o777)
        part.replace(target)


def hook_program() -> list[str]:
    """Return the start of a command that runs a hook of this installation in the shortest time.

    Python neither reads its environment nor searches for installed packages (`-I -S`): that takes a third of its start,
    and the script `retentive` imports more. If the package is gone, the exit code is 1. Clients go on after that one;
    after 2, which Python returns if a script is gone, they stop the prompt.
    """
    folder = Path(__file__).absolute().parents[2]
    return [str(Path(sys.executable).absolute()), "-I", "-S", "-c", _START, str(folder)]


def plan_install(program: Sequence[str], options: HookOptions) -> list[FileChange]:
    """Return the changes that add the hooks to a client, or that replace the ones from before."""
    return _changes(options.client, program, options)


def plan_uninstall(client: str) -> list[FileChange]:
    """Return the changes that remove the hooks from a client."""
    return _changes(client, (), None)


def installed_events(client: str) -> list[str]:
    """Return the events for which a client runs our hooks; `Invalid` if its configuration cannot be read."""
    if client == "openclaw":
        folder = client_home(client) / "extensions" / _PLUGIN["id"]
        return [event for event in EVENTS if (folder / "index.js").is_file()]
    names = _event_names(client)
    hooks = _section(read_json(config_file(client)), "hooks", config_file(client))
    return [event for event, name in names.items() if any(_commands(hooks.get(name), client))]


def config_file(client: str) -> Path:
    """Return the file in which a client has its hooks."""
    names = {"claude-code": "settings.json", "codex": "hooks.json", "cursor": "hooks.json", "openclaw": "openclaw.json"}
    return client_home(client) / names[client]


def client_home(client: str) -> Path:
    """The folder in which a client keeps its configuration."""
    variables = {"claude-code": "CLAUDE_CONFIG_DIR", "codex": "CODEX_HOME", "openclaw": "OPENCLAW_STATE_DIR"}
    folders = {"claude-code": ".claude", "codex": ".codex", "openclaw": ".openclaw", "cursor": ".cursor"}
    named = os.environ.get(variables.get(client, ""), "")
    return Path(named).expanduser() if named else Path.home() / folders[client]


def _event_names(client: str) -> Mapping[str, str]:
    return _CURSOR_EVENTS if client == "cursor" else _CLAUDE_EVENTS


def _changes(client: str, program: Sequence[str], options: HookOptions | None) -> list[FileChange]:
    try:
        return _openclaw_changes(program, options) if client == "openclaw" else _hook_changes(client, program, options)
    except Invalid as error:
        raise Invalid(
            f"{error}; nothing was changed. Correct the file, which may have no comments and no trailing commas, or "
            "add the hooks by hand: 'retentive hook install … --dry-run' in an empty home folder prints them"
        ) from None


def _hook_changes(client: str, program: Sequence[str], options: HookOptions | None) -> list[FileChange]:
    path = config_file(client)
    config = read_json(path)
    hooks = dict(_section(config, "hooks", path))
    for event, name in _event_names(client).items():
        kept = list(_without_ours(hooks.get(name), client))
        if options is not None and (options.capture or event in ("session-start", "prompt")):
            command = shlex.join([*program, "hook", event, *options.words()])
            kept.append(_entry(client, command, SESSION_END_SECONDS if event == "session-end" else TIMEOUT_SECONDS))
        if kept:
            hooks[name] = kept
        else:
            hooks.pop(name, None)
    changed = {**config, "hooks": hooks}
    if client == "cursor":
        changed = {"version": 1, **changed}
    if not hooks and options is None:
        changed.pop("hooks")
    return [json_change(path, config, changed)]


def _entry(client: str, command: str, seconds: int) -> dict[str, Any]:
    if client == "cursor":
        return {"command": command}  # its documents do not agree on the unit of a timeout
    return {"hooks": [{"type": "command", "command": command, "timeout": seconds}]}


def _without_ours(groups: Any, client: str) -> Iterator[Any]:
    """Yield the entries of an event that are not ours; a group with other hooks keeps those."""
    for group in groups if isinstance(groups, list) else []:
        if not isinstance(group, dict):
            yield group
        elif isinstance(group.get("hooks"), list):
            others = [one for one in group["hooks"] if not _is_ours(one, client)]
            if others:
                yield {**group, "hooks": others}
        elif not _is_ours(group, client):
            yield group


def _commands(groups: Any, client: str) -> Iterator[str]:
    for group in groups if isinstance(groups, list) else []:
        inner = group.get("hooks") if isinstance(group, dict) else None
        for one in inner if isinstance(inner, list) else [group]:
            if _is_ours(one, client):
                yield one["command"]


def _is_ours(hook: Any, client: str) -> bool:
    command = hook.get("command") if isinstance(hook, dict) else None
    pattern = rf"retentive\b.* hook ({'|'.join(EVENTS)}) .*--client={re.escape(client)}\b"
    return isinstance(command, str) and re.search(pattern, command) is not None


def _openclaw_changes(program: Sequence[str], options: HookOptions | None) -> list[FileChange]:
    folder = client_home("openclaw") / "extensions" / _PLUGIN["id"]
    contents: dict[str, str | None] = dict.fromkeys(("package.json", "openclaw.plugin.json", "retentive.json"))
    contents["index.js"] = None
    if options is not None:
        started = {"program": list(program), "options": options.words(), "capture": options.capture}
        package = {"name": _PLUGIN["id"], "version": "1.0.0", "type": "module"}
        schema = {"type": "object", "additionalProperties": False, "properties": {}}
        contents["package.json"] = _dump({**package, "openclaw": {"extensions": ["./index.js"]}})
        contents["openclaw.plugin.json"] = _dump(
            {**_PLUGIN, "activation": {"onCapabilities": ["hook"]}, "configSchema": schema}
        )
        contents["retentive.json"] = _dump(started)
        contents["index.js"] = files("retentive.hooks").joinpath("openclaw_plugin.js").read_text(encoding="utf-8")
    changes = [FileChange(folder / name, read_text(folder / name), text) for name, text in contents.items()]
    return [*changes, _openclaw_config(enable=options is not None)]


def _openclaw_config(*, enable: bool) -> FileChange:
    path = config_file("openclaw")
    config = read_json(path)
    plugins = dict(_section(config, "plugins", path))
    entries = dict(_section(plugins, "entries", path))
    old = entries.pop(_PLUGIN["id"], {})
    if enable:
        hooks = {**(old.get("hooks") or {}), "allowConversationAccess": True}
        entries[_PLUGIN["id"]] = {**old, "enabled": True, "hooks": hooks}
    allow = [one for one in plugins.get("allow") or [] if one != _PLUGIN["id"]]
    if allow or plugins.get("allow") is not None:  # an empty list would allow all plugins
        plugins["allow"] = [*allow, _PLUGIN["id"]] if enable else allow
    if entries or "entries" in plugins:
        plugins["entries"] = entries
    changed = {**config, "plugins": plugins} if plugins or "plugins" in config else config
    return json_change(path, config, changed)


def read_json(path: Path) -> dict[str, Any]:
    """The contents of a file of a client; empty if there is none. `Invalid` if it is not plain JSON."""
    text = read_text(path)
    if text is None or not text.strip():
        return {}
    try:
        read = json.loads(text)
    except json.JSONDecodeError as error:
        raise Invalid(f"{path} is not plain JSON ({error})") from None
    if not isinstance(read, dict):
        raise Invalid(f"{path} is not a JSON object")
    return read


def _section(config: Mapping[str, Any], name: str, path: Path) -> Mapping[str, Any]:
    section = config.get(name) or {}
    if not isinstance(section, dict):
        raise Invalid(f"{path}: '{name}' is not an object")
    return section


def json_change(path: Path, before: Mapping[str, Any], after: Mapping[str, Any]) -> FileChange:
    """The change of a file from one JSON object to another."""
    text = read_text(path)
    return FileChange(path, text, text if before == after else _dump(after))


def _dump(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def read_text(path: Path) -> str | None:
    """The text of a file; None if there is none."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise Invalid(f"{path} is not valid UTF-8") from None
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror or error}") from None
