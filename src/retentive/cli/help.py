"""The help of commands: plain text that fits the terminal, with names for values and with examples.

`command` and `group` register a command or a group of commands with its examples.
"""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum, EnumType
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from retentive.cli.commands import COMMANDS
from retentive.cli.options import styled

MAX_WIDTH = 100
COMMON = ("--store", "--profile", "--json", "--full")
"""The common options that the help of every command names."""

NAMES = 26
"""The width of the column of names; a longer name has a line of its own."""

MANY = 30
"""Choices of more characters are described, not shown as the value of an option."""

TYPES = {"int": "NUMBER", "float": "NUMBER", "Path": "PATH"}
NAMES_OF_VALUES = {
    "NAME": ("project", "session", "profile", "preset", "model", "actor", "speaker", "client", "embedder", "host"),
    "ID": ("exclude", "good", "bad", "remove", "id"),
    "KIND": ("kind",),
    "TIME": ("since", "until", "as_of", "occurred", "valid_from", "expires", "at", "asked_at"),
    "KEY=VALUE": ("set_parameters",),
    "JSON": (),
    "FILE": ("report", "plot", "config", "jsonl", "output"),
}
"""What the value of an option is called, by the name of the option."""

SECTIONS = {
    "Memories": ("remember", "recall", "explain", "get", "list", "update", "forget", "chat"),
    "Facts that change": ("supersede", "retract", "restore", "history", "review", "sweep"),
    "Files": ("import", "imports", "export", "watch", "samples"),
    "Store": (
        "status", "projects", "sessions", "config", "doctor", "backup", "recover", "compact", "reembed", "copy"
    ),
    "Quality": ("judge", "given", "eval", "tune"),
    "Services": ("setup", "serve", "token", "mcp", "hook"),
}  # fmt: skip
"""The commands of the program by what they are for."""

Function = TypeVar("Function", bound=Callable[..., Any])


class HelpCommand(TyperCommand):
    """A command whose help is printed by `help_text`, with the same usage in errors."""

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        formatter.write_usage(ctx.command_path, _usage(self, _arguments(self, ctx)))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(help_text(self, ctx))


class HelpGroup(TyperGroup):
    """A group of commands whose help is printed by `help_text`, with the same usage in errors."""

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        formatter.write_usage(ctx.command_path, _usage(self, _arguments(self, ctx)))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(help_text(self, ctx))


def command(to: typer.Typer, *examples: str, name: str | None = None) -> Callable[[Function], Function]:
    """Register a function as a command of a program or group, with examples of how it is called."""
    return to.command(name=name, cls=HelpCommand, epilog="\n".join(examples))


def group(help: str, *examples: str, default: bool = True) -> typer.Typer:
    """Return a group of commands. `default` says whether it does something without one of them."""
    return typer.Typer(
        cls=HelpGroup,
        help=help,
        epilog="\n".join(examples),
        invoke_without_command=default,
        no_args_is_help=not default,
        add_completion=False,
        rich_markup_mode=None,
    )


def help_text(command: Any, ctx: Any) -> str:
    """Return the help of a command: its usage, description, arguments, options by panel, commands and examples."""
    width = min(shutil.get_terminal_size().columns, MAX_WIDTH)
    shown = [one for one in command.get_params(ctx) if not one.hidden]
    arguments = _arguments(command, ctx)
    options = [one for one in shown if one.param_type_name == "option"]
    lines = [f"{styled('Usage:', bold=True)} {ctx.command_path} {_usage(command, arguments)}", ""]
    for paragraph in (command.help or "").split("\n\n"):
        lines += [*_wrap(" ".join(paragraph.split()), width), ""]
    lines += _section("Arguments", [(value_name(one), _description(one)) for one in arguments], width)
    for title, panel in _panels(options):
        lines += _section(title, [(_names(one), _description(one)) for one in panel], width)
    lines += _commands(getattr(command, "commands", {}), width, sections=ctx.parent is None)
    if ctx.parent is not None:
        lines += [f"Also {', '.join(COMMON)}: see retentive -h", ""]
    examples = (command.epilog or "").splitlines()
    lines += [styled("Examples", bold=True), *(f"  {example}" for example in examples)] if examples else []
    return "\n".join(lines).rstrip() + "\n"


