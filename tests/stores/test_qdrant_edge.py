"""Qdrant's real engine, in this process: the same answers as from the client's own one, and the heart of the contract.

The whole contract runs on it by RETENTIVE_TEST_QDRANT=edge python -m pytest tests/stores
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from retentive.stores.at_once import Asked, Both

from retentive.models import KINDS, Scope
from retentive.stores import Store
from retentive.stores.in_memory import InMemoryStore
from retentive.stores.qdrant import QdrantStore
from retentive.stores.qdrant.sparse import MEAN_LENGTH
from tests.stores import test_contract as contract
from tests.stores import test_contract_context as context
from tests.stores import test_contract_notes as notes
from tests.stores.build import HERE, MODEL, Record, id_of, memory, rows, vector
from tests.stores.openers import LocalQdrant
from tests.stores.qdrant_edge import open_edge
from tests.stores.test_contract import VOCABULARY, walk_along

HEART = [
    contract.test_a_key_found_by_id_leads_to_the_same_memory_and_an_unknown_id_to_none,
    contract.test_a_memory_comes_back_with_every_field_as_it_was_given,
    contract.test_a_memory_of_three_parts_is_found_once_by_its_nearest_part,
    contract.test_a_moved_session_takes_its_memories_along_for_both_searches_and_new_ones,
    contract.test_a_page_goes_on_behind_its_cursor_when_memories_come_and_go_meanwhile,
    contract.test_a_removed_memory_can_be_stored_again_and_old_keys_do_not_lead_to_it,
    contract.test_a_store_changes_over_to_another_model_only_when_every_memory_has_its_vector,
    contract.test_a_touch_counts_and_keeps_the_latest_time,
    contract.test_a_walk_gives_every_memory_of_every_profile_once_with_all_its_vectors,
    contract.test_both_searches_and_the_list_see_exactly_the_memories_of_every_scope,
    contract.test_days_count_memories_by_kind_and_by_when_they_happened_in_utc,
    contract.test_equal_scores_come_in_the_order_of_writing,
    contract.test_excluded_memories_are_missing_and_the_result_is_still_full,
    contract.test_memories_of_many_parts_do_not_crowd_others_out_of_the_result,
    contract.test_pitfall_11_vectors_of_another_model_of_the_same_dimension_are_never_mixed_in,
    contract.test_positions_in_a_session_run_on_from_0_over_batches_and_single_adds,
    contract.test_scores_by_vector_are_those_of_the_search_and_leave_out_what_has_none,
    contract.test_scores_by_words_are_those_of_the_search_and_0_where_nothing_matches,
    contract.test_sessions_and_projects_are_listed_by_name_with_what_they_hold,
    contract.test_stats_count_what_the_store_holds,
    contract.test_terms_commoner_than_asked_for_do_not_search_unless_there_is_no_rarer_one,
    contract.test_terms_that_do_not_search_still_score,
    contract.test_threads_may_write_and_search_at_once,
    context.test_a_word_that_everybody_in_the_scope_says_counts_for_little_there_and_for_much_elsewhere,
    context.test_neighbours_are_the_turns_before_and_behind_in_the_same_session,
    context.test_neighbours_close_the_gap_that_a_forgotten_turn_leaves,
    notes.test_a_write_that_is_sent_again_gives_what_it_wrote_and_writes_nothing,
    notes.test_notes_are_kept_together_or_not_at_all,
    notes.test_of_many_who_expect_the_same_only_one_keeps_a_note,
    notes.test_the_name_of_a_write_is_free_again_after_a_day,
]
# Said of every store there, and here of the one on the real engine, which is what `store` is in this module.
globals().update({test.__name__: test for test in HEART})

SCOPES = [
    HERE,
    Scope(project="p"),
    Scope(sessions=("a", "c")),
    Scope(sessions=("a",), only_sessions=True),
    Scope(kinds=("semantic", "identity")),
    Scope("bob"),
    Scope("nobody"),
]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_edge(tmp_path)
    yield opened
    assert opened.check() == []
    opened.close()


def any_records(count: int) -> list[Record]:
    dice = random.Random(5)
    homes: dict[str | None, str | None] = {"a": "p", "b": "p", "c": None, None: None}
    found = []
    for number in range(count):
        session = dice.choice(list(homes))
        one = memory(
            number,
            " ".join(dice.choices(VOCABULARY, k=dice.randint(1, 20))),
            profile=dice.choice(["default", "default", "bob"]),
            session=session,
            project=homes[session],
            kind=dice.choice(KINDS),
        )
        parts = rows(*(vector(dice.randrange(10**6)) for _ in range(dice.randint(1, 3))))
        found.append(Record(one, parts if dice.random() < 0.9 else None))
    return found


def scores(both: Both) -> list[dict[str, float]]:
    """What the retrievers found, and what each search scores the other's, by id."""
    ids = {key: one.id for key, one in both.seen.memories.items()}
    for retriever in (both.words, both.vectors):
        assert [found.score for found in retriever] == sorted((found.score for found in retriever), reverse=True)
    retrievers = [{ids[found.key]: found.score for found in retriever} for retriever in (both.words, both.vectors)]
    beside = [{ids[key]: one for key, one in some.items()} for some in (both.seen.by_words, both.seen.by_vector)]
    return [*retrievers, *beside]


def test_the_real_engine_and_the_clients_own_give_the_same_retrievers_and_scores(store: QdrantStore):
    own = QdrantStore(LocalQdrant())
    records = any_records(400)
    for one in (own, store):
        one.add(records, model=MODEL)
    gone = [id_of(number) for number in range(0, 400, 7)]
    assert own.remove(gone) == store.remove(gone)
    dice = random.Random(6)

    for scope, common in product(SCOPES, (1.0, 0.05)):
        query = " ".join(dice.sample(VOCABULARY, 4))
        asked = Asked(query, vector(dice.randrange(10**6)), scope, 400, 400, [id_of(n) for n in (1, 2, 3)], common)
        both = [one.search_both(asked) for one in (store, own)]
        keys = [list(one.keys([id_of(number) for number in range(60)]).values()) for one in (store, own)]
        looks = [one.look(asked, some) for one, some in zip((store, own), keys, strict=True)]

        # Ties and all but ties come in any order, so the scores are compared memory by memory.
        for real, ours in zip(*map(scores, both), strict=True):
            assert real == pytest.approx(ours, rel=1e-5, abs=1e-6), (query, scope)
        assert bool(both[0].words) == bool(both[0].vectors) == (scope.profile != "nobody")
        for name in ("by_words", "by_vector"):
            real, ours = (
                {look.memories[key].id: score for key, score in getattr(look, name).items()} for look in looks
            )
            assert real == pytest.approx(ours, rel=1e-5, abs=1e-6)


def test_the_real_engine_shows_what_the_store_in_memory_shows_after_each_of_many_random_changes(store: Store):
    walk_along(store, InMemoryStore(mean_length=MEAN_LENGTH), seed=4, steps=80)
