"""Values that describe themselves."""

from __future__ import annotations

from datetime import UTC, datetime

from retentive import Hit, Memory, Recall

AT = datetime(2026, 5, 8, 9, tzinfo=UTC)


def recall_of(*texts: str, speaker: str | None = None, **fields: str) -> Recall:
    hits = tuple(
        Hit(Memory(f"id {rank}", text, AT, speaker=speaker), 1 / rank, rank=rank) for rank, text in enumerate(texts, 1)
    )
    return Recall("where is the key?", hits, (), **fields)


def test_a_recall_is_a_sequence_of_its_hits():
    recall = recall_of("under the pot", "behind the door", "lost")

    assert [hit.memory.text for hit in recall] == ["under the pot", "behind the door", "lost"]
    assert (len(recall), recall[0], recall[-1], recall[1:]) == (3, recall.hits[0], recall.hits[2], recall.hits[1:])
    assert not recall_of()


def test_a_recall_prints_as_a_table_with_one_line_for_each_hit():
    recall = recall_of("The key is under\nthe pot", "x" * 200, speaker="Ana")

    first, second = str(recall).split("\n")

    assert first == "  1     –  2026-05-08  Ana: The key is under the pot"
    assert second.startswith("  2     –  2026-05-08  Ana: xxx")
    assert second.endswith("x…")
    assert len(second) < 110


def test_a_recall_prints_what_was_missing_and_that_nothing_was_found():
    recall = recall_of(degraded="keyword-only", degraded_reason="no embedder is configured")

    assert str(recall) == "keyword-only: no embedder is configured\nno hits"
    assert "no embedder is configured" in recall._repr_html_()


def test_control_characters_of_a_memory_do_not_reach_the_terminal():
    assert str(recall_of("red \x1b[31m alert\x07")) == "  1     –  2026-05-08  red ·[31m alert·"


def test_a_notebook_shows_a_table_in_which_memory_text_is_escaped():
    html = recall_of("<script>alert(1)</script> & more", speaker='<b onclick="x">')._repr_html_()

    assert html.count("<tr>") == 2
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; more" in html
    assert "<script" not in html
    assert "<b " not in html


def test_the_dict_of_a_recall_has_its_fields_and_no_more():
    assert list(recall_of("x").to_dict()) == [
        "query", "hits", "retrievers", "relevance", "degraded", "degraded_reason", "elapsed_ms", "stages", "dropped",
        "period",
    ]  # fmt: skip
