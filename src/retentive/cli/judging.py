"""The command that takes down which memories answer a query."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retentive.cli.memories import Project
from retentive.cli.options import common, emit
from retentive.engine import Engine
from retentive.errors import Invalid, RetentiveError
from retentive.models import Hit, Judgement

if TYPE_CHECKING:
    from collections.abc import Mapping

SHOWN = 10
FROM_EACH_LEG = 3
"""How many hits of each retriever alone are shown besides. Judged by what the present tuning finds, no other could win."""


def judge(
    ctx: typer.Context,
    query: Annotated[str | None, typer.Option(help="The query; without it, queries are asked for.")] = None,
    good: Annotated[
        list[str] | None, typer.Option(help="This memory answers it; ID=3 answers it best (1 to 3). Repeatable.")
    ] = None,
    bad: Annotated[list[str] | None, typer.Option(help="This memory does not answer it. Repeatable.")] = None,
    clear: Annotated[list[str] | None, typer.Option(help="Take the judgement of this memory back. Repeatable.")] = None,
    project: Project = None,
    asked_at: Annotated[str | None, typer.Option(help="When it is asked, such as 2026-05-08.")] = None,
    list_all: Annotated[bool, typer.Option("--list", help="Show what was judged.")] = False,
    export: Annotated[str | None, typer.Option(help="Write a judged set into this folder, for retentive eval.")] = None,
) -> None:
    """Say which memories answer a query, for eval --mine and tune --mine."""
    with common(ctx).engine() as engine:
        if export:
            _export(ctx, engine, export, project)
        elif list_all:
            _list(ctx, engine, project)
        elif clear:
            _clear(ctx, engine, _named(query), clear, project)
        elif good or bad:
            where: dict[str, Any] = {"project": project, "asked_at": asked_at}
            _tell(ctx, engine.judge(_named(query), good=_grades(good or []), bad=bad or (), **where))
        else:
            _tell(ctx, _ask(engine, query, project=project, asked_at=asked_at))


def _named(query: str | None) -> str:
    if not query:
        raise Invalid("say with --query which query the memories are judged for")
    return query


def _grades(good: Sequence[str]) -> dict[str, int]:
    """Ids with their relevance, from `ID` and `ID=3`."""
    grades = {}
    for word in good:
        id, equals, grade = word.partition("=")
        if equals and grade not in ("1", "2", "3"):
            raise Invalid(f"'{word}': write a relevance from 1 to 3, such as --good ID=3")
        grades[id] = int(grade) if equals else 1
    return grades


def _tell(ctx: typer.Context, said: Sequence[Judgement]) -> None:
    emit(ctx, {"judged": [one.to_dict() for one in said]}, lambda: typer.echo(f"{len(said)} judgements kept"))


def _export(ctx: typer.Context, engine: Engine, folder: str, project: str | None) -> None:
    from retentive.evaluation.own_judgements import export_mine

    count = export_mine(engine, Path(folder), project=project)
    told = f"{count} queries written; measure them with: retentive eval {folder}"
    emit(ctx, {"set": folder, "queries": count}, lambda: typer.echo(told))


def _list(ctx: typer.Context, engine: Engine, project: str | None) -> None:
    found = engine.judgements.list(project=project)
    texts = {one.memory: engine.get(one.memory).indexed_text for one in found}
    value = [{**one.to_dict(), "text": texts[one.memory]} for one in found]
    emit(ctx, {"judgements": value}, lambda: _show(found, texts))


def _clear(ctx: typer.Context, engine: Engine, query: str, ids: Sequence[str], project: str | None) -> None:
    gone = engine.judgements.remove(
        *(
            one
            for one in engine.judgements.list(project=project)
            if (one.query, one.project) == (query.strip(), project) and one.memory in ids
        )
    )
    emit(ctx, {"cleared": gone}, lambda: typer.echo(f"{gone} judgements taken back"))


def _ask(engine: Engine, query: str | None, *, project: str | None, asked_at: str | None) -> list[Judgement]:
    """What a person says of the hits of one query, or of query after query. What is said is kept at once."""
    said: dict[tuple[str, str], Judgement] = {}
    while True:
        text = query or _line("query (enter to finish)")
        if not text or (query is None and text == "q"):
            return list(said.values())
        hits = _hits(engine, text, project, asked_at)
        _show_hits(hits)
        while hits and (line := _line("good such as 1 3, bad such as -2 (enter for the next, q to quit)")):
            if line == "q":
                return list(said.values())
            try:
                good, bad = _marks(line, hits)
                judged = engine.judge(text, good=good, bad=bad, project=project, asked_at=asked_at)
            except RetentiveError as error:
                typer.secho(str(error), fg="red", err=True)
                continue
            said |= {(one.query, one.memory): one for one in judged}
        if query:
            return list(said.values())


def _line(prompt: str) -> str:
    """What is typed; nothing at the end of the input. The prompt goes to standard error, beside the result."""
    typer.echo(f"{prompt}: ", nl=False, err=True)
    try:
        return input().strip()
    except EOFError:
        typer.echo(err=True)
        return ""


def _hits(engine: Engine, query: str, project: str | None, asked_at: str | None) -> list[Hit]:
    from retentive.pipeline.remember import to_time

    found: dict[str, Hit] = {}
    now = to_time(asked_at, "asked_at")
    for tuning, limit in ((None, SHOWN), ("keyword-only", FROM_EACH_LEG), ("semantic-only", FROM_EACH_LEG)):
        answer = engine.recall(query, project=project, limit=limit, now=now, tuning=tuning, record_use=False)
        for hit in answer.hits:
            found.setdefault(hit.id, hit)
    return list(found.values())


def _marks(line: str, hits: Sequence[Hit]) -> tuple[list[str], list[str]]:
    """The ids of what was called good and bad, by the numbers shown."""
    good: list[str] = []
    bad: list[str] = []
    for word in line.replace(",", " ").split():
        number = word.removeprefix("-")
        if not number.isdecimal() or not 1 <= int(number) <= len(hits):
            raise Invalid(f"'{word}': type numbers from 1 to {len(hits)}, with a minus before what is bad")
        (bad if word.startswith("-") else good).append(hits[int(number) - 1].id)
    return good, bad


def _show_hits(hits: Sequence[Hit]) -> None:
    from retentive.cli.show import one_line

    for number, hit in enumerate(hits, 1):
        typer.echo(f"{number:>3}  {one_line(hit.memory.indexed_text, 110)}", err=True)
    if not hits:
        typer.echo("nothing was found; if a memory answers it, name it: --query … --good ID", err=True)


def _show(found: Sequence[Judgement], texts: Mapping[str, str]) -> None:
    from retentive.cli.show import one_line, print_line

    shown = None
    for one in sorted(found, key=lambda one: (one.project or "", one.query)):
        if (one.query, one.project) != shown:
            shown = (one.query, one.project)
            print_line(f"{one_line(one.query, 100)}{f'  ({one.project})' if one.project else ''}", style="bold")
        print_line(f"  {one.relevance}  {one.memory}  {one_line(texts[one.memory], 80)}")
    if not found:
        print_line("nothing is judged yet", style="dim")
