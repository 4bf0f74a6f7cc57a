"""Options that several commands share, the output of results, and the exit codes of errors."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer
from typer.core import TyperGroup

import retentive
from retentive.cli.commands import COMMANDS
from retentive.errors import (
    Conflict,
    Damaged,
    Invalid,
    MissingExtra,
    NotFound,
    RetentiveError,
    Unavailable,
    VersionConflict,
)
from retentive.lazy_models import plain_message
from retentive.settings import name_store, parse_pairs, public_address

if TYPE_CHECKING:  # imported when they are used
    from retentive.engine import Engine
    from retentive.models import Memory

EXIT_CODES: dict[type[RetentiveError], int] = {
    Invalid: 2,
    NotFound: 3,
    VersionConflict: 4,
    Conflict: 4,
    Unavailable: 5,
    MissingExtra: 6,
    Damaged: 7,
}
"""The exit code of each kind of error."""

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it: 128 and the number of the signal."""

_WITH_VALUE = ("--store", "--vectors", "--profile", "--embedder", "--config")
_FLAGS = ("--json", "--full")
_PERSON = re.compile(r"--profile[ =][^ =]+=.*", re.DOTALL)
"""`--profile NAME=ID`, which is an option of `retentive import` itself."""

SCOPE = "Scope"
"""The help panel of options that limit a command to some memories."""

RANKING = "Ranking"
"""The help panel of options that change the ranking."""

Project = Annotated[str | None, typer.Option(help="Only memories of this project.", rich_help_panel=SCOPE)]
Kinds = Annotated[
    list[str] | None,
    typer.Option("--kind", help="Only this kind: episodic, semantic or identity. Repeatable.", rich_help_panel=SCOPE),
]
SetParameters = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="Change a parameter for this call, such as keyword_weight=2. Repeatable.", rich_help_panel=RANKING
    ),
]
WithMetadata = Annotated[
    list[str] | None,
    typer.Option(
        "--metadata", help="Only memories with this metadata, such as topic=kitchen. Repeatable.", rich_help_panel=SCOPE
    ),
]
AsOf = Annotated[
    str | None,
    typer.Option(help="What was current at this time; a date is the end of that day.", rich_help_panel=SCOPE),
]
IncludeRetired = Annotated[
    bool, typer.Option("--include-retired", help="Also what is retired or expired.", rich_help_panel=SCOPE)
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


@dataclass(frozen=True, slots=True)
class Common:
    """The values of the common options."""

    store: str | None = None
    vectors: str | None = None
    profile: str | None = None
    embedder: str | None = None
    config: str | None = None
    json: bool = False
    full: bool = False

    def engine(self, *, missing: Literal["error", "create", "empty"] = "error") -> Engine:
        """Open an engine with these options.

        `missing` is what happens if there is no store: only commands that write create it. "empty" is an empty store in
        memory, for commands that show what would happen.
        """
        from retentive.engine import Engine

        options = {name: getattr(self, name) for name in ("vectors", "embedder", "profile", "config")}
        try:
            return Engine.open(self.store, **options, create=missing == "create")
        except NotFound:
            if missing != "empty":
                raise
        from retentive.inference.embedders import open_embedder
        from retentive.settings import load_settings
        from retentive.stores import open_store

        named = {"store": self.store, "embedder": self.embedder, "profile": self.profile}
        settings = load_settings(named, config=self.config)
        return Engine(open_store("memory://"), lambda: open_embedder(settings.embedder), settings=settings)

    @property
    def public_store(self) -> str | None:
        """The store option without passwords and keys."""
        return None if self.store is None else public_address(self.store)


_CURRENT: ContextVar[Common] = ContextVar("common options", default=Common())  # noqa: B039 - it is frozen
"""The common options of this call, for messages."""


def set_common(given: Common) -> None:
    """Set the common options of this call, for messages."""
    _CURRENT.set(given)


def with_store(message: str) -> str:
    """Name the store in every command that a message suggests, unless the same command would use it anyway."""
    store = _CURRENT.get().public_store
    if not store or store == os.environ.get("RETENTIVE_STORE"):
        return message
    return name_store(message, f"--store {shlex.quote(store)}")


def fits_terminal() -> bool:
    """Whether texts are cut to the terminal's width and ids are shortened: in a terminal, without `--full`."""
    return sys.stdout.isatty() and not _CURRENT.get().full


def program() -> str:
    """The program in commands that can be copied: as it was typed, if it is not on the path."""
    from shutil import which

    typed = "python -m retentive" if sys.argv[0].endswith("__main__.py") else shlex.quote(sys.argv[0])
    return "retentive" if which("retentive") else typed


def no_colour() -> bool:
    """Whether the user wants no colour at all."""
    return bool(os.environ.get("NO_COLOR"))


def styled(text: str, **style: Any) -> str:
    """Return a text with a style, or unchanged if there is to be no colour. `typer.echo` removes it in a pipe."""
    return text if no_colour() else typer.style(text, **style)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"retentive {retentive.__version__}")
        raise typer.Exit


