"""Why a memory ranked where it did, or did not appear: every case made by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from retentive import AsyncEngine, Engine, NotFound
from retentive.tenancy import ProfileView
from tests.compass import Compass

PLAIN = {"neighbour_weight": 0, "session_weight": 0, "quality": "off", "min_cosine": -1}
"""Nothing but the two searches and their fusion."""


@pytest.fixture
def compass() -> Compass:
    return Compass()


@pytest.fixture
def engine(open_engine: Callable[..., Engine], compass: Compass) -> Engine:
    return open_engine(compass)


def remember(engine: Engine, *texts: str, **fields: Any) -> list[str]:
    return [memory.id for memory in engine.remember_many([{"text": text, **fields} for text in texts])]


def rank_by(explanation, retriever: str):
    return next(one for one in explanation.retriever_ranks if one.retriever == retriever)


def test_a_hit_is_explained_by_its_place_its_reasons_and_its_neighbours_in_the_list(engine: Engine):
    first, second, third = remember(engine, "at0 the spare key", "at10 the garden", "at20 the attic")
    answer = engine.recall("at0 key", tuning=PLAIN)

    seen = engine.explain("at0 key", second, tuning=PLAIN)

    assert (seen.outcome, seen.hit) == ("hit", answer.hits[1])
    assert seen.sentence.startswith(f"It is hit 2 of 3, with a score of {answer.hits[1].score:.3f}: ")
    assert "semantic (rank 2)" in seen.sentence
    assert (seen.above.id, seen.below.id) == (first, third)
    assert (rank_by(seen, "semantic").rank, rank_by(seen, "semantic").score) == (2, pytest.approx(0.985, abs=1e-3))
    assert rank_by(seen, "keyword").note == "no term of the query occurs in it"
    assert engine.explain("at0 key", first, tuning=PLAIN).above is None


def test_a_memory_behind_the_limit_is_told_its_place_and_what_the_last_hit_had_more(engine: Engine):
    ids = remember(engine, "at0 the key", "at5 one", "at10 two", "at15 three")
    places = [hit.id for hit in engine.recall("at0 key", limit=0, tuning=PLAIN).hits]

    seen = engine.explain("at0 key", ids[2], limit=1, tuning=PLAIN)

    assert (seen.outcome, seen.hit.rank) == ("behind", places.index(ids[2]) + 1)
    last = engine.recall("at0 key", limit=1, tuning=PLAIN).hits[0]
    assert f"The last hit has {last.score:.3f}, {last.score - seen.hit.score:.3f} more" in seen.sentence
    assert "most of it keyword" in seen.sentence
    assert (seen.above.id, seen.below.id) == (ids[1], ids[3])


def test_a_duplicate_names_the_higher_hit_that_says_the_same(engine: Engine):
    first, second = remember(engine, "at0 the spare key", "at0, THE spare key!")
    kept = engine.recall("at0 key").hits[0].id
    (other,) = {first, second} - {kept}

    seen = engine.explain("at0 key", other)

    assert (seen.outcome, seen.same_as) == ("duplicate", kept)
    assert f"a higher hit has the same text: {kept} (rank 1)" in seen.sentence
    assert seen.above.id == kept


def test_a_memory_below_the_score_floor_is_told_the_floor(engine: Engine):
    _, low = remember(engine, "at0 the key", "at60 something else")

    seen = engine.explain("at0 key", low, tuning={**PLAIN, "min_score": 0.5})

    assert seen.outcome == "floor"
    assert "the score floor is 0.5" in seen.sentence
    assert seen.hit.score < 0.5


def test_a_memory_below_the_semantic_floor_is_told_its_likeness(engine: Engine):
    _, low = remember(engine, "at0 the key", "at60 something else")

    seen = engine.explain("at0 key", low, tuning={**PLAIN, "min_cosine": 0.6})

    assert seen.outcome == "floor"
    assert "Its cosine is 0.500, and the semantic floor is 0.6" in seen.sentence
    assert "no term of the query occurs in it" in seen.sentence


def test_a_memory_that_diversity_passed_over_is_told_the_place_its_score_deserved(engine: Engine):
    ids = remember(engine, "at0 red", "at1 blue", "at2 green", "at50 yellow")
    tuning = {**PLAIN, "diversity": 0.9}
    assert {hit.id for hit in engine.recall("at0", limit=2, tuning=PLAIN).hits} == {ids[0], ids[1]}
    assert {hit.id for hit in engine.recall("at0", limit=2, tuning=tuning).hits} == {ids[0], ids[3]}

    seen = engine.explain("at0", ids[1], limit=2, tuning=tuning)

    assert seen.outcome == "diversity"
    assert "it would rank 2, but diversity (0.9) preferred memories" in seen.sentence


def test_a_memory_the_caller_has_already_is_said_to_be_left_out_for_that(engine: Engine):
    first, _ = remember(engine, "at0 the key", "at10 the garden")

    seen = engine.explain("at0 key", first, exclude=[first])

    assert seen.outcome == "excluded"
    assert "exclude" in seen.sentence
    assert rank_by(seen, "semantic").rank == 1


def test_a_memory_no_search_brought_is_told_its_place_in_each_and_where_the_pools_end(engine: Engine):
    ids = remember(engine, *(f"at{at} number{at}" for at in range(60)))
    tuning = {**PLAIN, "min_candidates": 5, "judge": "off"}

    seen = engine.explain("at0", ids[42], limit=1, tuning=tuning)

    assert seen.outcome == "not_found"
    one = rank_by(seen, "semantic")
    assert (one.rank, one.found) == (43, 5)
    assert "semantic: it would rank 43rd with 0.743, the pool ends at 5 with 0.998" in seen.sentence
    assert "no term of the query occurs in it" in seen.sentence
    assert seen.hit is None


def test_words_too_common_to_search_by_are_told_from_words_that_do_not_occur(engine: Engine, compass: Compass):
    ids = remember(engine, *(f"common number{at}" for at in range(50)), "common rare")

    seen = engine.explain("common rare", ids[3], tuning={**PLAIN, "semantic_weight": 0, "max_document_frequency": 0.5})

    assert seen.outcome == "not_found"
    assert "keyword: its matching terms are too common to retrieve it" in seen.sentence
    assert "semantic: it did not run: its weight is 0" in seen.sentence


@pytest.mark.parametrize(
    ("asked", "part", "says"),
    [
        ({"project": "work"}, "project", "its project is 'home', and the recall searched 'work'"),
        ({"session": "other"}, "session", "its session is 'talk', and the recall searched 'other' (project 'work')"),
        ({"session": "beside", "only_session": True}, "session", "searched 'beside'"),
        ({"kinds": ["identity"]}, "kind", "its kind is episodic, and the recall searched identity"),
        ({"profile": "somebody"}, "profile", "its profile is 'default', and the recall searched 'somebody'"),
    ],
)
def test_a_memory_outside_of_the_scope_is_told_which_part(engine: Engine, asked, part, says):
    (id,) = remember(engine, "at0 the key", project="home", session="talk")
    remember(engine, "at1 elsewhere", project="work", session="other")
    remember(engine, "at2 beside", project="home", session="beside")

    seen = engine.explain("at0 key", id, **asked)

    assert (seen.outcome, seen.part) == ("outside", part)
    assert says in seen.sentence


def test_a_session_stands_for_its_project_when_explaining_too(engine: Engine):
    (id,) = remember(engine, "at0 the key", project="home", session="talk")
    remember(engine, "at2 beside", project="home", session="beside")

    assert engine.explain("at0 key", id, session="beside").outcome == "hit"


def test_a_memory_that_is_not_embedded_yet_is_told_so(engine: Engine, compass: Compass):
    remember(engine, "at0 the key")
    compass.down = True
    (late,) = remember(engine, "at0 nothing alike")
    compass.down = False

    seen = engine.explain("key", late)

    assert seen.outcome == "not_found"
    assert "it has no vector of the current model yet (run: retentive reembed)" in seen.sentence


def test_an_embedder_that_is_down_is_named(engine: Engine, compass: Compass):
    (id,) = remember(engine, "at0 the attic")
    compass.down = True

    seen = engine.explain("key", id)

    assert (seen.outcome, seen.degraded) == ("not_found", "keyword-only")
    assert "semantic: it did not run: the embedder does not answer" in seen.sentence


def test_an_empty_query_searches_nothing_and_says_so(engine: Engine):
    (id,) = remember(engine, "at0 the attic")

    assert "the query is empty" in engine.explain(" ", id).sentence


PARAMETERS: list[dict[str, Any]] = [
    {},
    {"fusion": "rrf"},
    {"diversity": 0.6},
    {"min_score": 0.4},
    {"min_cosine": 0.7},
    {"min_candidates": 3, "neighbour_weight": 0, "session_weight": 0},
    {"semantic_weight": 0},
    {"diversity": 0.5, "min_score": 0.3, "min_candidates": 4},
]


@pytest.mark.parametrize("parameters", PARAMETERS, ids=str)
def test_every_memory_is_explained_as_the_recall_treated_it(engine: Engine, parameters: dict[str, Any]):
    words = ("red", "blue", "green")
    texts = [f"at{3 * at} {words[at % 3]} {words[at % 2]}" for at in range(24)]
    ids = remember(engine, *texts, texts[0], session="talk")
    asked: dict[str, Any] = {"limit": 4, "tuning": parameters, "exclude": [ids[2]]}

    answer = engine.recall("at10 red", **asked)

    for id in ids:
        seen = engine.explain("at10 red", id, **asked)
        hits = [hit for hit in answer.hits if hit.id == id]
        dropped = [hit for hit in answer.dropped if hit.id == id]
        assert [seen.hit] == (hits or dropped or [None])
        assert (seen.outcome == "hit") == bool(hits)
        assert (seen.outcome == "excluded") == (id == ids[2])
        assert (seen.outcome in ("behind", "diversity")) == any(hit.rank for hit in dropped)
        assert (seen.outcome == "duplicate") == (bool(dropped) and dropped[0].why[-1].step == "duplicate")
        if seen.outcome == "not_found":
            assert all(one.rank is None or one.rank > one.found for one in seen.retriever_ranks)


def test_explaining_leaves_no_trace_of_use(engine: Engine):
    (id,) = remember(engine, "at0 the key")
    engine.explain("at0 key", id)
    engine._recall_log.record_use()

    assert engine.get(id).access_count == 0


def test_an_explanation_can_be_written_as_json(engine: Engine):
    first, second = remember(engine, "at0 the key", "at10 the garden")

    plain = json.loads(json.dumps(engine.explain("at0 key", second).to_dict()))

    assert plain["above"]["id"] == first
    assert plain["hit"]["why"][0]["step"] in ("keyword", "semantic")
    assert plain["hit"]["why"][-1]["step"] == "relevance"
    assert {one["retriever"] for one in plain["retriever_ranks"]} == {"semantic", "keyword"}


def test_confined_explains_its_own_and_knows_nothing_of_others(engine: Engine):
    (mine,) = remember(engine, "at0 the key", profile="ana")
    (theirs,) = remember(engine, "at0 the other key", profile="ben")
    ana = ProfileView(engine, "ana")

    assert ana.explain("at0 key", mine).outcome == "hit"
    with pytest.raises(NotFound, match=f"there is no memory {theirs}"):
        ana.explain("at0 key", theirs)
    with pytest.raises(NotFound):
        ProfileView(engine, "ana", project="home").explain("at0 key", mine)


async def explained(engine: Engine, *asked: str):
    return await AsyncEngine(engine).explain(*asked)


def test_the_async_engine_explains_alike(engine: Engine):
    import asyncio

    (id,) = remember(engine, "at0 the key")

    assert asyncio.run(explained(engine, "at0 key", id)) == engine.explain("at0 key", id)
