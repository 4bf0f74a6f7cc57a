"""The command that stores relevance judgements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from retentive.cli.ids import resolve_id, resolve_ids
from retentive.cli.options import common, emit, shown_ids, styled
from retentive.engine import Engine
from retentive.errors import Invalid, RetentiveError
from retentive.models import Hit, counted
from retentive.stores.values import Judgement

SHOWN = 10
SHOWN_PER_RETRIEVER = 3
"""How many hits of each retriever alone are shown in addition. If only hits of the tuning in effect were judged, no
other tuning could be better."""


def judge(
    ctx: typer.Context,
    query: Annotated[str | None, typer.Option(help="Query to judge for; by default it is asked for.")] = None,
    good: Annotated[
        list[str] | None,
        typer.Option(help="Id of a relevant memory; ID=3 sets its relevance, from 1 to 3. Repeatable."),
    ] = None,
    bad: Annotated[list[str] | None, typer.Option(help="Id of a memory that is not relevant. Repeatable.")] = None,
    remove: Annotated[
        list[str] | None, typer.Option(help="Id of a memory whose judgement is removed. Repeatable.")
    ] = None,
    project: Annotated[str | None, typer.Option(help="Project that the query searches.")] = None,
    asked_at: Annotated[str | None, typer.Option(help="Time of the query, such as 2026-05-08.")] = None,
    list_all: Annotated[bool, typer.Option("--list", help="List the judgements.")] = False,
    export: Annotated[
        str | None, typer.Option(help="Write the judgements to this folder as an evaluation set for retentive eval.")
    ] = None,
) -> None:
    """Judge which memories are relevant to a query, for eval --own and tune --own."""
    with common(ctx).engine() as engine:
        if export:
            _export(ctx, engine, export, project)
        elif list_all:
            _list(ctx, engine, project)
        elif remove:
            _remove(ctx, engine, _required(query), resolve_ids(engine, remove), project)
        else:
            where: dict[str, Any] = {"project": project, "asked_at": asked_at}
            if good or bad:
                text, grades = _required(query), _grades(good or [])
                grades = {resolve_id(engine, id): grade for id, grade in grades.items()}
                judged = engine.judge(text, good=grades, bad=resolve_ids(engine, bad), **where)
            else:
                judged = _judge_interactively(engine, query, **where)
            emit(ctx, {"judged": [one.to_dict() for one in judged]}, f"{counted(len(judged), 'judgement')} saved")


def _required(query: str | None) -> str:
    if not query:
        raise Invalid("give the query with --query")
    return query


def _grades(good: Sequence[str]) -> dict[str, int]:
    """Parse ids with their relevance, from `ID` and `ID=3`."""
    grades = {}
    for word in good:
        id, equals, grade = word.partition("=")
        if equals and grade not in ("1", "2", "3"):
            raise Invalid(f"'{word}': write a relevance from 1 to 3, such as --good ID=3")
        grades[id] = int(grade) if equals else 1
    return grades


def _export(ctx: typer.Context, engine: Engine, folder: str, project: str | None) -> None:
    from retentive.evaluation.own_judgements import export_own

    count = export_own(engine, Path(folder), project=project)
    emit(
        ctx,
        {"set": folder, "queries": count},
        f"{counted(count, 'query')} written; evaluate them with: retentive eval {folder}",
    )


def _list(ctx: typer.Context, engine: Engine, project: str | None) -> None:
    found = engine.judgements.list(project=project)
    texts = {memory.id: memory.indexed_text for memory in engine.get_many(list({one.memory for one in found}))}
    ids = shown_ids(engine, {one.memory for one in found})
    value = [{**one.to_dict(), "text": texts.get(one.memory)} for one in found]
    emit(ctx, {"judgements": value}, lambda _: _print_judgements(found, texts, ids))


def _remove(ctx: typer.Context, engine: Engine, query: str, ids: Sequence[str], project: str | None) -> None:
    chosen = [
        one
        for one in engine.judgements.list(project=project)
        if (one.query, one.project) == (query.strip(), project) and one.memory in ids
    ]
    count = engine.judgements.remove(*chosen)
    emit(ctx, {"removed": count}, f"{counted(count, 'judgement')} removed")


def _judge_interactively(
    engine: Engine, query: str | None, *, project: str | None, asked_at: str | None
) -> list[Judgement]:
    """Show the hits of one query, or of queries that are typed, and read judgements; each is saved at once."""
    judged: dict[tuple[str, str], Judgement] = {}
    while True:
        text = query or _read_line("query (enter to finish)")
        if not text or (query is None and text == "q"):
            return list(judged.values())
        hits = _hits(engine, text, project, asked_at)
        _print_hits(hits)
        while hits and (line := _read_line("good such as 1 3, bad such as -2 (enter for the next query, q to quit)")):
            if line == "q":
                return list(judged.values())
            try:
                good, bad = _parse_numbers(line, hits)
                saved = engine.judge(text, good=good, bad=bad, project=project, asked_at=asked_at)
            except RetentiveError as error:
                typer.echo(styled(str(error), fg="red"), err=True)
                continue
            judged |= {(one.query, one.memory): one for one in saved}
        if query:
            return list(judged.values())


def _read_line(prompt: str) -> str:
    """Read a line; empty at the end of the input. The prompt goes to standard error, apart from the result."""
    typer.echo(f"{prompt}: ", nl=False, err=True)
    try:
        return input().strip()
    except EOFError:
        typer.echo(err=True)
        return ""


def _hits(engine: Engine, query: str, project: str | None, asked_at: str | None) -> list[Hit]:
    found: dict[str, Hit] = {}
    alone = [{"preset": name, "judge": "off"} for name in ("keyword-only", "semantic-only")]
    for tuning, limit in ((None, SHOWN), *((one, SHOWN_PER_RETRIEVER) for one in alone)):
        answer = engine.recall(query, project=project, limit=limit, now=asked_at, tuning=tuning, record_use=False)
        for hit in answer:
            found.setdefault(hit.id, hit)
    return list(found.values())


def _parse_numbers(line: str, hits: Sequence[Hit]) -> tuple[list[str], list[str]]:
    """Return the ids of the hits with the typed numbers, good and bad."""
    good: list[str] = []
    bad: list[str] = []
    for word in line.replace(",", " ").split():
        number = word.removeprefix("-")
        if not number.isdecimal() or not 1 <= int(number) <= len(hits):
            raise Invalid(f"'{word}': type numbers from 1 to {len(hits)}, with a minus before a bad one")
        (bad if word.startswith("-") else good).append(hits[int(number) - 1].id)
    return good, bad


def _print_hits(hits: Sequence[Hit]) -> None:
    from retentive.cli.show import cut

    for number, hit in enumerate(hits, 1):
        typer.echo(f"{number:>3}  {cut(hit.memory.indexed_text, used=5)}", err=True)
    if not hits:
        typer.echo("no hits; to judge a memory that was not found, use --query … --good ID", err=True)


def _print_judgements(found: Sequence[Judgement], texts: Mapping[str, str], ids: Mapping[str, str]) -> None:
    from retentive.cli.show import cut, print_line

    printed = None
    for one in sorted(found, key=lambda one: (one.project or "", one.query)):
        if (one.query, one.project) != printed:
            printed = (one.query, one.project)
            where = f"  ({one.project})" if one.project else ""
            print_line(f"{cut(one.query, used=len(where))}{where}", style="bold")
        head = f"  {one.relevance}  {ids[one.memory]}  "
        print_line(head + cut(texts.get(one.memory, "(damaged; see: retentive doctor)"), used=len(head)))
    if not found:
        print_line("no judgements", style="dim")
