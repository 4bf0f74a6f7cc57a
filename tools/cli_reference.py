"""docs/cli-reference.md: every command with its arguments and options, from the Typer application."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Protocol, cast

import typer

from retentive.cli.app import app
from retentive.cli.options import EXIT_CODES
from tools.markdown import GENERATED, code, page, table

INTRODUCTION = """# Command line reference

Every command of `retentive`, with what `--help` says of it. How they are used is told in [the command line](cli.md)."""


class Parameter(Protocol):
    """An argument or option of a command, as Typer has it."""

    name: str
    opts: Sequence[str]
    secondary_opts: Sequence[str]
    param_type_name: str
    required: bool
    multiple: bool
    nargs: int
    default: object
    show_default: bool | str
    metavar: str | None
    envvar: str | Sequence[str] | None
    help: str | None
    hidden: bool
    type_descriptor: Any


class Command(Protocol):
    """A command, or a group that has `commands` of its own."""

    help: str | None
    epilog: str | None
    params: Sequence[Parameter]


def cli_reference() -> str:
    """The page."""
    program = cast("Command", typer.main.get_command(app))
    everywhere = [shown for shown in program.params if shown.name != "help"]
    return page(
        INTRODUCTION,
        GENERATED,
        "## Common options",
        program.epilog or "",
        _options(everywhere),
        "## Exit codes",
        _exit_codes(),
        *(_section(name, command) for name, command in _commands(program, "retentive")),
    )


def _commands(group: Command, prefix: str) -> Iterator[tuple[str, Command]]:
    """Every command below a group, in the order in which `--help` lists them."""
    found: Mapping[str, Command] = getattr(group, "commands", {})
    for name, command in found.items():
        yield f"{prefix} {name}", command
        yield from _commands(command, f"{prefix} {name}")


def _section(name: str, command: Command) -> str:
    shown = [parameter for parameter in command.params if not parameter.hidden and parameter.name != "help"]
    arguments = [parameter for parameter in shown if parameter.param_type_name == "argument"]
    options = [parameter for parameter in shown if parameter.param_type_name == "option"]
    return page(
        f"## {name}",
        _help(command),
        "```text\n" + " ".join([name, *(_usage(argument) for argument in arguments)]) + "\n```",
        _arguments(arguments),
        _options(options),
    )


def _help(command: Command) -> str:
    return " ".join((command.help or "").split())


def _usage(argument: Parameter) -> str:
    several = "…" if argument.nargs != 1 or argument.multiple else ""
    return _value(argument) + several if argument.required else f"[{_value(argument)}{several}]"


def _arguments(arguments: Sequence[Parameter]) -> str:
    rows = [(code(_value(one)), one.help or "") for one in arguments]
    return table(("argument", "what it is"), rows) if rows else ""


def _options(options: Sequence[Parameter]) -> str:
    rows = [(_spelled(one), _default(one), _explained(one)) for one in options]
    return table(("option", "default", "what it does"), rows) if rows else ""


def _spelled(option: Parameter) -> str:
    names = [*option.opts, *option.secondary_opts]
    value = "" if _is_flag(option) else f" {_value(option)}"
    return ", ".join(code(f"{name}{value if name.startswith('--') else ''}") for name in names)


def _explained(option: Parameter) -> str:
    choices = option.type_descriptor.annotation
    named = (
        f" One of {', '.join(code(one.value) for one in choices)}."
        if isinstance(choices, type) and issubclass(choices, Enum)
        else ""
    )
    variables = [option.envvar] if isinstance(option.envvar, str) else list(option.envvar or ())
    also = f" Also from {', '.join(map(code, variables))}." if variables else ""
    return f"{option.help or ''}{named}{also}{' Needed.' if option.required else ''}"


def _default(option: Parameter) -> str:
    if isinstance(option.show_default, str):
        return code(option.show_default)
    return code(option.default) if option.default not in (None, False, "", ()) else ""


def _value(parameter: Parameter) -> str:
    return parameter.metavar or parameter.opts[0].lstrip("-").replace("-", "_").upper()


def _is_flag(option: Parameter) -> bool:
    return bool(getattr(option, "is_flag", False))


def _exit_codes() -> str:
    rows = {0: "Done.", 1: "Something else, or a check that failed.", 130: "Stopped by Ctrl-C."}
    rows |= {number: kind.__doc__ or "" for kind, number in EXIT_CODES.items()}
    return table(("code", "what happened"), [(code(number), rows[number]) for number in sorted(rows)])
