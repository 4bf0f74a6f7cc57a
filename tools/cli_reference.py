"""Generate docs/cli-reference.md, the commands with their arguments and options, from the Typer application."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import typer

from retentive.cli.app import app
from retentive.cli.help import choices_of, value_name
from retentive.cli.options import EXIT_CODES
from tools.markdown import GENERATED, code, page, table

INTRODUCTION = """# Command line reference

Every command of `retentive` with the text of its `--help`. [The command line](cli.md) shows how they are used."""


class Parameter(Protocol):
    """An argument or an option of a Typer command."""

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
    """A command, or a group with `commands`."""

    help: str | None
    epilog: str | None
    params: Sequence[Parameter]


def cli_reference() -> str:
    """Return the page."""
    found: Any = typer.main.get_command(app)
    program: Command = found
    everywhere = [shown for shown in program.params if shown.name != "help"]
    return page(
        INTRODUCTION,
        GENERATED,
        "## Common options",
        (program.help or "").rpartition("\n\n")[2],
        _options(everywhere),
        "## Exit codes",
        _exit_codes(),
        *(_section(name, command) for name, command in _commands(program, "retentive")),
    )


def _commands(group: Command, prefix: str) -> Iterator[tuple[str, Command]]:
    """Yield the commands of a group and of its groups, in the order of `--help`."""
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
        f"```text\n{command.epilog}\n```" if command.epilog else "",
    )


def _help(command: Command) -> str:
    return " ".join((command.help or "").split())


def _usage(argument: Parameter) -> str:
    several = "…" if argument.nargs != 1 or argument.multiple else ""
    return _value(argument) + several if argument.required else f"[{_value(argument)}{several}]"


def _arguments(arguments: Sequence[Parameter]) -> str:
    rows = [(code(_value(one)), one.help or "") for one in arguments]
    return table(("argument", "description"), rows) if rows else ""


def _options(options: Sequence[Parameter]) -> str:
    rows = [(_spelled(one), _default(one), _explained(one)) for one in options]
    return table(("option", "default", "description"), rows) if rows else ""


def _spelled(option: Parameter) -> str:
    names = [*option.opts, *option.secondary_opts]
    value = "" if _is_flag(option) else f" {_value(option)}"
    return ", ".join(code(f"{name}{value if name.startswith('--') else ''}") for name in names)


def _explained(option: Parameter) -> str:
    choices = choices_of(option)
    named = f" One of {', '.join(map(code, choices))}." if choices else ""
    variables = [option.envvar] if isinstance(option.envvar, str) else list(option.envvar or ())
    also = f" Also from {', '.join(map(code, variables))}." if variables else ""
    return f"{option.help or ''}{named}{also}{' Required.' if option.required else ''}"


def _default(option: Parameter) -> str:
    if isinstance(option.show_default, str):
        return code(option.show_default)
    return code(option.default) if option.default not in (None, False, "", ()) else ""


def _value(parameter: Parameter) -> str:
    return value_name(parameter)


def _is_flag(option: Parameter) -> bool:
    return bool(getattr(option, "is_flag", False))


def _exit_codes() -> str:
    rows = {0: "Success.", 1: "Any other error, or a check that failed.", 130: "Interrupted by Ctrl-C."}
    rows |= {number: kind.__doc__ or "" for kind, number in EXIT_CODES.items()}
    return table(("code", "meaning"), [(code(number), rows[number]) for number in sorted(rows)])
