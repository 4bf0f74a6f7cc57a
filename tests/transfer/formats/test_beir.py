"""Sets in BEIR's layout are read as they are, and what is wrong with one is named by file and line."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from retentive.errors import Invalid
from retentive.transfer.formats import streams
from retentive.transfer.formats.beir import Qrel, read_corpus, read_qrels, read_queries
from tests.evaluation.build import MEMORY_LINES, QUERY_LINES, write_set


def test_a_memory_has_the_fields_of_its_metadata_and_its_id_in_its_source(tmp_path):
    first = next(read_corpus(write_set(tmp_path / "set")))

    assert first.text == "Anna: The spare key is under the blue pot on the terrace."
    assert (first.project, first.session, first.speaker) == ("anna", "anna/1", "Anna")
    assert (first.occurred, first.source, first.position) == ("2026-05-08T13:56:00", "beir:a1", None)


def test_memories_come_in_the_order_of_the_corpus(tmp_path):
    drafts = read_corpus(write_set(tmp_path / "set"))

    assert [draft.source for draft in drafts] == [f"beir:{line['_id']}" for line in MEMORY_LINES]


@pytest.mark.parametrize(
    ("title", "text", "joined"), [("T", "body", "T\nbody"), ("", "body", "body"), ("T", " ", "T"), (None, "b", "b")]
)
def test_title_and_text_are_joined(tmp_path, title, text, joined):
    folder = write_set(tmp_path / "set", corpus=[{"_id": "1", "title": title, "text": text}])

    assert [draft.text for draft in read_corpus(folder)] == [joined]


def test_a_document_without_text_is_skipped(tmp_path):
    folder = write_set(tmp_path / "set", corpus=[{"_id": "1", "title": "", "text": " "}, {"_id": "2", "text": "b"}])

    assert [draft.source for draft in read_corpus(folder)] == ["beir:2"]


def test_metadata_of_no_meaning_to_us_stays_metadata(tmp_path):
    folder = write_set(tmp_path / "set", corpus=[{"_id": "1", "text": "b", "metadata": {"url": "x", "speaker": "Ana"}}])

    assert next(read_corpus(folder)).metadata == {"url": "x"}


def test_sessions_with_the_same_name_in_several_projects_are_distinguished(tmp_path):
    lines = [
        {"_id": str(at), "text": "b", "metadata": {"project": project, "session": "session_1"}}
        for at, project in enumerate(["p", "q", "p", "q"])
    ]

    drafts = list(read_corpus(write_set(tmp_path / "set", corpus=lines)))

    assert [draft.session for draft in drafts] == ["session_1", "q/session_1", "session_1", "q/session_1"]


def test_a_query_has_its_project_its_time_and_its_category(tmp_path):
    first = next(read_queries(write_set(tmp_path / "set")))

    assert (first.id, first.text, first.project, first.category) == ("q1", "Where is the spare key?", "anna", "where")
    assert first.asked_at == datetime(2026, 5, 20, 9, tzinfo=UTC)


def test_judgements_are_read_with_or_without_a_header(tmp_path):
    with_header = write_set(tmp_path / "a", qrels="query-id\tcorpus-id\tscore\nq1\ta1\t2\r\n\n")
    without = write_set(tmp_path / "b", qrels="q1\ta1\t2")

    assert list(read_qrels(with_header)) == [Qrel("q1", "a1", 2, 2)]
    assert list(read_qrels(without)) == [Qrel("q1", "a1", 2, 1)]


def test_a_byte_order_mark_and_line_separators_inside_texts_are_no_trouble(tmp_path):
    folder = write_set(tmp_path / "set", corpus=['\ufeff{"_id": "1", "text": "one\u2028two\u0085three"}'])

    assert [draft.text for draft in read_corpus(folder)] == ["one\u2028two\u0085three"]


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[1]", "found list"),
        ({"text": "b"}, "_id"),
        ({"_id": "", "text": "b"}, "_id"),
        ({"_id": "a1", "text": "b"}, "'a1' appears twice"),
        ({"_id": "x"}, "there is no text"),
        ({"_id": "x", "text": 7}, "text: a text, not 7"),
        ({"_id": "x", "text": "b", "title": []}, "title"),
        ({"_id": "x", "text": "b", "metadata": "m"}, "metadata"),
        ({"_id": "x", "text": "b", "metadata": {"project": 7}}, "project"),
        ({"_id": "x", "text": "b", "metadata": {"occurred_at": "May"}}, "occurred: 'May' is not a time"),
        ({"_id": "x" * 600, "text": "b"}, "source"),
    ],
)
def test_a_bad_line_of_the_corpus_is_named(tmp_path, bad, says):
    folder = write_set(tmp_path / "set", corpus=[MEMORY_LINES[0], "", bad])

    with pytest.raises(Invalid) as raised:
        list(read_corpus(folder))

    assert "corpus.jsonl, line 3: " in str(raised.value)
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"_id": "q1", "text": "b"}, "twice"),
        ({"_id": "x"}, "no text"),
        ({"_id": "x", "text": "b", "metadata": {"asked_at": "soon"}}, "asked_at"),
        ({"_id": "x", "text": "b", "metadata": {"category": 4}}, "category"),
    ],
)
def test_a_bad_line_of_the_queries_is_named(tmp_path, bad, says):
    folder = write_set(tmp_path / "set", queries=[QUERY_LINES[0], bad])

    with pytest.raises(Invalid, match=r"queries\.jsonl, line 2: .*" + says):
        list(read_queries(folder))


@pytest.mark.parametrize(("bad", "says"), [("q1 a1 1", "1 columns"), ("q1\ta1\tyes", "'yes'"), ("q1\ta1", "2 columns")])
def test_a_bad_line_of_the_judgements_is_named(tmp_path, bad, says):
    folder = write_set(tmp_path / "set", qrels=f"query-id\tcorpus-id\tscore\nq1\ta1\t1\n{bad}\n")

    with pytest.raises(Invalid, match=r"qrels/test\.tsv, line 3: .*" + says):
        list(read_qrels(folder))


def test_a_file_that_is_not_there_or_not_utf_8_is_named(tmp_path):
    folder = write_set(tmp_path / "set")
    (folder / "queries.jsonl").unlink()
    (folder / "corpus.jsonl").write_bytes(b'{"_id": "1", "text": "b"}\n\xff\xfe\n')

    with pytest.raises(Invalid, match=r"there is no .*queries\.jsonl; an evaluation set is a folder with"):
        list(read_queries(folder))
    with pytest.raises(Invalid, match=r"corpus\.jsonl.*not UTF-8"):
        list(read_corpus(folder))


@pytest.mark.parametrize("name", ["corpus.jsonl", "queries.jsonl", "qrels/test.tsv"])
def test_a_line_without_an_end_is_named_and_never_held(tmp_path, monkeypatch, name):
    monkeypatch.setattr(streams, "MAX_LINE_BYTES", 1000)
    folder = write_set(tmp_path / "set")
    (folder / name).write_text("x" * 2000)
    read = {"corpus.jsonl": read_corpus, "queries.jsonl": read_queries}.get(name, read_qrels)

    with pytest.raises(Invalid, match=r"line 1: it is too long"):
        list(read(folder))