def common_options(
    ctx: typer.Context,
    store: Annotated[
        str | None,
        typer.Option(help="Path of the store, or its address: postgresql://…", envvar="RETENTIVE_STORE"),
    ] = None,
    vectors: Annotated[
        str | None,
        typer.Option(
            help="Index of the store's vectors on a Qdrant server: qdrant+http://host:6333/prefix",
            envvar="RETENTIVE_VECTORS",
        ),
    ] = None,
    profile: Annotated[str | None, typer.Option(help="Profile to work in.", envvar="RETENTIVE_PROFILE")] = None,
    embedder: Annotated[
        str | None,
        typer.Option(help="memory-small, multilingual, local:DIRECTORY, fastembed:MODEL, an http(s) address, or none."),
    ] = None,
    config: Annotated[str | None, typer.Option(help="Config file (TOML).", envvar="RETENTIVE_CONFIG")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Print whole texts and ids in a terminal, as where output is piped.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Memory for AI agents: keyword and semantic search, fused, explained and tunable."""
    del version  # its callback prints it
    ctx.obj = Common(store, vectors, profile, embedder, config, json, full)
    set_common(ctx.obj)
    if ctx.invoked_subcommand is None:
        from retentive.cli.home import home

        home(ctx)


UsageError: Any = typer.BadParameter.__mro__[1]
"""What Typer raises for arguments that it cannot parse; it has no public name."""

_PLAIN = {
    "input should be a valid integer, unable to parse string as an integer": "it must be a whole number",
    "input should be a valid number, unable to parse string as a number": "it must be a number",
    "input should be": "it must be",
}
"""Reasons for which an argument is invalid, in our words."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C stopped a command; the message says what it did until then, and how to continue."""


class LazyCommands(MutableMapping[str, Any]):
    """The commands of the program by name. The names are known; a command is imported when it is read."""

    def __getitem__(self, name: str) -> Any:
        return _load(name)

    def __contains__(self, name: object) -> bool:
        return name in COMMANDS

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)

    def __setitem__(self, name: str, command: Any) -> None:
        raise TypeError("a command is added to COMMANDS")

    def __delitem__(self, name: str) -> None:
        raise TypeError("a command is removed from COMMANDS")


@cache
def _load(name: str) -> Any:
    """Import a command and return it as Typer builds it."""
    from retentive.cli.help import command

    module, _, attribute = COMMANDS[name].where.partition(".")
    found = getattr(import_module(f"retentive.cli.{module}"), attribute)
    if not isinstance(found, typer.Typer):
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        command(alone, *COMMANDS[name].examples, name=name)(found)
        return typer.main.get_command(alone)
    group = typer.main.get_command(found)
    group.name = name
    return group


class Program(TyperGroup):
    """The program. Its own options can also be given after a command, and a command is imported when it is used."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = LazyCommands()

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - Typer passes it
        return list(self.commands)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _common_first(args))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        from retentive.cli.help import help_text

        formatter.write(help_text(self, ctx))

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        try:
            return super().make_context(info_name, args, parent, **extra)
        except UsageError as error:
            refuse(error, as_json="--json" in args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except UsageError as error:
            refuse(error, as_json=bool(ctx.params.get("json")))
        except BrokenPipeError:
            _end_output()
        except RetentiveError as error:
            fail(error, as_json=bool(ctx.params.get("json")))
        except KeyboardInterrupt as stopped:
            stop(with_store(str(stopped)), as_json=bool(ctx.params.get("json")))


def _end_output() -> NoReturn:
    """End successfully when a reader such as `head` has what it wants."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(0)


def _common_first(args: list[str]) -> list[str]:
    """Move common options before the command. Arguments after `--` are not moved."""
    common: list[str] = []
    others: list[str] = []
    at = 0
    while at < len(args):
        word = args[at]
        if word == "--":
            others.extend(args[at:])
            break
        is_person = "import" in others and _PERSON.fullmatch(" ".join(args[at : at + 2]))
        is_flag = "export" in others and word == "--vectors"
        if is_person or is_flag:  # options of the command itself
            others.append(word)
        elif word in _FLAGS or word.startswith(tuple(f"{name}=" for name in _WITH_VALUE)):
            common.append(word)
        elif word in _WITH_VALUE:
            common.extend(args[at : at + 2])
            at += 1
        else:
            others.append(word)
        at += 1
    return common + others


def shown(message: str) -> str:
    """A message for a terminal: names in it come from the store, which may hold control characters."""
    from retentive.models import without_controls

    return without_controls(message, keep="\n\t")


def fail(error: RetentiveError, *, as_json: bool) -> NoReturn:
    """Print an error and end with its exit code."""
    print_error(error, as_json=as_json)
    raise SystemExit(exit_code(error))


def exit_code(error: RetentiveError) -> int:
    """The exit code of an error."""
    return next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), 1)


