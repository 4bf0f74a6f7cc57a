"""Every REST call that the real client makes for each verb, as it goes over the wire, and what may come back.

The shapes are recorded anew by RETENTIVE_RECORD_SHAPES=1 python -m pytest tests/stores/test_qdrant_rest.py -k shape
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from retentive.stores.at_once import Asked, AtOnce

from retentive.errors import Invalid, Unavailable
from retentive.models import Judgement, Model, Scope
from retentive.stores import IdempotencyKey, Record, Store, open_store
from tests.stores.build import HERE, NOW, by_words, id_of, listed, memory, record, rows, unit
from tests.stores.qdrant_rest import Call, StandIn, stand_in

SHAPES = Path(__file__).parent / "qdrant_shapes"
RECORDING = bool(os.environ.get("RETENTIVE_RECORD_SHAPES"))
SMALL = Model("small", "1", 2, "fingerprint of small")
NEXT = Model("next", "1", 3, "fingerprint of next")
EAST = unit([1, 0])
SCOPE = Scope(sessions=("s",), kinds=("episodic",))


@pytest.fixture
def server() -> Iterator[StandIn]:
    with stand_in() as running:
        yield running


@pytest.fixture
def store(server: StandIn) -> Iterator[Store]:
    opened = open_store(f"{server.url}/shapes?shards=2&replicas=2&consistency=1&quantization=int8&on_disk=true")
    yield opened
    opened.close()


def filled(store: Store) -> None:
    store.add(
        [
            record(1, "green tea", vectors=rows(EAST), session="s", project="p", speaker="Ada"),
            record(2, "black tea", vectors=rows(unit([1, 1]), unit([0, 1])), session="s"),
            record(3, "milk"),
        ],
        model=SMALL,
    )
    store.judge([Judgement("which tea?", id_of(1), 2, NOW)])
    store.keep({"tuning": "{}"})


def nothing(_: Store) -> None:
    """The store as it was opened."""


def keys(store: Store) -> list[Any]:
    return list(store.keys([id_of(1), id_of(2)]).values())


def with_keys(act: Callable[[Store, list[Any]], Any]) -> tuple[Callable[[Store], Any], Callable[[Any, Any], Any]]:
    """A verb that is given keys, which are looked up beforehand."""

    def before(store: Store) -> list[Any]:
        filled(store)
        return keys(store)

    return before, act


def looked(store: Store, found: list[Any]) -> Any:
    assert isinstance(store, AtOnce)
    return store.look(Asked("green tea", EAST, SCOPE, 5, 10, (id_of(3),), 1.0), found)


def searched(store: Store) -> Any:
    assert isinstance(store, AtOnce)
    return store.search_both(Asked("green tea", EAST, SCOPE, 5, 10, (id_of(3),), 1.0))


def reembedded(store: Store, _: Any) -> None:
    store.attach({key: rows(unit([1, 2, 3])) for key in store.unembedded(NEXT, limit=9)}, model=NEXT)
    assert store.switch_model(NEXT)


Verb = tuple[Callable[[Store], Any], Callable[[Any, Any], Any]]
ONCE = IdempotencyKey("key", "print", NOW)
JUDGED = Judgement("which tea?", id_of(1), 1, NOW, project="p")
VERBS: dict[str, Verb] = {
    "add": (nothing, lambda store, _: store.add([record(1, "tea", session="s")], model=None, idempotency_key=ONCE)),
    "add_with_the_first_vectors": (nothing, lambda store, _: filled(store)),
    "get": (filled, lambda store, _: store.get([id_of(2), id_of(1), "nobody"])),
    "list": (filled, lambda store, _: store.list(SCOPE, cursor=id_of(3), limit=1)),
    "update": (
        filled,
        lambda store, _: store.update(
            Record(memory(1, "white tea", session="s"), rows(EAST)), model=SMALL, idempotency_key=ONCE
        ),
    ),
    "update_keeping_vectors": (
        filled,
        lambda store, _: store.update(Record(memory(1, kind="semantic", session="s")), model=None, keep_vectors=True),
    ),
    "remove": (filled, lambda store, _: store.remove([id_of(1), id_of(9)], idempotency_key=ONCE)),
    "remove_scope": (filled, lambda store, _: store.remove_scope(SCOPE)),
    "touch": (filled, lambda store, _: store.touch([id_of(1)], at=NOW)),
    "stats": (filled, lambda store, _: store.stats()),
    "search_words": (filled, lambda store, _: store.search_words("green tea", SCOPE, limit=3, exclude=[id_of(3)])),
    "search_vectors": (filled, lambda store, _: store.search_vectors(EAST, SCOPE, limit=3, exclude=[id_of(3)])),
    "search_both": (filled, lambda store, _: searched(store)),
    "look": with_keys(looked),
    "fetch": with_keys(lambda store, found: store.fetch(found)),
    "keys": (filled, lambda store, _: store.keys([id_of(1)])),
    "score_words": with_keys(lambda store, found: store.score_words("green tea", HERE, found)),
    "score_vectors": with_keys(lambda store, found: store.score_vectors(EAST, found)),
    "neighbours": with_keys(lambda store, found: store.neighbours(found)),
    "vectors": with_keys(lambda store, found: store.vectors(found)),
    "sessions": (filled, lambda store, _: store.sessions("default", project="p")),
    "projects": (filled, lambda store, _: store.projects("default")),
    "profiles": (filled, lambda store, _: store.profiles()),
    "days": (filled, lambda store, _: store.days("default", project="p")),
    "move_session": (filled, lambda store, _: store.move_session("default", "s", project="q")),
    "kept": (filled, lambda store, _: store.get_value("tuning")),
    "kept_under": (filled, lambda store, _: store.list_values("tun")),
    "keep": (
        filled,
        lambda store, _: store.keep({"a": "1", "tuning": None}, expected={"tuning": "{}"}),
    ),
    "unembedded": (filled, lambda store, _: (store.unembedded(SMALL, limit=2), store.count_unembedded(SMALL))),
    "changing_over_to_another_model": (filled, reembedded),
    "judge": (filled, lambda store, _: store.judge([JUDGED])),
    "judgements": (filled, lambda store, _: store.judgements("default", project="p")),
    "unjudge": (filled, lambda store, _: store.unjudge([JUDGED])),
    "walk": (filled, lambda store, _: store.walk(cursor=id_of(3), limit=2)),
    "check": (filled, lambda store, _: store.check()),
}  # fmt: skip

CLOCKS = frozenset(("born", "written", "stamp", "given"))


class Shape:
    """Calls as they are compared: without what differs from one time to the next."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def of(self, call: Call) -> dict[str, Any]:
        path = f"{self._renamed(call.path)}{'?' if call.query else ''}{call.query}"
        return {"call": f"{call.method} {path}", "body": self._plain(call.body)}

    def _plain(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            if value.get("key") in CLOCKS and "match" in value:
                return {**value, "match": "a time"}
            return {name: self._plain(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [self._plain(item) for item in value]
        if isinstance(value, str):
            return self._renamed(value)
        if key in CLOCKS and isinstance(value, int):
            return "a time"
        return float(f"{value:.5g}") if isinstance(value, float) else value

    def _renamed(self, text: str) -> str:
        def numbered(found: re.Match[str]) -> str:
            return self._names.setdefault(found[0], f"_memories_{len(self._names) + 1}")

        return re.sub(r"_memories_[0-9a-f]{12}", numbered, text)


@pytest.mark.parametrize("verb", ["open", *VERBS])
def test_the_calls_of_each_verb_have_the_recorded_shape(server: StandIn, store: Store, verb: str):
    if verb != "open":
        before, act = VERBS[verb]
        prepared = before(store)
        server.calls.clear()
        act(store, prepared)
    shape = Shape()
    calls = [shape.of(call) for call in server.calls]

    recorded = SHAPES / f"{verb}.json"
    if RECORDING:
        SHAPES.mkdir(exist_ok=True)
        recorded.write_text(_pretty(calls), encoding="utf-8")
    assert calls == json.loads(recorded.read_text(encoding="utf-8"))


def _pretty(calls: list[dict[str, Any]]) -> str:
    """A call a line: readable, and a change shows as one."""
    lines = ",\n".join(f"  {json.dumps(call, ensure_ascii=False)}" for call in calls)
    return f"[\n{lines}\n]\n"


def test_every_recorded_shape_belongs_to_a_verb():
    assert {path.stem for path in SHAPES.glob("*.json")} == {"open", *VERBS}


def test_every_write_waits_until_it_is_applied(server: StandIn, store: Store):
    filled(store)
    store.update(record(3, "coffee"), model=None)
    store.move_session("default", "s", project="q")
    store.remove([id_of(1)])

    writes = [call for call in server.calls if re.search(r"/points/(batch|delete)$|/index$", call.path)]
    writes += [call for call in server.calls if call.method == "PUT" and call.path.endswith("/points")]
    assert len(writes) > 20
    assert {call.query for call in writes} == {"wait=true"}


# What may come back


def test_the_key_is_sent_with_every_call_and_a_wrong_one_is_explained(server: StandIn, monkeypatch: pytest.MonkeyPatch):
    server.api_key = "right"
    monkeypatch.setenv("RETENTIVE_QDRANT_API_KEY", "right")
    opened = open_store(f"{server.url}/keys")
    opened.add([record(1)], model=None)
    opened.close()
    assert {call.api_key for call in server.calls} == {"right"}

    monkeypatch.setenv("RETENTIVE_QDRANT_API_KEY", "wrong")
    with pytest.raises(Unavailable, match="does not accept the API key; set RETENTIVE_QDRANT_API_KEY") as error:
        open_store(f"{server.url}/keys")
    assert "wrong" not in str(error.value)
    key_first = open_store(f"{server.url.replace('//', '//:right@')}/keys")
    assert listed(key_first) == [id_of(1)]
    key_first.close()


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_server_that_is_busy_for_a_moment_is_asked_again(server: StandIn, store: Store, status: int):
    store.add([record(1)], model=None)
    server.broken = [status, status]

    assert by_words(store, "note") == [id_of(1)]
    server.broken = [status]
    store.add([record(2)], model=None)

    assert (server.broken, len(listed(store))) == ([], 2)


def test_a_server_that_stays_broken_is_unavailable_and_one_that_refuses_is_not_asked_again(server: StandIn):
    opened = open_store(f"{server.url}/broken?timeout=0.3")
    server.broken = [500] * 1000
    with pytest.raises(Unavailable, match="failed: 500 not now; try again later"):
        opened.get_value("x")

    server.broken = [422]
    with pytest.raises(Invalid, match="refused a request: 422 not now"):
        opened.get_value("x")
    opened.close()


def test_a_server_that_is_too_old_is_refused_with_its_version(server: StandIn):
    server.version = "1.18.3"

    with pytest.raises(Unavailable, match=r"version 1.18.3; Retentive needs 1.19 or newer"):
        open_store(f"{server.url}/old")


def test_the_command_line_works_on_such_a_store(server: StandIn, tmp_path: Path):
    def run(*arguments: str) -> Any:
        command = [sys.executable, "-m", "retentive", "--store", f"{server.url}/cli", "--json", *arguments]
        environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path)}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    run("remember", "The cat eats fish", "--session", "kitchen")
    answer = run("recall", "feeding my pet")

    assert [hit["memory"]["text"] for hit in answer["hits"]] == ["The cat eats fish"]
    assert [(retriever["name"], retriever["found"]) for retriever in answer["retrievers"]] == [
        ("semantic", 1),
        ("keyword", 0),
    ]
    assert run("doctor")
