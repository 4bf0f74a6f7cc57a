"""Options that every command takes, wherever on the line they stand, and how errors become exit codes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from retentive.engine import Engine
from retentive.errors import Conflict, Invalid, MissingExtra, NotFound, RetentiveError, Unavailable

EXIT_CODES: dict[type[RetentiveError], int] = {Invalid: 2, NotFound: 3, Conflict: 4, Unavailable: 5, MissingExtra: 6}
"""What the shell sees of each kind of error."""

_WITH_VALUE = ("--store", "--profile", "--embedder", "--config")
_FLAGS = ("--json",)


@dataclass(frozen=True, slots=True)
class Common:
    """What was said of the store, the embedder and the output."""

    store: str | None = None
    profile: str | None = None
    embedder: str | None = None
    config: str | None = None
    json: bool = False

    def engine(self) -> Engine:
        """An engine on the store that was named."""
        return Engine.open(self.store, embedder=self.embedder, profile=self.profile, config=self.config)

    @property
    def shown_store(self) -> str | None:
        """The store that was named, as it may stand in a line that others read."""
        from retentive.settings import public_address

        return None if self.store is None else public_address(self.store)


class Commands(TyperGroup):
    """A group whose own options may also stand behind the command, where people type them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _hoisted(args))

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except RetentiveError as error:
            _fail(error, as_json=bool(ctx.params.get("json")))
        except KeyboardInterrupt:
            typer.echo("stopped", err=True)
            raise SystemExit(130) from None


def _hoisted(args: list[str]) -> list[str]:
    """Common options moved before the command; what stands behind `--` is text and stays."""
    front: list[str] = []
    rest: list[str] = []
    at = 0
    while at < len(args):
        word = args[at]
        if word == "--":
            rest.extend(args[at:])
            break
        if word in _FLAGS or word.startswith(tuple(f"{name}=" for name in _WITH_VALUE)):
            front.append(word)
        elif word in _WITH_VALUE:
            front.extend(args[at : at + 2])
            at += 1
        else:
            rest.append(word)
        at += 1
    return front + rest


def _fail(error: RetentiveError, *, as_json: bool) -> NoReturn:
    if as_json:
        typer.echo(json.dumps({"error": {"code": error.code, "message": str(error)}}), err=True)
    else:
        typer.secho(f"error: {error}", fg="red", err=True)
    raise SystemExit(EXIT_CODES.get(type(error), 1))


def common(ctx: typer.Context) -> Common:
    """The common options of this call."""
    found = ctx.find_object(Common)
    return found or Common()


def emit(ctx: typer.Context, value: Any, show: Callable[[], None]) -> None:
    """The result: as JSON if that was asked for, else shown to a person."""
    if common(ctx).json:
        typer.echo(json.dumps(value, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None))
    else:
        show()