def print_error(error: RetentiveError, *, as_json: bool) -> None:
    """Print an error to standard error."""
    message = with_store(str(error))
    if as_json:
        typer.echo(json.dumps({"error": {"code": error.code, "message": message}}), err=True)
    else:
        typer.echo(styled(f"error: {shown(message)}", fg="red"), err=True)


def read_input() -> str:
    """Return the text on standard input; `Invalid` if it is not UTF-8."""
    try:
        text = sys.stdin.read()
        text.encode()
    except UnicodeError:
        raise Invalid("standard input is not valid UTF-8") from None
    return text


def refuse(error: Any, *, as_json: bool) -> NoReturn:
    """Print what is wrong with the arguments, on one line, and end as Typer does."""
    if type(error).show is not UsageError.show:  # a command without arguments that shows its help
        raise error
    message = error.format_message().rstrip(".")
    if isinstance(error, typer.BadParameter) and error.message:
        message = message.replace(error.message.rstrip("."), plain_message(error.message.rstrip(".")))
    for theirs, ours in _PLAIN.items():
        message = message.replace(theirs, ours)
    if error.ctx and _in_query(error):
        message += "; write -- before a query that begins with a minus: retentive recall -- '-milk tea'"
    path = " ".join(["retentive", *(error.ctx.command_path.split()[1:] if error.ctx else ())])
    message = re.sub(r" \(Possible options: (.*)\)$", r"; did you mean \1?", message).replace(". Did", "; did")
    message = f"{message[:1].lower()}{message[1:]}{'' if message.endswith('?') else ';'} see: {path} -h"
    if as_json:
        typer.echo(json.dumps({"error": {"code": "usage", "message": message}}), err=True)
    else:
        typer.echo(styled(f"error: {shown(message)}", fg="red"), err=True)
    raise SystemExit(error.exit_code)


def _in_query(error: Any) -> bool:
    """Whether an unknown short option may be the operator of a query, as in `-milk`."""
    option = getattr(error, "option_name", None) or ""
    takes_query = any(param.name == "query" for param in error.ctx.command.params)
    return takes_query and option.startswith("-") and not option.startswith("--")


def stop(message: str = "", *, as_json: bool) -> NoReturn:
    """End after Ctrl-C; the message says what was done until then."""
    if as_json:
        typer.echo(json.dumps({"error": {"code": "interrupted", "message": message or "stopped"}}), err=True)
    else:
        typer.echo(shown(f"stopped: {message}") if message else "stopped", err=True)
    raise SystemExit(INTERRUPTED)


def common(ctx: typer.Context) -> Common:
    """Return the common options of this call."""
    return ctx.find_object(Common) or Common()


def emit(ctx: typer.Context, value: Any, text: str | Callable[[ModuleType], object]) -> None:
    """Print a result: as JSON with `--json`, else as a text, or by a function that gets the module `show`."""
    write(common(ctx), value, text)


def write(given: Common, value: Any, text: str | Callable[[ModuleType], object]) -> None:
    """Print a result, see `emit`. The module `show` is imported only if it is used, because it imports rich."""
    if given.json:
        typer.echo(json_text(value))
    elif isinstance(text, str):
        typer.echo(text)
    else:
        from retentive.cli import show

        text(show)


def json_text(value: Any) -> str:
    """Return a result as JSON: on one line in a pipe, and indented in a terminal."""
    return json.dumps(value, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None)


def warn(message: str) -> None:
    """Print a warning to standard error."""
    typer.echo(styled(shown(with_store(message)), fg="yellow"), err=True)


def shown_ids(engine: Engine, ids: Iterable[str]) -> Mapping[str, str]:
    """Return how each id is shown: whole, or as a short prefix in a terminal."""
    if not fits_terminal():
        return {id: id for id in ids}
    from retentive.models import Scope
    from retentive.pipeline.short_ids import short_ids

    return short_ids(engine.store, ids, within=Scope(engine.settings.profile))


def warn_unknown(
    engine: Engine, found: Sequence[Memory], *, project: str | None = None, sessions: Sequence[str] | str | None = None
) -> None:
    """Warn of names that do not exist and of an empty store: an empty answer alone does not tell why."""
    wanted = [sessions] if isinstance(sessions, str) else sessions or ()
    absent = [name for name in wanted if all(memory.session != name for memory in found)]
    missing = project if all(memory.project != project for memory in found) else None
    if missing is not None or absent:
        from retentive.cli.names import unknown_names

        if lines := unknown_names(engine, project=missing, sessions=absent):
            warn(lines)
    elif not found and not engine.stats().memories:
        warn("the store has no memories yet; add one with: retentive remember TEXT")


def confirm(question: str, *, yes: bool) -> None:
    """Ask a person to confirm; abort if they do not."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Invalid("this cannot be undone; use --yes to confirm")
    typer.confirm(question, abort=True, err=True)


def parse_parameters(pairs: list[str] | None) -> dict[str, Any]:
    """Parse tuning parameters from `parameter=value`."""
    return parse_pairs(pairs, "keyword_weight=2", noun="parameter")
