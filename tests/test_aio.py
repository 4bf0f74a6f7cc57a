"""`AsyncEngine`: every verb of an engine, with all of its options."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from retentive import AsyncEngine, Conflict, Engine, NotFound

VERBS = [name for name, _ in inspect.getmembers(Engine, inspect.isfunction) if not name.startswith("_")]


@pytest.mark.parametrize("name", [*VERBS, "open"])
def test_every_verb_of_an_engine_takes_the_same_arguments_in_asyncio(name: str) -> None:
    ours = inspect.signature(getattr(Engine, name)).parameters
    theirs = dict(inspect.signature(getattr(AsyncEngine, name)).parameters)
    passes_all_on = any(one.kind is one.VAR_KEYWORD and one.annotation == "Any" for one in theirs.values())
    named = {key: one for key, one in theirs.items() if one.annotation != "Any" or one.kind is not one.VAR_KEYWORD}

    missing = {key: one for key, one in ours.items() if key not in named}

    assert set(named) <= set(ours)
    assert all(passes_all_on and one.kind is one.KEYWORD_ONLY for one in missing.values()), [*missing]
    assert [_form(one) for one in named.values()] == [_form(ours[key]) for key in named]


def _form(parameter: inspect.Parameter) -> tuple[object, ...]:
    """Return all of a parameter but its default if that is a function, of which each signature has its own."""
    default = "a function" if inspect.isfunction(parameter.default) else parameter.default
    return parameter.name, parameter.kind, parameter.annotation, default


@pytest.mark.parametrize("name", VERBS)
def test_every_option_that_a_verb_names_reaches_the_engine(name: str) -> None:
    seen: dict[str, object] = {}

    class Recording:
        def __getattr__(self, verb: str) -> object:
            return lambda *given, **options: seen.update(verb=verb, given=given, options=options)

    engine = AsyncEngine(Recording())  # type: ignore[arg-type]
    parameters = [*inspect.signature(getattr(engine, name)).parameters.values()]
    options = {one.name: object() for one in parameters if one.kind is one.KEYWORD_ONLY}
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        options["more"] = object()
    given = tuple(object() for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.VAR_POSITIONAL))

    answer = getattr(engine, name)(*given, **options)
    if inspect.isawaitable(answer):
        asyncio.run(_awaited(answer))

    assert seen == {"verb": name, "given": given, "options": options}


async def _awaited(answer: object) -> None:
    await answer  # type: ignore[misc]


def test_what_to_do_with_duplicates_and_where_to_look_are_passed_on() -> None:
    async def run() -> None:
        async with AsyncEngine.open("memory://", embedder="none") as engine:
            first, again = await engine.remember_many([{"text": "one"}, {"text": "one"}], on_duplicate="count")
            assert first.id == again.id
            with pytest.raises(Conflict):
                await engine.remember("one", on_duplicate="refuse")
            elsewhere = engine.scope(project="elsewhere")
            with pytest.raises(NotFound):
                await engine.get(first.id, within=elsewhere)
            assert list(await engine.forget(first.id, within=elsewhere)) == []
            assert (await engine.get(first.id)).text == "one"

    asyncio.run(run())