def _arguments(command: Any, ctx: Any) -> list[Any]:
    return [one for one in command.get_params(ctx) if one.param_type_name == "argument" and not one.hidden]


def value_name(parameter: Any) -> str:
    """What the value of an option or argument is called in help: its own name, the name of its type, or TEXT."""
    if parameter.metavar:
        return str(parameter.metavar)
    if parameter.param_type_name == "argument":
        return str(parameter.name).replace("_", "-").upper()
    choices = "|".join(choices_of(parameter))
    if choices and len(choices) <= MANY:
        return choices
    type = getattr(_type(parameter), "__name__", "")
    by_name = (value for value, names in NAMES_OF_VALUES.items() if parameter.name in names)
    return TYPES.get(type) or next(by_name, "TEXT")


def choices_of(parameter: Any) -> list[str]:
    """The values that a parameter accepts, if they are an enumeration."""
    type = _type(parameter)
    return [str(one.value) for one in list[Enum](type)] if isinstance(type, EnumType) else []


def _type(parameter: Any) -> Any:
    return getattr(getattr(parameter, "type_descriptor", None), "annotation", None)


def is_flag(parameter: Any) -> bool:
    """Whether an option takes no value."""
    return bool(getattr(parameter, "is_flag", False))


def _usage(command: Any, arguments: Sequence[Any]) -> str:
    words = [value_name(one) + ("…" if one.nargs != 1 or one.multiple else "") for one in arguments]
    shown = [word if one.required else f"[{word}]" for word, one in zip(words, arguments, strict=True)]
    last = ["COMMAND"] if getattr(command, "commands", None) else []
    return " ".join([*shown, "[OPTIONS]", *last])


def _panels(options: Sequence[Any]) -> Iterator[tuple[str, list[Any]]]:
    """The options by their panel, those without one first."""
    panels: dict[str, list[Any]] = {"Options": []}
    for one in options:
        panels.setdefault(getattr(one, "rich_help_panel", None) or "Options", []).append(one)
    yield from panels.items()


def _names(option: Any) -> str:
    names = ", ".join(sorted((*option.opts, *option.secondary_opts), key=len))
    return names if is_flag(option) else f"{names} {value_name(option)}"


def _description(parameter: Any) -> str:
    default = parameter.show_default if isinstance(parameter.show_default, str) else parameter.default
    default = default.value if isinstance(default, Enum) else default
    notes = []
    choices = choices_of(parameter)
    if choices and "|".join(choices) not in (value_name(parameter), ""):
        notes.append(f"One of {', '.join(choices)}.")
    if default not in (None, False, True, "", ()) and not callable(default):
        notes.append(f"Default: {default}.")
    if parameter.required and parameter.param_type_name == "option":
        notes.append("Required.")
    if parameter.envvar:
        notes.append(f"Also from {parameter.envvar}.")
    return " ".join([parameter.help or "", *notes]).strip()


def summary(command: Any) -> str:
    """The first sentence of a command's help."""
    text = " ".join((command.help or "").split("\n\n")[0].split())
    return text.split(". ")[0].removesuffix(".") + "."


def _commands(commands: Mapping[str, Any], width: int, *, sections: bool) -> list[str]:
    """The sections of commands; those of the program are in several, and their summaries are known."""
    titles = SECTIONS if sections else {"Commands": tuple(commands)}
    rows = {
        title: [(name, COMMANDS[name].summary if sections else summary(commands[name])) for name in names]
        for title, names in titles.items()
    }
    return [line for title in titles if commands for line in _section(title, rows[title], width)]


def _section(title: str, rows: Sequence[tuple[str, str]], width: int) -> list[str]:
    if not rows:
        return []
    column = min(max(len(name) for name, _ in rows) + 2, NAMES)
    lines = [styled(title, bold=True)]
    for name, text in rows:
        wrapped = _wrap(text, max(width - column - 2, 20)) or [""]
        head = f"  {name}"
        if len(name) + 2 > column:
            lines.append(head)
            head = ""
        lines += [f"{head:<{column + 2}}{wrapped[0]}".rstrip(), *(" " * (column + 2) + more for more in wrapped[1:])]
    return [*lines, ""]


def _wrap(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False)
