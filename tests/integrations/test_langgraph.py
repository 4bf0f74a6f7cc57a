"""The store beside LangGraph's own: one suite over both, random operations on both, then what is ours."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime
from typing import Annotated, Any, TypedDict

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from retentive.engine import Engine
from retentive.errors import Conflict, Invalid, NotFound
from retentive.integrations.langgraph import RetentiveStore
from retentive.stores import open_store
from retentive.tenancy import ProfileView

PIZZA = {"text": "Ana likes pizza with olives", "rating": 5, "tags": ["food"], "by": {"name": "Ana", "age": 41}}
TRAIN = {"text": "The train to Prague leaves at noon", "rating": 2, "tags": ["travel", "food"], "by": {"name": "Ben"}}
DENTIST = {"text": "The dentist moved to the harbour", "rating": 3.5, "tags": [], "by": None}


@pytest.fixture(params=["LangGraph's own", "ours"])
def store(request, engine, model) -> BaseStore:
    """Each store, with the same model and field."""
    if request.param == "ours":
        return RetentiveStore(engine, fields=["text"])

    def embed(texts: list[str]) -> list[list[float]]:
        return [row.tolist() for row in model.embed(list(texts))]

    return InMemoryStore(index={"dims": 384, "embed": embed, "fields": ["text"]})


@pytest.fixture
def filled(store: BaseStore) -> BaseStore:
    store.put(("users", "ana"), "pizza", PIZZA)
    store.put(("users", "ana", "trips"), "train", TRAIN)
    store.put(("users", "ben"), "dentist", DENTIST)
    store.put(("teams",), "pizza", {"text": "The team eats on Fridays"})
    return store


def keys(found: Any) -> list[str]:
    return sorted(item.key for item in found)


# What both do


def test_a_value_comes_back_as_it_was_put(filled):
    item = filled.get(("users", "ana"), "pizza")

    assert (item.value, item.key, item.namespace) == (PIZZA, "pizza", ("users", "ana"))
    assert item.created_at.tzinfo is not None
    assert item.updated_at >= item.created_at


@pytest.mark.parametrize("where", [("users",), ("users", "ben"), ("teams", "ana"), ("nobody",)])
def test_a_key_is_only_in_its_own_namespace(filled, where):
    assert filled.get(where, "pizza") is None


def test_a_second_put_takes_the_place_of_the_first(filled):
    filled.put(("users", "ana"), "pizza", {"text": "Ana prefers soup"})

    assert filled.get(("users", "ana"), "pizza").value == {"text": "Ana prefers soup"}
    assert keys(filled.search(("users", "ana"), limit=50)) == ["pizza", "train"]


def test_what_is_deleted_is_gone_and_may_come_back(filled):
    filled.delete(("users", "ana"), "pizza")
    filled.delete(("users", "ana"), "never there")

    assert filled.get(("users", "ana"), "pizza") is None
    assert filled.get(("teams",), "pizza") is not None
    filled.put(("users", "ana"), "pizza", PIZZA)
    assert filled.get(("users", "ana"), "pizza").value == PIZZA


@pytest.mark.parametrize(
    ("prefix", "found"),
    [
        ((), ["dentist", "pizza", "pizza", "train"]),
        (("users",), ["dentist", "pizza", "train"]),
        (("users", "ana"), ["pizza", "train"]),
        (("users", "ana", "trips"), ["train"]),
        (("user",), []),
        (("ana",), []),
    ],
)
def test_a_search_sees_what_stands_below_its_prefix(filled, prefix, found):
    assert keys(filled.search(prefix)) == found
    assert keys(filled.search(prefix, query="pizza, trains and dentists")) == found


def test_a_search_gives_the_best_first_with_its_score(filled):
    found = filled.search(("users",), query="when does the train to Prague leave?")

    assert found[0].key == "train"
    assert found[0].value == TRAIN
    assert found[0].score == max(item.score for item in found)
    assert all(item.score is None for item in filled.search(("users",)))


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"rating": 5}, ["pizza"]),
        ({"rating": {"$eq": 2}}, ["train"]),
        ({"rating": {"$ne": 5}}, ["dentist", "train"]),
        ({"rating": {"$gt": 2}}, ["dentist", "pizza"]),
        ({"rating": {"$gte": 2, "$lt": 5}}, ["dentist", "train"]),
        ({"rating": {"$lte": 2}}, ["train"]),
        ({"by": {"name": "Ana"}}, ["pizza"]),
        ({"by": {"age": {"$ne": 41}}}, ["train"]),
        ({"tags": ["travel", "food"]}, ["train"]),
        ({"tags": ["food"], "rating": 5}, ["pizza"]),
        ({"tags": ["food"], "rating": 2}, []),
        ({"missing": None}, ["dentist", "pizza", "train"]),
        ({"missing": "x"}, []),
    ],
)
def test_a_filter_says_which_values_are_wanted_with_and_without_a_query(filled, wanted, found):
    assert keys(filled.search(("users",), filter=wanted)) == found
    assert keys(filled.search(("users",), filter=wanted, query="pizza")) == found


def test_two_items_that_say_the_same_are_both_found(store):
    store.put(("a",), "one", {"text": "Ana likes pizza"})
    store.put(("a",), "two", {"text": "Ana likes pizza"})

    assert keys(store.search(("a",), query="what does Ana like?")) == ["one", "two"]


def test_an_operator_that_does_not_exist_is_an_error(filled):
    with pytest.raises(ValueError, match=r"\$near"):
        filled.search(("users",), filter={"rating": {"$near": 3}})


@pytest.mark.parametrize("query", [None, "number"])
def test_pages_by_offset_and_limit_are_the_whole_once(store, query):
    for number in range(23):
        store.put(("numbers", str(number % 3)), str(number), {"text": f"number {number}", "even": number % 2 == 0})

    pages = [store.search(("numbers",), query=query, limit=5, offset=offset) for offset in range(0, 30, 5)]

    assert [len(page) for page in pages] == [5, 5, 5, 5, 3, 0]
    assert keys(item for page in pages for item in page) == sorted(map(str, range(23)))
    even = store.search(("numbers",), query=query, filter={"even": True}, limit=4, offset=10)
    assert len(even) == 2


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, [("teams",), ("users", "ana"), ("users", "ana", "trips"), ("users", "ben")]),
        ({"prefix": ("users",)}, [("users", "ana"), ("users", "ana", "trips"), ("users", "ben")]),
        ({"suffix": ("trips",)}, [("users", "ana", "trips")]),
        ({"prefix": ("users", "*", "trips")}, [("users", "ana", "trips")]),
        ({"suffix": ("users", "*")}, [("users", "ana"), ("users", "ben")]),
        ({"prefix": ("users",), "suffix": ("ana",)}, [("users", "ana")]),
        ({"max_depth": 1}, [("teams",), ("users",)]),
        ({"prefix": ("users",), "max_depth": 2}, [("users", "ana"), ("users", "ben")]),
        ({"limit": 2, "offset": 1}, [("users", "ana"), ("users", "ana", "trips")]),
        ({"prefix": ("nobody",)}, []),
    ],
)
def test_namespaces_are_listed_by_their_beginning_and_end(filled, asked, found):
    assert filled.list_namespaces(**asked) == found


@pytest.mark.parametrize("namespace", [(), ("",), ("a.b",), ("langgraph",)])
def test_what_can_be_no_namespace_is_refused(store, namespace):
    with pytest.raises(InvalidNamespaceError):
        store.put(namespace, "key", {"text": "x"})


def test_a_batch_reads_what_was_there_before_it_writes_and_the_last_put_counts(filled):
    results = filled.batch(
        [
            PutOp(("users", "ana"), "pizza", {"text": "first"}),
            GetOp(("users", "ana"), "pizza"),
            PutOp(("users", "ana"), "pizza", {"text": "last"}),
            PutOp(("users", "ben"), "dentist", None),
            SearchOp(("users", "ben")),
            ListNamespacesOp(match_conditions=(MatchCondition("prefix", ("teams",)),)),
        ]
    )

    assert (results[0], results[2], results[3]) == (None, None, None)
    assert results[1].value == PIZZA
    assert keys(results[4]) == ["dentist"]
    assert results[5] == [("teams",)]
    assert filled.get(("users", "ana"), "pizza").value == {"text": "last"}
    assert filled.get(("users", "ben"), "dentist") is None


def test_everything_can_be_awaited(store):
    async def use() -> None:
        await store.aput(("users", "ana"), "pizza", PIZZA)
        await store.abatch([PutOp(("users", "ben"), "train", TRAIN)])
        assert (await store.aget(("users", "ana"), "pizza")).value == PIZZA
        assert keys(await store.asearch(("users",), query="train")) == ["pizza", "train"]
        assert await store.alist_namespaces(max_depth=1) == [("users",)]
        await store.adelete(("users", "ana"), "pizza")
        assert await store.aget(("users", "ana"), "pizza") is None

    asyncio.run(use())


def test_fields_named_in_a_put_are_what_is_searched(store):
    store.put(
        ("a",),
        "named",
        {"text": "nothing of note", "inner": [{"said": "volcanoes in Iceland"}]},
        index=["inner[*].said"],
    )
    store.put(("a",), "usual", {"text": "cheese from the market", "inner": [{"said": "volcanoes in Iceland"}]})

    found = store.search(("a",), query="volcanoes in Iceland")

    assert found[0].key == "named"


def test_no_item_has_a_time_to_live(store):
    with pytest.raises(NotImplementedError, match="TTL"):
        store.put(("a",), "b", {"text": "x"}, ttl=5)


LABELS = st.sampled_from(["a", "b", "ab", 'a","b', "ä", "*"])
NAMESPACES = st.lists(LABELS, min_size=1, max_size=3).map(tuple)
KEYS = st.sampled_from(["k", "K", "", "a", '"]'])
VALUES = st.dictionaries(st.sampled_from(["n", "s"]), st.integers(0, 3) | st.sampled_from(["x", "y"]), max_size=2)
PUTS = st.builds(PutOp, NAMESPACES, KEYS, st.none() | VALUES)


@settings(max_examples=60)
@given(st.lists(st.lists(PUTS, min_size=1, max_size=4), min_size=1, max_size=8), NAMESPACES, VALUES)
def test_any_puts_leave_what_they_leave_in_the_store_of_langgraph(batches, prefix, wanted):
    theirs = InMemoryStore()
    with Engine(open_store("memory://")) as engine:
        ours = RetentiveStore(engine)
        for batch in batches:
            theirs.batch(batch)
            ours.batch(batch)

        for asked in ({}, {"filter": wanted}):
            for where in ((), prefix, prefix[:1]):
                assert _seen(ours, where, asked) == _seen(theirs, where, asked)
        # Theirs goes on listing a namespace that was emptied.
        listed = {one.namespace for one in theirs.search((), limit=1000)}
        assert ours.list_namespaces(limit=1000) == sorted(listed)
        for namespace, key in {(put.namespace, put.key) for batch in batches for put in batch}:
            assert _value(ours.get(namespace, key)) == _value(theirs.get(namespace, key))


def _seen(store: BaseStore, where: tuple[str, ...], asked: dict[str, Any]) -> list[tuple[Any, ...]]:
    found = store.search(where, limit=1000, **asked)
    return sorted((item.namespace, item.key, str(sorted(item.value.items()))) for item in found)


def _value(item: Any) -> Any:
    return None if item is None else item.value


# What is ours


def test_an_update_keeps_when_an_item_was_made(model):
    years = iter(range(2020, 2100))
    engine = Engine(open_store("memory://"), model, clock=lambda: datetime(next(years), 1, 1, tzinfo=UTC))
    store = RetentiveStore(engine)

    store.put(("a",), "k", {"text": "x"})
    made = store.get(("a",), "k")
    store.put(("a",), "k", {"text": "y"})
    changed = store.get(("a",), "k")

    assert made.updated_at == made.created_at
    assert changed.created_at == made.created_at
    assert changed.updated_at > made.updated_at


def test_an_item_that_is_not_indexed_is_stored_and_listed_but_not_found_by_a_query_or_contained_in_a_text(engine):
    store = RetentiveStore(engine)
    store.put(("a",), "note", {"text": "volcanoes"}, index=False)
    store.put(("a",), "other", {"text": "cheese"})

    assert store.get(("a",), "note").value == {"text": "volcanoes"}
    assert keys(store.search(("a",))) == ["note", "other"]
    assert keys(store.search(("a",), query="volcanoes")) == ["other"]
    assert "volcanoes" not in " ".join(memory.text for memory in engine.list().memories)
    store.put(("a",), "note", {"text": "volcanoes"})
    assert store.search(("a",), query="volcanoes")[0].key == "note"
    store.put(("a",), "note", {"text": "volcanoes"}, index=False)
    assert keys(store.search(("a",), query="volcanoes")) == ["other"]


def test_without_named_fields_the_whole_value_is_searched_in_words_and_not_as_json(engine):
    RetentiveStore(engine).put(
        ("a",), "k", {"likes": ["pizza", "olives"], "home": {"town": "Prague"}, "age": 41, "x": None}
    )

    assert engine.list().memories[0].text == "likes: pizza\nlikes: olives\nhome town: Prague\nage: 41"


def test_only_the_fields_that_are_named_go_into_the_text(engine):
    store = RetentiveStore(engine, fields=["title", "tags[*]"])

    store.put(("a",), "usual", {"title": "Trip", "tags": ["sea", "sun"], "secret": "1234"})
    store.put(("a",), "named", {"title": "Trip", "body": {"said": "We went by train"}}, index=["body.said"])

    texts = {memory.metadata["langgraph"]["key"]: memory.text for memory in engine.list().memories}
    assert texts == {"usual": "Trip\nsea\nsun", "named": "We went by train"}


def test_a_value_with_nothing_to_search_is_kept(engine):
    store = RetentiveStore(engine, fields=["text"])

    store.put(("a",), " ", {})
    store.put(("a",), "k", {"text": None})

    assert store.get(("a",), " ").value == {}
    assert store.get(("a",), "k").value == {"text": None}
    assert store.search(("a",), query="k") == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a", "b"), ('a", "b',)),
        (("a", "b"), ("a,b",)),
        (("ä",), ("a\u0308",)),
        (("a",), ("A",)),
        (("a",), ("a ",)),
    ],
)
def test_namespaces_that_look_alike_are_two(engine, one, other):
    store = RetentiveStore(engine)
    store.batch([PutOp(one, "k", {"text": "secret of one"})])
    store.batch([PutOp(other, "k", {"text": "secret of the other"})])

    assert store.get(one, "k").value == {"text": "secret of one"}
    assert store.get(other, "k").value == {"text": "secret of the other"}
    assert [item.value for item in store.search(other, query="secret")] == [{"text": "secret of the other"}]
    assert [item.value for item in store.search(one)] == [{"text": "secret of one"}]


def test_a_store_sees_nothing_of_another_project_profile_or_of_what_is_no_item(engine):
    mine = RetentiveStore(engine)
    mine.put(("a",), "k", {"text": "mine"})
    RetentiveStore(engine, project="other agent").put(("a",), "k", {"text": "secret of another project"})
    RetentiveStore(ProfileView(engine, "ben")).put(("a",), "k", {"text": "secret of another profile"})
    engine.remember("secret of no agent", project="langgraph")
    engine.remember("secret of a chat", project="langgraph", session="chat")
    engine.remember("secret in the session", project="langgraph", session='["langgraph", "a"]', kind="semantic")
    engine.remember("secret elsewhere", project="langgraph", session='["other agent", "b"]', kind="semantic")

    assert [item.value for item in mine.search(())] == [{"text": "mine"}]
    assert [item.value for item in mine.search((), query="secret")] == [{"text": "mine"}]
    assert mine.list_namespaces() == [("a",)]
    assert mine.get(("a",), "k").value == {"text": "mine"}
    mine.delete(("a",), "k")
    assert RetentiveStore(ProfileView(engine, "ben")).get(("a",), "k") is not None
    assert RetentiveStore(engine, project="other agent").get(("a",), "k") is not None


@pytest.mark.parametrize("query", [None, "pizza"])
def test_what_is_no_item_takes_no_place_in_a_search_of_everything(open_engine, query):
    engine = open_engine(None)
    store = RetentiveStore(engine)
    store.batch([PutOp(("a", str(n)), "k", {"text": f"pizza of {n} friends"}) for n in range(3)])
    engine.remember_many([{"text": "pizza", "project": "langgraph", "kind": "semantic"} for _ in range(30)])

    found = store.search((), query=query, limit=3)

    assert sorted(item.namespace for item in found) == [("a", "0"), ("a", "1"), ("a", "2")]


def test_metadata_cannot_imitate_an_item_of_another_namespace(engine):
    forged = {"langgraph": {"key": "k", "value": {"text": "forged"}, "namespace": ["bank"], "updated": "never"}}
    engine.remember("x", project="langgraph", session='["langgraph", "a"]', kind="semantic", metadata=forged)
    store = RetentiveStore(engine)

    assert store.get(("bank",), "k") is None
    assert store.search(("bank",)) == []
    assert [item.namespace for item in store.search(())] == [("a",)]


def test_a_store_on_a_view_of_a_project_is_limited_to_it(engine):
    store = RetentiveStore(ProfileView(engine, "ana", project="home"))

    store.put(("a",), "k", {"text": "x"})

    assert [(one.profile, one.project) for one in engine.list(engine.scope(profile="ana")).memories] == [
        ("ana", "home")
    ]
    with pytest.raises(NotFound, match="no project 'office'"):
        RetentiveStore(ProfileView(engine, "ana", project="home"), project="office")


def test_the_id_of_an_item_is_derived_from_its_namespace_and_key(engine):
    store = RetentiveStore(engine)
    store.put(("a",), "k", {"text": "x"})
    first = engine.list().memories[0].id

    store.delete(("a",), "k")
    store.put(("a",), "k", {"text": "y"})

    assert [memory.id for memory in engine.list().memories] == [first]


def test_an_id_that_somebody_else_has_is_a_conflict_and_nothing_of_theirs_is_touched(engine):
    store = RetentiveStore(engine)
    theirs = engine.remember("theirs", profile="ben", id=store._id(("a",), "k"))

    with pytest.raises(Conflict):
        store.put(("a",), "k", {"text": "x"})

    assert engine.get(theirs.id) == theirs
    assert store.get(("a",), "k") is None


def test_what_json_cannot_say_is_refused_and_the_whole_batch_of_new_items_with_it(engine):
    store = RetentiveStore(engine)

    with pytest.raises(Invalid, match="JSON"):
        store.batch([PutOp(("a",), "good", {"text": "x"}), PutOp(("a",), "bad", {"text": "y", "when": object()})])

    assert store.search(()) == []


def test_a_namespace_may_be_a_list(engine):
    store = RetentiveStore(engine)
    store.put(("a", "b"), "k", {"text": "x"})

    assert store.get(["a", "b"], "k").value == {"text": "x"}
    assert keys(store.search(["a"])) == ["k"]


def test_a_read_does_not_wait_for_a_writer(tmp_path):
    path = tmp_path / "store.db"
    with Engine(open_store(str(path), busy_seconds=0.1)) as engine:
        store = RetentiveStore(engine)
        store.put(("a",), "k", {"text": "x"})
        other = apsw.Connection(str(path))
        other.execute("BEGIN IMMEDIATE")

        assert store.get(("a",), "k").value == {"text": "x"}
        assert keys(store.search(("a",), query="x")) == ["k"]
        assert store.list_namespaces() == [("a",)]
        other.close()


def test_a_namespace_that_is_too_long_is_refused_as_one(engine):
    with pytest.raises(InvalidNamespaceError, match="too long"):
        RetentiveStore(engine).put(("a" * 600,), "k", {"text": "x"})


def test_a_value_that_was_read_is_the_readers_to_change():
    engine = Engine(open_store("memory://"))
    store = RetentiveStore(engine)
    store.put(("a",), "k", {"inner": {"list": [1]}})

    store.get(("a",), "k").value["inner"]["list"].append(2)

    assert store.get(("a",), "k").value == {"inner": {"list": [1]}}
    engine.close()


def test_a_filter_finds_the_one_that_ranks_last(open_engine):
    store = RetentiveStore(open_engine(None))
    store.batch([PutOp(("a",), str(n), {"text": "pizza " * (60 - n), "n": n}) for n in range(60)])

    assert keys(store.search(("a",), query="pizza", filter={"n": {"$gte": 58}}, limit=2)) == ["58", "59"]


def test_items_are_there_for_whoever_opens_the_store_next(open_engine, model, tmp_path):
    RetentiveStore(open_engine(model)).put(("users", "ana"), "pizza", PIZZA)

    again = RetentiveStore(open_engine(model))

    assert again.get(("users", "ana"), "pizza").value == PIZZA
    assert again.search(("users",), query="food that Ana likes")[0].key == "pizza"


def test_many_writers_of_one_key_leave_one_item_and_no_error(open_engine):
    stores = [RetentiveStore(open_engine(None)) for _ in range(4)]
    failed: list[BaseException] = []

    def write(store: RetentiveStore, number: int) -> None:
        try:
            for turn in range(10):
                store.put(("a",), "k", {"text": f"{number} {turn}"})
                if turn % 3 == number % 3:
                    store.delete(("a",), "k")
            store.put(("a",), "k", {"text": "last"})
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(store, number)) for number, store in enumerate(stores)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failed == []
    assert [item.value for item in stores[0].search(())] == [{"text": "last"}]


class State(TypedDict):
    said: Annotated[list[str], lambda old, new: old + new]


def test_a_graph_remembers_from_one_thread_to_the_next(engine):
    def talk(state: State, runtime: Runtime) -> State:
        found = runtime.store.search(("users", "ana"), query=state["said"][-1], limit=1)
        runtime.store.put(("users", "ana"), str(len(state["said"])), {"text": state["said"][-1]})
        return {"said": [f"I know: {found[0].value['text']}" if found else "Nice to meet you"]}

    nodes = StateGraph(State).add_node("talk", talk).add_edge(START, "talk").add_edge("talk", END)
    graph = nodes.compile(store=RetentiveStore(engine))

    assert graph.invoke({"said": ["I live in Prague"]})["said"][-1] == "Nice to meet you"
    answer = asyncio.run(graph.ainvoke({"said": ["Where do I live?"]}))
    assert answer["said"][-1] == "I know: I live in Prague"
