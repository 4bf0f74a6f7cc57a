"""What neighbours and session add to a memory, by hand and by law."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retentive.ranking import Tuning, rank
from retentive.ranking.fusion import count_words
from retentive.ranking.lists import Context
from retentive.ranking.rank import by_context
from tests.ranking.build import NOW, applied, hit, ids, memory, plain, retriever, scores

TALK = Tuning(neighbour_weight=0.6, session_weight=0.5)


def turn(id: str, words: int = 10, session: str = "s"):
    return memory(id, " ".join([id] * words), session=session)


def line(*turns: str) -> Context:
    """These turns one after the other in a session."""
    around = zip((None, *turns), turns, (*turns[1:], None), strict=False)
    return Context((), {id: (before, behind) for before, id, behind in around})


def test_a_turn_gains_from_its_better_neighbour_and_from_the_best_of_its_session():
    hits = [hit(turn("b"), 0.9), hit(turn("a"), 0.2), hit(turn("c"), 0.1)]

    judged = scores(applied(by_context, hits, line("a", "b", "c"), TALK))

    assert judged["b"] == pytest.approx((0.9 + 0.6 * 0.2 + 0.5 * 0.9) / 1.5)
    assert judged["a"] == pytest.approx((0.2 + 0.6 * 0.9 + 0.5 * 0.9) / 1.5)
    assert judged["c"] == pytest.approx((0.1 + 0.6 * 0.9 + 0.5 * 0.9) / 1.5)


def test_a_memory_that_stands_alone_keeps_its_score():
    hits = [hit(turn("a", session="s1"), 0.8), hit(turn("b", session="s2"), 0.3)]

    judged = applied(by_context, hits, Context((), {"a": (None, None), "b": (None, None)}), TALK)

    assert scores(judged) == pytest.approx({"a": 0.8, "b": 0.3})


def test_a_memory_without_a_session_is_untouched():
    document = hit(memory("document"), 0.7)

    judged = applied(by_context, [document, hit(turn("a"), 0.5), hit(turn("b"), 0.4)], line("a", "b"), TALK)

    assert judged[0] == document


def test_long_memories_hardly_lean_on_their_neighbours():
    hits = [hit(turn("a", words=240), 0.2), hit(turn("b", words=240), 0.9)]

    judged = scores(applied(by_context, hits, line("a", "b"), TALK))

    shortness = (28 / 240) ** 2
    assert judged["a"] == pytest.approx((0.2 + 0.6 * shortness * 0.9 + 0.5 * 0.9) / 1.5)


def test_among_long_memories_the_longest_gain_less_from_their_session():
    hits = [hit(turn("a", words=240), 0.2), hit(turn("b", words=240), 0.9), hit(turn("c", words=960), 0.2)]

    one_session = scores(applied(by_context, hits, line("a", "b", "c"), TALK))
    elsewhere = [hit(turn(f"other{n}", words=240, session=f"other{n}"), 0.1) for n in range(2)]
    alone = {f"other{n}": (None, None) for n in range(2)}
    context = Context((), {**line("a", "b", "c").neighbours, **alone})
    judged = scores(applied(by_context, [*hits, *elsewhere], context, TALK))

    assert one_session["c"] == one_session["a"]  # where all are of one session, it tells nothing
    shortness = (28 / 240) ** 2
    gain = 0.5 * (240 / 960) ** (1 - shortness) * 0.9
    assert judged["c"] == pytest.approx((0.2 + 0.6 * shortness * 0.9 + gain) / 1.5)
    assert judged["c"] < judged["a"]


def test_a_neighbour_that_no_retriever_returned_may_enter_the_result():
    asked, answer = turn("asked"), turn("answer")
    context = Context((answer,), {"asked": (None, "answer"), "answer": ("asked", None)})

    ranking = rank([retriever("keyword", (asked, 2.0))], plain(fusion="full", neighbour_weight=0.6), limit=5, now=NOW,
                   context=context)  # fmt: skip

    assert ids(ranking.hits) == ["asked", "answer"]
    assert [reason.step for reason in ranking.hits[1].why] == ["context"]


def test_without_weights_context_changes_nothing():
    hits = [hit(turn("a"), 0.9), hit(turn("b"), 0.2)]

    assert applied(by_context, hits, line("a", "b"), plain(neighbour_weight=0, session_weight=0)) == hits
    assert applied(by_context, hits, Context(), TALK) == hits


def test_context_is_told():
    judged = applied(by_context, [hit(turn("a"), 0.9), hit(turn("b"), 0.2)], line("a", "b"), TALK)

    assert judged[0].why[-1].note == "(0.900 + 0.60 × neighbour 0.200 + 0.50 × session 0.900) / 1.50"


@given(
    values=st.lists(st.floats(0, 1), min_size=1, max_size=12),
    words=st.integers(1, 400),
    neighbour=st.floats(0, 2),
    session=st.floats(0, 2),
)
def test_context_never_lowers_the_best_of_a_session_below_what_it_was_alone(
    values: list[float], words: int, neighbour: float, session: float
):
    names = [f"m{at}" for at in range(len(values))]
    hits = [hit(turn(name, words=words), value) for name, value in zip(names, values, strict=True)]
    tuning = Tuning(neighbour_weight=neighbour, session_weight=session)

    judged = scores(applied(by_context, hits, line(*names), tuning))

    best = max(hits, key=lambda found: found.score)
    assert judged[best.id] >= best.score - 1e-9
    assert all(value >= -1e-9 for value in judged.values())


def test_words_are_counted_in_scripts_without_blanks_too():
    assert count_words("we moved to Berlin last week") == 6
    assert count_words("我上周从巴黎搬到了柏林的新公寓") == pytest.approx(1 + 15 / 1.7)
    assert count_words("Я живу в Берлине") == 4
