"""A judged set says what is asked, what answers it, what is searched, and what is odd about it."""

from __future__ import annotations

import pytest

from retentive.errors import Invalid
from retentive.evaluation import Pool, read_judged_set
from retentive.evaluation.evaluation_set import document_of
from tests.evaluation.build import QUERY_LINES, write_set


def test_queries_come_with_the_documents_that_answer_them(tmp_path):
    judged = read_judged_set(write_set(tmp_path / "tiny"))

    assert judged.name == "tiny"
    assert [query.id for query in judged.queries] == ["q1", "q2", "q3", "q4", "q5", "q6"]
    assert judged.queries[2].relevance == {"a5": 1, "a6": 1}
    assert judged.notes == ()


def test_the_pool_is_described_and_what_a_query_sees_of_it(tmp_path):
    judged = read_judged_set(write_set(tmp_path / "tiny"))

    assert judged.pool == Pool(memories=12, projects=2, sessions=3, median_words=8.0, searched=6.0)
    assert len(list(judged.drafts())) == len(list(judged.drafts())) == 12


def test_a_query_without_a_project_sees_everything(tmp_path):
    lines = [{"_id": line["_id"], "text": line["text"]} for line in QUERY_LINES]

    assert read_judged_set(write_set(tmp_path / "tiny", queries=lines)).pool.searched == 12


def test_what_is_judged_not_relevant_is_not(tmp_path):
    judged = read_judged_set(write_set(tmp_path / "tiny", qrels="q1\ta1\t2\nq1\ta2\t0\nq2\ta3\t-1\n"))

    assert [(query.id, query.relevance) for query in judged.queries] == [("q1", {"a1": 2})]
    assert judged.notes == ("5 queries have nothing judged relevant and are not asked",)


def test_judgements_that_cannot_be_met_are_counted_and_said(tmp_path):
    qrels = "q1\ta1\t1\nq2\tnowhere\t1\nq4\ta1\t1\nnobody\ta1\t1\n"

    judged = read_judged_set(write_set(tmp_path / "tiny", qrels=qrels))

    assert [query.id for query in judged.queries] == ["q1", "q2", "q4"]
    assert judged.notes[0].startswith("2 judgements name a memory")
    assert "qrels/test.tsv, line 2" in judged.notes[0]
    assert judged.notes[1].startswith("1 judgements name a query that is not in the set")


def test_a_set_of_which_nothing_fits_together_is_refused(tmp_path):
    with pytest.raises(Invalid, match="no query of the set has a relevant memory"):
        read_judged_set(write_set(tmp_path / "a", qrels="q1\tnowhere\t1\n"))
    with pytest.raises(Invalid, match="the corpus is empty"):
        read_judged_set(write_set(tmp_path / "b", corpus=[]))
    with pytest.raises(Invalid, match="there is no folder"):
        read_judged_set(tmp_path / "nowhere")


def test_the_first_queries_keep_all_the_memories(tmp_path):
    judged = read_judged_set(write_set(tmp_path / "tiny"))

    assert [query.id for query in judged.first(2).queries] == ["q1", "q2"]
    assert judged.first(2).pool == judged.pool
    with pytest.raises(Invalid, match="limit_queries"):
        judged.first(0)


def test_a_document_is_known_by_the_source_of_its_memory():
    assert document_of("beir:conv-26/D1:3") == "conv-26/D1:3"
    assert document_of("beir:beir:x") == "beir:x"
    assert document_of("notes.md") is None
    assert document_of(None) is None
