"""`AsyncEngine`: the verbs of an engine, with all of their options."""

from __future__ import annotations

import asyncio

import pytest

from retentive import AsyncEngine, Conflict, NotFound


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
