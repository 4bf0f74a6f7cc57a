"""Reading an evaluation set: queries, relevance, statistics of the corpus, and notes on irregularities."""

from __future__ import annotations

import pytest

from retentive.errors import Invalid, NotFound
from retentive.evaluation import CorpusStats, read_evaluation_set
from retentive.evaluation.evaluation_set import document_id
from retentive.models import Memory
from tests.conftest import NOW
from tests.evaluation.build import QUERY_LINES, write_set


def test_queries_come_with_the_documents_that_answer_them(tmp_path):
    judged = read_evaluation_set(write_set(tmp_path / "tiny"))

    assert judged.name == "tiny"
    assert [query.id for query in judged.queries] == ["q1", "q2", "q3", "q4", "q5", "q6"]
    assert judged.queries[2].relevance == {"a5": 1, "a6": 1}
    assert judged.notes == ()


def test_the_statistics_of_the_corpus_include_how_many_memories_a_query_searches(tmp_path):
    judged = read_evaluation_set(write_set(tmp_path / "tiny"))

    assert judged.corpus == CorpusStats(memories=12, projects=2, sessions=3, median_words=8.0, searched=6.0)
    assert len(list(judged.drafts())) == len(list(judged.drafts())) == 12


def test_a_query_without_a_project_searches_everything(tmp_path):
    lines = [{"_id": line["_id"], "text": line["text"]} for line in QUERY_LINES]

    assert read_evaluation_set(write_set(tmp_path / "tiny", queries=lines)).corpus.searched == 12


def test_a_judgement_of_0_or_less_is_not_relevant(tmp_path):
    judged = read_evaluation_set(write_set(tmp_path / "tiny", qrels="q1\ta1\t2\nq1\ta2\t0\nq2\ta3\t-1\n"))

    assert [(query.id, query.relevance) for query in judged.queries] == [("q1", {"a1": 2})]
    assert judged.notes == ("5 queries have no relevant memory and will not be used",)


def test_judgements_that_cannot_be_satisfied_are_counted_in_the_notes(tmp_path):
    qrels = "q1\ta1\t1\nq2\tnowhere\t1\nq4\ta1\t1\nnobody\ta1\t1\n"

    judged = read_evaluation_set(write_set(tmp_path / "tiny", qrels=qrels))

    assert [query.id for query in judged.queries] == ["q1", "q2", "q4"]
    assert judged.notes[0].startswith("2 judgements name a memory")
    assert "qrels/test.tsv, line 2" in judged.notes[0]
    assert judged.notes[1].startswith("1 judgement names a query that is not in the set")


def test_a_set_without_a_reachable_relevant_memory_is_refused(tmp_path):
    with pytest.raises(Invalid, match="no query of the set has a relevant memory"):
        read_evaluation_set(write_set(tmp_path / "a", qrels="q1\tnowhere\t1\n"))
    with pytest.raises(Invalid, match="the corpus is empty"):
        read_evaluation_set(write_set(tmp_path / "b", corpus=[]))
    with pytest.raises(NotFound, match="an evaluation set is a folder"):
        read_evaluation_set(tmp_path / "nowhere")


def test_the_first_queries_keep_all_the_memories(tmp_path):
    judged = read_evaluation_set(write_set(tmp_path / "tiny"))

    assert [query.id for query in judged.first(2).queries] == ["q1", "q2"]
    assert judged.first(2).corpus == judged.corpus
    with pytest.raises(Invalid, match="limit_queries"):
        judged.first(0)


def test_the_id_of_a_document_is_in_the_source_of_its_memory():
    sources = ["beir:conv-26/D1:3", "beir:beir:x", "notes.md", None]

    found = [document_id(Memory("id", "text", NOW, source=source)) for source in sources]

    assert found == ["conv-26/D1:3", "beir:x", None, None]
