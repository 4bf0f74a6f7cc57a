"""Exports of mem0, memini and OpenClaw, and evaluation sets, with a report of what is not imported."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from retentive.engine import Engine
from retentive.stores import open_store
from retentive.transfer.formats.base import JudgementEntry
from retentive.transfer.formats.beir import Beir
from retentive.transfer.formats.mem0 import Mem0
from retentive.transfer.formats.memini import Memini
from retentive.transfer.formats.openclaw import OpenClaw
from tests.evaluation.build import MEMORY_LINES, write_set
from tests.transfer.formats.samples import entries, items, reasons, texts, truncated, warnings, write_json

FACT = {
    "id": "f1", "memory": "Sam prefers morning meetings", "user_id": "sam", "run_id": "r1", "hash": "…",
    "metadata": {"type": "preference"}, "categories": ["work"], "created_at": "2026-05-08T13:56:00.5-07:00",
    "updated_at": None,
}  # fmt: skip
NOTE = {
    "id": "n1", "namespace": "acme/phoenix", "tier": "procedural", "content": "Deploy with make ship", "tags": ["ops"],
    "metadata": {"by": "sam"},
    "importance": 0.7, "created_at": "2026-05-08T13:56:00Z", "expires_at": "2026-08-01T00:00:00Z",
}  # fmt: skip


@pytest.mark.parametrize("wrap", [lambda it: [it], lambda it: {"results": [it]}, lambda it: {"memories": [it]}])
def test_a_fact_of_mem0_keeps_its_user_run_time_and_metadata(tmp_path, wrap):
    path = write_json(tmp_path / "mem0.json", wrap(FACT))

    (item,) = items(entries(Mem0(), path))

    assert Mem0().recognises(path)
    assert item.person == "sam"
    assert item.draft == {
        "text": "Sam prefers morning meetings",
        "session": "mem0:r1",
        "kind": "semantic",
        "occurred": datetime(2026, 5, 8, 20, 56, 0, 500_000, UTC),
        "source": "mem0:f1",
        "metadata": {"type": "preference", "categories": ["work"], "user_id": "sam", "run_id": "r1"},
    }


def test_unknown_fields_of_mem0_are_reported(tmp_path):
    odd = {"memory": "x", "mood": "good", "created_at": "soon", "metadata": {"memory_type": "episodic_memory"}}

    found = entries(Mem0(), write_json(tmp_path / "a.json", {"results": [odd, {"id": "1"}, 7], "relations": [1]}))

    assert [item.draft["kind"] for item in items(found)] == ["episodic"]
    assert warnings(found) == [
        "unknown fields left out: mood", "no valid time", "'relations' is not read",
    ]  # fmt: skip
    assert reasons(found) == ["no text: 'memory' is missing", "a JSON object was expected, not int"]


@pytest.mark.parametrize("wrap", [lambda it: [it], lambda it: {"memories": [it], "links": [{"src": "a"}]}])
def test_a_memory_of_memini_keeps_its_namespace_tier_importance_and_tags(tmp_path, wrap):
    path = write_json(tmp_path / "memini.json", wrap(NOTE))

    (item,) = items(entries(Memini(), path))

    assert Memini().recognises(path)
    assert item.draft == {
        "text": "Deploy with make ship",
        "project": "acme/phoenix",
        "kind": "semantic",
        "importance": 0.7,
        "occurred": datetime(2026, 5, 8, 13, 56, tzinfo=UTC),
        "source": "memini:n1",
        "metadata": {"by": "sam", "tier": "procedural", "tags": ["ops"]},
        "expires": datetime(2026, 8, 1, tzinfo=UTC),
    }


@pytest.mark.parametrize(
    ("text", "rest"), [("memory", {"expiration_date": "2030-01-31"}), ("content", {"tier": "semantic"})]
)
def test_what_replaced_a_memory_of_mem0_or_memini_is_read_in_whatever_comes_first(tmp_path, text, rest):
    old = {"id": "old", text: "lives in Paris", "created_at": "2024-01-01T00:00:00Z", "superseded_by": "new", **rest}
    new = {"id": "new", text: "lives in Berlin", "created_at": "2025-01-01T00:00:00Z", "valid_to": "2026-01-01", **rest}
    with Engine(open_store("memory://")) as engine:
        engine.import_from(write_json(tmp_path / "export.json", [old, new]))
        first, second = sorted(engine.list(include_retired=True).memories, key=lambda one: one.start)
        engine.import_from(tmp_path / "export.json")
        assert len(engine.list(include_retired=True).memories) == 2
    assert (first.superseded_by, first.valid_to) == (second.id, second.start)
    assert second.valid_to == datetime(2026, 1, 1, tzinfo=UTC)
    assert first.expires == (datetime(2030, 2, 1, tzinfo=UTC) if text == "memory" else None)


def test_unknown_fields_of_memini_are_reported(tmp_path):
    odd = {"content": "x", "tier": "dream", "importance": 7, "colour": "red", "namespace": 3}

    found = entries(Memini(), write_json(tmp_path / "a.json", {"memories": [odd, {}], "links": []}))

    assert [item.draft["project"] for item in items(found)] == ["3"]
    assert warnings(found) == [
        "unknown fields left out: colour", "the unknown tier 'dream' was read as episodic", "'links' is not read",
    ]  # fmt: skip
    assert reasons(found) == ["no text: 'content' is missing"]


def test_a_workspace_of_openclaw_has_evergreen_memories_and_days(tmp_path):
    for name, text in {
        "MEMORY.md": "# Facts\n\nThe spare key is under the blue pot.\n",
        "AGENTS.md": "You are an agent.",
        "memory/2026-05-08.md": "# Morning\n\nAna called.\n\n# Evening\n\nThe plumber came.\n",
        "memory/2026-05-09-reset.md": "Session notes.",
        "memory/projects/boat.md": "The boat is called Freya.",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    found = entries(OpenClaw(), tmp_path)
    by_file = {item.draft["source"].partition("#")[0]: item.draft for item in items(found)}

    assert OpenClaw().recognises(tmp_path)
    assert by_file["MEMORY.md"]["evergreen"] is True
    assert "occurred" not in by_file["MEMORY.md"]
    evening = by_file["memory/2026-05-08.md"]
    assert (evening["session"], evening["position"], evening["kind"]) == ("openclaw:2026-05-08", 1, "episodic")
    assert evening["occurred"] == datetime(2026, 5, 8, tzinfo=UTC)
    assert "evergreen" not in evening
    assert by_file["memory/2026-05-09-reset.md"]["occurred"] == datetime(2026, 5, 9, tzinfo=UTC)
    assert by_file["memory/projects/boat.md"]["evergreen"] is True
    assert reasons(found) == ["not a memory file of OpenClaw"]


def test_notes_of_a_day_in_two_folders_of_openclaw_are_two_sessions(tmp_path):
    for name in ("memory/2026-05-08.md", "memory/boat/2026-05-08.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)

    sessions = [item.draft["session"] for item in items(entries(OpenClaw(), tmp_path))]

    assert sessions == ["openclaw:2026-05-08", "openclaw:boat/2026-05-08"]


def test_an_evaluation_set_has_its_documents_and_their_judgements(tmp_path):
    folder = write_set(tmp_path / "set")

    found = entries(Beir(), folder)

    assert Beir().recognises(folder)
    assert [item.key for item in items(found)] == [line["_id"] for line in MEMORY_LINES]
    judged = [entry for entry in found if isinstance(entry, JudgementEntry)]
    assert judged
    assert all(one.item is not None and one.judgement.query for one in judged)


def test_invalid_lines_of_an_evaluation_set_are_skipped_and_reported(tmp_path):
    corpus = [MEMORY_LINES[0], "{", {"_id": "x"}, {"text": "no id"}, MEMORY_LINES[1]]
    folder = write_set(tmp_path / "set", corpus=corpus, qrels="q1\ta1\t2\nq1\tgone\t1\nnobody\ta1\t1\nq1\ta1\n")

    found = entries(Beir(), folder)

    assert len(texts(found)) == 2
    assert len(reasons(found)) == 5
    assert "expected query-id, corpus-id and score" in truncated(found)[0]
