"""Each retriever returns enough different texts and enough of each kind, on every store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from retentive.engine import Engine
from retentive.pipeline.remember import content_hash
from retentive.stores.values import Record
from tests.stores.build import MODEL, axis, memory, rows
from tests.stores.openers import OPENERS


@pytest.fixture(params=OPENERS)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    with Engine(OPENERS[request.param](tmp_path)) as opened:
        yield opened


def tea(number: int, text: str, *, by: float = 0.0, **fields) -> Record:
    """A record about tea; the larger `by`, the further from the query's vector."""
    made = memory(number, text, **fields)
    return Record(made._replace(content_hash=content_hash(text)), rows(axis(0, lean=1, by=by)))


RETRIEVERS = {"keyword": "keyword-only", "semantic": "semantic-only", "both": "classic-rrf", "default": "default"}


@pytest.mark.parametrize("tuning", RETRIEVERS.values(), ids=RETRIEVERS.keys())
def test_80_copies_of_one_text_do_not_hide_15_others(engine: Engine, tuning: str):
    copies = [tea(number, "green tea green tea") for number in range(80)]
    others = [tea(100 + n, f"green leaves number{n}", by=0.5) for n in range(15)]
    engine.store.add([*copies, *others], model=MODEL)

    found = engine.recall("green", limit=10, tuning=tuning, vector=axis(0))

    assert len(found.hits) == 10
    assert found.hits[0].memory.text == "green tea green tea"
    assert len({hit.memory.text for hit in found.hits}) == 10


def test_memories_of_a_removed_source_do_not_hide_others(engine: Engine):
    removed = [tea(number, f"green tea number{number}", source=f"log.md#L{number}") for number in range(80)]
    others = [tea(100 + n, f"green leaves number{n}", by=0.5, source="note.md") for n in range(15)]
    engine.store.add([*removed, *others], model=MODEL)

    found = engine.recall("green", limit=10, tuning={"source_weights": {"log.md": 0}}, vector=axis(0))

    assert len(found.hits) == 10
    assert {hit.memory.source for hit in found.hits} == {"note.md"}


@pytest.mark.parametrize("tuning", RETRIEVERS.values(), ids=RETRIEVERS.keys())
def test_one_identity_memory_among_200_episodes_on_topic_is_among_the_five(engine: Engine, tuning: str):
    episodes = [tea(number, f"green tea green tea number{number}") for number in range(200)]
    who = tea(
        1000,
        "I am somebody who has painted the kitchen in green and all the other rooms in white",
        by=0.8,
        kind="identity",
    )
    engine.store.add([*episodes, who], model=MODEL)

    found = engine.recall(
        "green", limit=5, tuning=tuning, vector=axis(0), kinds=["episodic", "identity"], record_use=False
    )

    assert len(found.hits) == 5
    assert [hit.memory.kind for hit in found.hits].count("identity") == 1


def test_an_identity_memory_without_a_project_is_recalled_in_every_project(engine: Engine):
    who = tea(1, "I drink green tea", kind="identity")
    theirs = tea(2, "I drink black tea", kind="identity", project="q")
    note = tea(3, "a note on tea", project="p", session="s")
    engine.store.add([who, theirs, note], model=MODEL)

    def found(**scope) -> set[str]:
        return {hit.memory.text for hit in engine.recall("tea", vector=axis(0), record_use=False, **scope)}

    assert found(project="p") == found(session="s") == {"I drink green tea", "a note on tea"}
    assert found(session="s", only_session=True) == {"a note on tea"}
    assert found(project="p", kinds=["identity"]) == {"I drink green tea"}
    assert found(project="p", kinds=["episodic"]) == {"a note on tea"}
    assert found(project="none") == set()


KEYWORD_QUERIES = {
    '"green tea"': {"we drank green tea"},
    "tea -milk": {"we drank green tea", "the tea was green"},
    "deploym*": {"the deployment failed", "deployments are fun"},
    "zzz*": set(),
    '"black tea" OR "deployments are"': {"black tea with milk", "deployments are fun"},
    "-tea": set(),
    'tea "': {"we drank green tea", "the tea was green", "black tea with milk"},
}


def test_operators_select_what_the_keyword_retriever_finds_alone(engine: Engine):
    texts = ["we drank green tea", "the tea was green", "black tea with milk", "the deployment failed"]
    texts += ["deployments are fun", "deploy on Friday"]
    engine.store.add([tea(number, text, session="s") for number, text in enumerate(texts)], model=MODEL)

    for query, expected in KEYWORD_QUERIES.items():
        tuning = {"preset": "keyword-only", "max_document_frequency": 1.0}
        found = {hit.memory.text for hit in engine.recall(query, tuning=tuning, record_use=False)}
        assert found == expected, query

    # With context, a neighbour that does not match stays out, too.
    with_context = {"preset": "keyword-only", "max_document_frequency": 1.0, "neighbour_weight": 1.0}
    found = {hit.memory.text for hit in engine.recall("tea -milk", tuning=with_context, record_use=False)}
    assert found == KEYWORD_QUERIES["tea -milk"]


def test_what_an_operator_excludes_does_not_fill_the_pool(engine: Engine):
    others = [tea(number, f"green tea with milk number{number}") for number in range(80)]
    engine.store.add([*others, *(tea(100 + n, f"green tea alone number{n}") for n in range(15))], model=MODEL)

    found = engine.recall("green -milk", tuning="keyword-only", record_use=False)

    assert len(found.hits) == 10
    assert all("alone" in hit.memory.text for hit in found.hits)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_of_0_returns_everything_that_matches(engine: Engine, limit: int):
    engine.store.add([tea(number, f"tea number{number}", by=number / 2000) for number in range(1300)], model=MODEL)

    found = engine.recall("tea", limit=limit, vector=axis(0), record_use=False)

    assert len(found.hits) == 1300
    assert [hit.rank for hit in found.hits] == list(range(1, 1301))
