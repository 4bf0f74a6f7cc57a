"""The memories that the keyword retriever of the PostgreSQL store reads first."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retentive.models import Scope
from retentive.stores.postgres import PostgresStore, search_statements
from retentive.stores.postgres.strong_matches import FEW_MATCHES, MAX_TERMS, strong_matches
from tests.stores import postgres_server
from tests.stores.build import HERE, find_keyword, record, scores_by_id
from tests.stores.postgres_store import opened

MEMORIES = 10_000
FREQUENCIES = st.lists(st.integers(1, MEMORIES // 2), min_size=1, max_size=9).map(sorted)


def is_found(query: str, terms: set[str]) -> bool:
    """Whether a query finds a memory with these terms."""
    found = query.replace("&", "and").replace("|", "or")
    for number in range(10):
        found = found.replace(f"'t{number}'", str(f"t{number}" in terms))
    return bool(eval(found))  # made of True, False, and, or


@given(FREQUENCIES, st.integers(1, 9), st.sets(st.integers(0, 8)), st.floats(1.0, 2.0))
def test_a_memory_that_is_not_found_cannot_have_a_better_score(
    frequencies: list[int], searched: int, has: set[int], damping: float
):
    names = {f"t{number}": frequency for number, frequency in enumerate(frequencies)}
    weights = {name: 10 - 3 * (frequency / MEMORIES) ** 0.5 - at for at, (name, frequency) in enumerate(names.items())}
    chosen = list(names)[:searched]
    terms = {f"t{number}" for number in has} & names.keys()
    strong = strong_matches(weights, names, chosen, memories=MEMORIES, wanted=64, mean_damping=1.6, least_damping=1.2)
    if strong is not None and terms & set(chosen) and not is_found(strong.query, terms):
        assert sum(weights[term] for term in terms) / max(damping, 1.2) <= strong.best_of_others


def test_rare_terms_and_pairs_of_common_ones_are_strong():
    weights, frequencies = {"a": 8.0, "b": 5.0, "c": 4.5, "d": 1.0}, {"a": 100, "b": 2_000, "c": 3_000, "d": 50_000}
    strong = strong_matches(
        weights, frequencies, ["a", "b", "c"], memories=100_000, wanted=64, mean_damping=1.6, least_damping=1.2
    )
    assert strong is not None
    # About 60 memories have "b" and "c", and 50 have "a" and "d". So 96 are expected to have a weight of 9 or more. A
    # weight of less than 9 · 1.2 / 1.6 = 6.75 is that of "b" and "d" at most.
    assert strong.query == "('a' | 'b' & ('c')) & ('a' | 'b' | 'c')"
    assert strong.best_of_others == pytest.approx(6.0 / 1.2)


@pytest.mark.parametrize("frequency", [FEW_MATCHES * 64, FEW_MATCHES * 64 + 1])
def test_few_matches_are_selected_in_one_step(frequency: int):
    given = {"weights": {"a": 8.0, "b": 0.5}, "frequencies": {"a": frequency, "b": 9_000}, "searched": ["a"]}
    found = strong_matches(**given, memories=MEMORIES, wanted=64, mean_damping=1.6, least_damping=1.5)
    assert (found is None) == (frequency == FEW_MATCHES * 64)


@pytest.fixture(scope="module")
def filled() -> Iterator[PostgresStore]:
    """A store whose memories have one to forty words, and common words more often than rare ones."""
    random.seed(5)
    words = [f"word{number}" for number in range(300)]
    chances = [1 / (number + 3) for number in range(300)]
    texts = {" ".join(random.choices(words, chances, k=random.randint(1, 40))) for _ in range(3000)}
    with opened(postgres_server.address()) as store:
        store.add([record(n, text, session=f"s{n % 2}") for n, text in enumerate(sorted(texts))], model=None)
        yield store


@pytest.mark.parametrize("scope", [HERE, Scope(sessions=("s1",))])
def test_the_keyword_retriever_finds_the_same_in_two_steps(
    filled: PostgresStore, scope: Scope, monkeypatch: pytest.MonkeyPatch
):
    texts = [" ".join(f"word{random.randint(4, 200)}" for _ in range(MAX_TERMS + 2 - n % 6)) for n in range(40)]
    used: list[bool] = []

    def counted(*arguments: object, **options: object) -> object:
        found = strong_matches(*arguments, **options)  # type: ignore[arg-type]
        used.append(found is not None)
        return found

    monkeypatch.setattr(search_statements, "strong_matches", counted)
    in_two = [scores_by_id(find_keyword(filled, text, scope, limit=10)) for text in texts]
    monkeypatch.setattr(search_statements, "strong_matches", lambda *_, **__: None)
    in_one = [scores_by_id(find_keyword(filled, text, scope, limit=10)) for text in texts]
    assert in_two == in_one
    assert sum(used) > 10


def test_short_memories_with_common_terms_are_found_although_long_ones_have_rarer_terms():
    filler = [f"filler{number}" for number in range(500)]
    texts = [" ".join(["cobalt", *filler[n : n + 80]]) for n in range(200)]
    texts += [f"copper filler{n}" for n in range(600)]
    texts += [" ".join(filler[n % 480 : n % 480 + 12]) for n in range(2200)]
    with opened(postgres_server.address()) as store:
        store.add([record(n, text) for n, text in enumerate(texts)], model=None)
        found = [candidate.memory.text for candidate in find_keyword(store, "cobalt copper", limit=10)]
    assert all(text.startswith("copper") for text in found)
