"""The program. The module of a command is imported when the command runs, or when its help is shown."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Any

import typer

from retentive.cli.commands import COMMANDS, Entry
from retentive.cli.help import command
from retentive.cli.options import CommandGroup, common_options


class LazyCommands(MutableMapping[str, Any]):
    """The commands of the program by name. The names are known; a command is imported when it is read."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = _load(name, COMMANDS[name])
        return self._loaded[name]

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


def _load(name: str, entry: Entry) -> Any:
    """Import a command and return it as Typer builds it."""
    module, _, attribute = entry.where.partition(".")
    found = getattr(import_module(f"retentive.cli.{module}"), attribute)
    if isinstance(found, typer.Typer):
        built = typer.main.get_command(found)
        built.name = name
        return built
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    command(alone, *entry.examples, name=name)(found)
    return typer.main.get_command(alone)


class Program(CommandGroup):
    """The program: its commands are imported when they are used."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = LazyCommands()

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - Typer passes it
        return list(self.commands)


app = typer.Typer(
    cls=Program,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Memory for AI agents: keyword and semantic search, fused, explained and tunable.\n\n"
    "--store, --profile, --embedder, --config, --json and --full can be given before or after any command.",
    epilog="retentive samples\n"
    'retentive remember "The spare key is under the blue pot" --project home\n'
    'retentive recall "where is the key?" --project home --explain',
)
app.callback()(common_options)
