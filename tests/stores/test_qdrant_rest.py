"""Every REST call that the client makes for each method of the store, as it is sent, and responses with errors.

To record the calls again: RETENTIVE_RECORD_SHAPES=1 python -m pytest tests/stores/test_qdrant_rest.py -k recorded
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

from retentive.errors import Invalid, Unavailable
from retentive.models import Model, Query, Scope
from retentive.stores import open_store
from retentive.stores.base import AwaitsVector, Search, Store
from retentive.stores.rules import cursor_of
from retentive.stores.values import IdempotencyKey, Judgement, Record
from tests.stores.build import NOW, Waited, id_of, keyword_ids, listed, make_query, memory, record, rows, unit
from tests.stores.qdrant_rest import Call, RestServer, run_server

SHAPES = Path(__file__).parent / "qdrant_shapes"
RECORDING = bool(os.environ.get("RETENTIVE_RECORD_SHAPES"))
SMALL = Model("small", "1", 2, "fingerprint of small")
NEXT = Model("next", "1", 3, "fingerprint of next")
EAST = unit([1, 0])
SCOPE = Scope(sessions=("s",), kinds=("episodic",))


@pytest.fixture
def server() -> Iterator[RestServer]:
    with run_server() as running:
        yield running


@pytest.fixture
def store(server: RestServer) -> Iterator[Store]:
    opened = open_store(f"{server.url}/shapes?shards=2&replicas=2&consistency=1&quantization=int8&on_disk=true")
    yield opened
    opened.close()


def fill(store: Store) -> None:
    store.add(
        [
            record(1, "green tea", vectors=rows(EAST), session="s", project="p", speaker="Ada"),
            record(2, "black tea", vectors=rows(unit([1, 1]), unit([0, 1])), session="s"),
            record(3, "milk"),
        ],
        model=SMALL,
    )
    store.judge([Judgement("which tea?", id_of(1), 2, NOW)])
    store.compare_and_set({"tuning": "{}"})


def nothing(_: Store) -> None:
    """Leave the store empty."""


def tea_query() -> Query:
    return make_query("green tea", SCOPE, limit=5, exclude=[id_of(3)])


def search_for_tea(store: Store) -> Search:
    return store.open_search(tea_query())


def search_everything(store: Store) -> None:
    """Make the calls of a recall."""
    query = tea_query()
    with store.open_search(query) as search:
        assert isinstance(search, AwaitsVector)
        search.expect(Waited(EAST))
        found = search.keyword(query.pool).candidates, search.nearest(EAST, query.pool, depth=query.depth).candidates
        search.neighbours([candidate.memory.id for candidates in found for candidate in candidates])
        search.scores([id_of(1), id_of(2)])


def reembed(store: Store) -> None:
    store.attach([Record(one, rows(unit([1, 2, 3]))) for one in store.unembedded(NEXT, limit=9)], model=NEXT)
    assert store.switch_model(NEXT)


Step = Callable[[Store], Any]
KEY = IdempotencyKey("key", "print", NOW)
JUDGED = Judgement("which tea?", id_of(1), 1, NOW, project="p")
CHANGED = Record(memory(1, "white tea", session="s"), rows(EAST))
METHODS: dict[str, tuple[Step, Step]] = {
    "add": (fill, lambda store: store.add([record(4, "tea", vectors=rows(EAST), session="s")], model=SMALL)),
    "add_to_a_new_session": (
        nothing, lambda store: store.add([record(1, "tea", session="s")], model=None, idempotency_key=KEY)
    ),
    "add_with_the_first_vectors": (nothing, fill),
    "get": (fill, lambda store: store.get([id_of(2), id_of(1), "nobody"], within=Scope())),
    "list": (fill, lambda store: store.list(SCOPE, cursor=str(cursor_of(memory(3))), limit=1)),
    "update": (fill, lambda store: store.update(CHANGED, model=SMALL, idempotency_key=KEY)),
    "update_keeping_vectors": (
        fill,
        lambda store: store.update(Record(memory(1, kind="semantic")), model=None, fields=["kind"]),
    ),
    "remove": (fill, lambda store: store.remove([id_of(1), id_of(9)], idempotency_key=KEY)),
    "remove_within": (fill, lambda store: store.remove([id_of(1), id_of(3)], within=Scope(project="p"))),
    "remove_scope": (fill, lambda store: store.remove_scope(SCOPE)),
    "touch": (fill, lambda store: store.touch([id_of(1)], at=NOW)),
    "stats": (fill, lambda store: store.stats()),
    "search_keyword": (fill, lambda store: search_for_tea(store).keyword(3)),
    "search_nearest": (fill, lambda store: search_for_tea(store).nearest(EAST, 3)),
    "search_neighbours": (fill, lambda store: search_for_tea(store).neighbours([id_of(1), id_of(2)])),
    "search_scores": (fill, lambda store: search_for_tea(store).scores([id_of(1), id_of(2)])),
    "search_vectors": (fill, lambda store: search_for_tea(store).vectors([id_of(1), id_of(2)])),
    "search_everything": (fill, search_everything),
    "sessions": (fill, lambda store: store.sessions("default", project="p")),
    "projects": (fill, lambda store: store.projects("default")),
    "profiles": (fill, lambda store: store.profiles()),
    "days": (fill, lambda store: store.days("default", project="p")),
    "move_session": (fill, lambda store: store.move_session("default", "s", project="q")),
    "get_value": (fill, lambda store: store.get_value("tuning")),
    "list_values": (fill, lambda store: store.list_values("tun")),
    "compare_and_set": (
        fill, lambda store: store.compare_and_set({"a": "1", "tuning": None}, expected={"tuning": "{}"})
    ),
    "unembedded": (fill, lambda store: (store.unembedded(SMALL, limit=2), store.count_unembedded(SMALL))),
    "change_of_model": (fill, reembed),
    "judge": (fill, lambda store: store.judge([JUDGED])),
    "judgements": (fill, lambda store: store.judgements("default", project="p")),
    "unjudge": (fill, lambda store: store.unjudge([JUDGED])),
    "scan": (fill, lambda store: store.scan(cursor=id_of(3), limit=2)),
    "check": (fill, lambda store: store.check()),
}  # fmt: skip

CLOCKS = frozenset(("born", "written", "stamp", "given"))


class Shape:
    """Calls in a form that can be compared: without times and random names."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def of(self, call: Call) -> dict[str, Any]:
        path = f"{self._renamed(call.path)}{'?' if call.query else ''}{call.query}"
        return {"call": f"{call.method} {path}", "body": self._without_times(call.body)}

    def _without_times(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            if value.get("key") in CLOCKS and "match" in value:
                return {**value, "match": "a time"}
            return {name: self._without_times(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [self._without_times(item) for item in value]
        if isinstance(value, str):
            return self._renamed(value)
        if key in CLOCKS and isinstance(value, int):
            return "a time"
        return float(f"{value:.5g}") if isinstance(value, float) else value

    def _renamed(self, text: str) -> str:
        def numbered(found: re.Match[str]) -> str:
            return self._names.setdefault(found[0], f"_memories_{len(self._names) + 1}")

        return re.sub(r"_memories_[0-9a-f]{12}", numbered, text)


@pytest.mark.parametrize("method", ["open", *METHODS])
def test_the_calls_of_each_method_are_the_recorded_ones(server: RestServer, store: Store, method: str):
    if method != "open":
        prepare, act = METHODS[method]
        prepare(store)
        server.calls.clear()
        act(store)
    shape = Shape()
    calls = [shape.of(call) for call in server.calls]

    recorded = SHAPES / f"{method}.json"
    if RECORDING:
        SHAPES.mkdir(exist_ok=True)
        recorded.write_text(_pretty(calls), encoding="utf-8")
    assert calls == json.loads(recorded.read_text(encoding="utf-8"))


def _pretty(calls: list[dict[str, Any]]) -> str:
    """One call per line, so that a difference is one line."""
    lines = ",\n".join(f"  {json.dumps(call, ensure_ascii=False)}" for call in calls)
    return f"[\n{lines}\n]\n"


def test_every_recorded_file_belongs_to_a_method():
    assert {path.stem for path in SHAPES.glob("*.json")} == {"open", *METHODS}


def test_storing_one_memory_takes_four_requests(server: RestServer, store: Store):
    fill(store)
    server.calls.clear()

    store.add([record(4, "white tea", vectors=rows(EAST), session="s", project="p")], model=SMALL)

    paths = [re.sub(r"_memories_[0-9a-f]{12}", "_memories_1", call.path) for call in server.calls]
    assert paths == [
        "/collections/shapes_memories/points/query/batch",
        "/collections/shapes_memories_1/points",
        "/collections/shapes_notes/points",
        "/collections/shapes_memories/points",
    ]


def test_a_recall_takes_three_requests_and_one_for_sessions(server: RestServer, store: Store):
    fill(store)
    server.calls.clear()

    search_everything(store)

    session, *queries = [call.path for call in server.calls]
    assert session == "/collections/shapes_notes/points"
    # Document frequencies, the candidates of both retrievers, and the neighbour after the last of them.
    assert queries == ["/collections/shapes_memories/points/query/batch"] * 3


def test_every_write_waits_until_all_copies_have_applied_it_in_one_order(server: RestServer, store: Store):
    fill(store)
    store.update(record(3, "coffee"), model=None)
    store.move_session("default", "s", project="q")
    store.remove([id_of(1)])

    indexes = [call for call in server.calls if call.path.endswith("/index")]
    writes = [call for call in server.calls if re.search(r"/points/(batch|delete)$", call.path)]
    writes += [call for call in server.calls if call.method == "PUT" and call.path.endswith("/points")]
    assert len(writes) > 5
    assert len(indexes) > 10
    assert {call.query for call in indexes} == {"wait=true"}
    assert {call.query for call in writes} == {"wait=true&ordering=medium"}


# Errors


def test_the_key_is_sent_with_every_call_and_a_wrong_one_is_an_error_that_says_so(
    server: RestServer, monkeypatch: pytest.MonkeyPatch
):
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


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_a_request_is_sent_again_after_a_temporary_error(server: RestServer, store: Store, status: int):
    store.add([record(1)], model=None)
    server.failures = [status, status]

    assert keyword_ids(store, "note") == [id_of(1)]
    server.failures = [status]
    store.add([record(2)], model=None)

    assert (server.failures, len(listed(store))) == ([], 2)


def test_a_lasting_failure_is_unavailable_and_a_refused_request_is_not_sent_again(server: RestServer):
    opened = open_store(f"{server.url}/broken?timeout=0.3")
    server.failures = [500] * 1000
    with pytest.raises(Unavailable, match="failed: 500 not now; try again later"):
        opened.get_value("x")

    server.failures = [422]
    with pytest.raises(Invalid, match="refused a request: 422 not now"):
        opened.get_value("x")
    opened.close()


def test_a_server_that_is_too_old_is_an_error_with_its_version(server: RestServer):
    server.version = "1.18.3"

    with pytest.raises(Unavailable, match=r"version 1.18.3; Retentive needs 1.19 or newer"):
        open_store(f"{server.url}/old")


def test_the_command_line_works_on_a_qdrant_store(server: RestServer, tmp_path: Path):
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
