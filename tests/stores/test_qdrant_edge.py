"""Qdrant's real engine in this process: part of the contract, and the same results as with the engine of the client.

The whole contract runs on it with RETENTIVE_TEST_QDRANT=edge python -m pytest tests/stores
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from retentive.models import KINDS, Scope
from retentive.stores.base import Store
from retentive.stores.qdrant import QdrantStore
from tests.stores import test_contract_catalogue as catalogue
from tests.stores import test_contract_idempotency as idempotency
from tests.stores import test_contract_key_value as key_value
from tests.stores import test_contract_keyword as keyword
from tests.stores import test_contract_memories as memories
from tests.stores import test_contract_models as models
from tests.stores import test_contract_scan as scan
from tests.stores import test_contract_scope as scopes
from tests.stores import test_contract_search as searches
from tests.stores.build import HERE, MODEL, Record, id_of, make_query, memory, rows, scores_by_id, vector
from tests.stores.local_qdrant import LocalQdrant
from tests.stores.openers import open_qdrant_edge, reference_for
from tests.stores.test_contract_random import VOCABULARY, compare_after_random_changes

CONTRACT = [
    catalogue.test_days_count_memories_by_kind_and_by_when_they_happened_in_utc,
    catalogue.test_moving_a_session_moves_its_memories_for_both_retrievers_and_new_ones,
    catalogue.test_positions_in_a_session_count_from_0_over_batches_and_single_adds,
    catalogue.test_sessions_and_projects_are_listed_by_name_with_their_counts,
    idempotency.test_a_key_can_be_used_again_after_a_day,
    idempotency.test_an_add_that_is_sent_again_returns_what_it_wrote_and_writes_nothing,
    key_value.test_changes_are_written_together_or_not_at_all,
    key_value.test_of_many_threads_that_expect_the_same_value_only_one_writes,
    keyword.test_a_term_that_every_memory_of_a_scope_has_weighs_little_there_and_much_in_another_scope,
    keyword.test_keyword_scores_are_those_of_the_retriever_and_0_where_no_term_matches,
    keyword.test_memories_of_equal_score_are_in_the_order_of_writing,
    keyword.test_terms_above_the_document_frequency_do_not_retrieve_unless_there_is_no_rarer_one,
    keyword.test_terms_that_do_not_retrieve_still_score,
    memories.test_a_memory_is_returned_with_every_field_as_it_was_given,
    memories.test_a_page_continues_after_its_cursor_when_memories_are_added_and_removed_meanwhile,
    memories.test_a_removed_memory_can_be_stored_again_and_nothing_of_the_old_one_is_found,
    memories.test_a_touch_counts_and_keeps_the_latest_time,
    memories.test_stats_count_what_the_store_holds,
    memories.test_threads_may_write_and_search_at_once,
    models.test_a_memory_of_three_parts_is_found_once_by_its_nearest_part,
    models.test_a_store_switches_to_another_model_only_when_every_memory_has_its_vector,
    models.test_memories_of_many_parts_do_not_displace_others_from_the_result,
    models.test_pitfall_11_vectors_of_another_model_of_the_same_dimension_are_never_mixed_in,
    models.test_semantic_scores_are_those_of_the_retriever_without_memories_that_have_no_vector,
    scan.test_a_scan_returns_every_memory_of_every_profile_once_with_all_its_vectors,
    scopes.test_both_retrievers_and_the_list_return_exactly_the_memories_of_every_scope,
    scopes.test_excluded_memories_are_missing_and_the_result_is_still_full,
    searches.test_memories_that_the_retrievers_did_not_find_are_scored,
    searches.test_neighbours_are_the_memories_before_and_after_in_the_same_session,
    searches.test_neighbours_skip_a_removed_memory,
    searches.test_the_order_of_the_reads_does_not_matter,
    searches.test_unknown_ids_are_missing_from_scores_vectors_and_neighbours,
]
# These tests take a store from the fixture `store`, which is the real engine in this module.
globals().update({test.__name__: test for test in CONTRACT})

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
    opened = open_qdrant_edge(tmp_path)
    yield opened
    assert opened.check() == []
    opened.close()


def random_records(count: int) -> list[Record]:
    dice = random.Random(5)
    projects: dict[str | None, str | None] = {"a": "p", "b": "p", "c": None, None: None}
    found = []
    for number in range(count):
        session = dice.choice(list(projects))
        one = memory(
            number,
            " ".join(dice.choices(VOCABULARY, k=dice.randint(1, 20))),
            profile=dice.choice(["default", "default", "bob"]),
            session=session,
            project=projects[session],
            kind=dice.choice(KINDS),
        )
        parts = rows(*(vector(dice.randrange(10**6)) for _ in range(dice.randint(1, 3))))
        found.append(Record(one, parts if dice.random() < 0.9 else None))
    return found


def test_the_real_engine_and_the_one_inside_the_client_give_the_same_candidates_neighbours_and_scores(store: Store):
    local = QdrantStore(LocalQdrant())
    records = random_records(400)
    for one in (local, store):
        one.add(records, model=MODEL)
    removed = [id_of(number) for number in range(0, 400, 7)]
    assert local.remove(removed) == store.remove(removed)
    dice = random.Random(6)

    for scope, common in product(SCOPES, (1.0, 0.05)):
        text, near = " ".join(dice.sample(VOCABULARY, 4)), vector(dice.randrange(10**6))
        query = make_query(text, scope, exclude=[id_of(n) for n in (1, 2, 3)], common_words=common)
        results = []
        for one in (store, local):
            with one.open_search(query) as reads:
                candidates = [reads.keyword(400).candidates, reads.nearest(near, 400).candidates]
                assert bool(candidates[0]) == bool(candidates[1]) == (scope.profile != "nobody")
                for some in candidates:
                    scores = [candidate.score for candidate in some]
                    assert scores == sorted(scores, reverse=True)
                neighbours = reads.neighbours([id_of(number) for number in range(60)])
                of_any = reads.scores([id_of(number) for number in range(60)])
            # Equal and nearly equal scores are in any order, so they are compared by memory.
            results.append((*map(scores_by_id, candidates), dict(of_any.keyword), dict(of_any.semantic), neighbours))
        (*real, real_neighbours), (*expected, expected_neighbours) = results
        for ours, theirs in zip(real, expected, strict=True):
            assert ours == pytest.approx(theirs, rel=1e-5, abs=1e-6), (text, scope)
        assert real_neighbours == expected_neighbours


def test_the_real_engine_agrees_with_the_store_in_memory_after_each_of_many_random_changes(store: Store):
    compare_after_random_changes(store, reference_for("qdrant"), seed=4, steps=80)
