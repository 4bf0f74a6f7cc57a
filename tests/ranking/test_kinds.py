"""The best of each kind that is asked for is among the hits."""

from __future__ import annotations

from unittest.mock import ANY

import pytest

from retentive.ranking import pick
from retentive.ranking.lists import Ranking
from tests.ranking.build import hit, ids, memory, plain

EPISODES = [hit(memory(f"e{number}"), 0.9 - number / 100) for number in range(8)]
WHO = hit(memory("who", kind="identity"), 0.2)
ALSO = hit(memory("also", kind="identity"), 0.1)
FACT = hit(memory("fact", kind="semantic"), 0.15)


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ((), ["e0", "e1", "e2", "e3"]),
        (("episodic",), ["e0", "e1", "e2", "e3"]),
        (("episodic", "identity"), ["e0", "e1", "e2", "who"]),
        (("identity", "episodic", "semantic"), ["e0", "e1", "who", "fact"]),
    ],
)
def test_the_best_of_each_kind_asked_for_has_a_place(kinds, expected):
    ranking = Ranking((*EPISODES, WHO, FACT, ALSO))

    picked = pick(ranking, plain(), limit=4, kinds=kinds)

    assert ids(picked) == expected
    assert [one.rank for one in picked.hits] == [1, 2, 3, 4]
    assert {one.id for one in (*picked.hits, *picked.dropped)} == {one.id for one in ranking.hits}


def test_a_limit_smaller_than_the_number_of_kinds_keeps_the_best():
    assert ids(pick(Ranking((*EPISODES, WHO)), plain(), limit=1, kinds=("episodic", "identity"))) == ["e0"]


def test_the_floor_holds_for_the_best_of_a_kind_too():
    picked = pick(Ranking((*EPISODES, WHO)), plain(min_score=0.5), limit=4, kinds=("episodic", "identity"))

    assert ids(picked) == ["e0", "e1", "e2", "e3"]


def test_the_best_of_a_kind_comes_last_although_mmr_has_lowered_the_scores_of_the_others():
    fact = hit(memory("fact", "one fact", kind="semantic"), 0.86)
    ranking = Ranking((*(hit(memory(f"e{number}", "one text"), 0.9) for number in range(4)), fact))

    picked = pick(ranking, plain(diversity=0.05), limit=3, kinds=("episodic", "semantic"))

    assert [(one.id, one.score) for one in picked.hits] == [("e0", 0.9), ("e1", pytest.approx(0.855)), ("fact", ANY)]
    assert picked.hits[2].score == picked.hits[1].score
