"""Retentive's own export format: complete, truncated, and written by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest

from retentive.engine import Engine
from retentive.errors import Invalid
from retentive.stores.values import Judgement
from retentive.transfer.formats.base import JudgementEntry, SettingEntry, StoredMemory
from retentive.transfer.formats.jsonl import Jsonl, end_line, header_line, judgement_line, memory_line, setting_line
from tests.stores.build import MODEL, NOW, memory, rows, vector
from tests.transfer.formats.samples import entries, items, reasons, texts, truncated, warnings, write_lines

HEADER = header_line(profile=None, model=MODEL, vectors=True, at=NOW)
A = memory(1, "Der Schlüssel \u2028 liegt 🔑", speaker="Ana", session="s", position=4, metadata={"a": [1, {"b": None}]})
SAID = Judgement("where is the key?", A.id, 3, NOW, project="home", asked_at=NOW)
LINES = [
    HEADER,
    memory_line(A, rows(vector(1), vector(2))),
    memory_line(memory(2), None),
    judgement_line(SAID),
    setting_line("tuning", '{"rrf_k": 7}'),
    end_line({"memories": 2, "judgements": 1, "kept": 1}),
]


WHOLE = LINES[2]["memory"]
NEEDED = ("id", "created", "profile")


def without(name: str) -> dict[str, object]:
    return {key: value for key, value in WHOLE.items() if key != name}


def read(tmp_path, lines):
    return entries(Jsonl(), write_lines(tmp_path / "memories.jsonl", lines))


def test_what_is_written_is_read_back(tmp_path):
    one, two, said, kept = read(tmp_path, LINES)

    assert isinstance(one, StoredMemory)
    assert one.memory == A._replace(content_hash=one.memory.content_hash)
    assert one.model == MODEL
    assert np.array_equal(one.vectors, rows(vector(1), vector(2)).astype(np.float16).astype(np.float32))
    assert (two.memory.text, two.vectors) == ("note number2", None)
    assert isinstance(said, JudgementEntry)
    assert said.judgement == SAID
    assert isinstance(kept, SettingEntry)
    assert (kept.name, kept.value) == ("tuning", '{"rrf_k": 7}')


def test_a_file_truncated_anywhere_is_read_up_to_there_and_reported(tmp_path):
    path = write_lines(tmp_path / "memories.jsonl", LINES)
    data = path.read_bytes()
    ends = [at for at, byte in enumerate(data) if byte == 10]

    for end in [*ends[:-1], *(at + 7 for at in ends[:-1]), len(data) - 10]:
        path.write_bytes(data[:end])
        found = entries(Jsonl(), path)
        assert len(texts(found)) == min(2, max(0, data[: end + 1].count(b"\n") - 1))
        assert truncated(found), end


def test_missing_lines_are_detected_by_the_counts(tmp_path):
    found = read(tmp_path, [LINES[0], LINES[2], LINES[5]])

    assert truncated(found) == [
        "2 memories were written, 1 were read: lines are missing",
        "1 judgements were written, 0 were read: lines are missing",
        "1 kept were written, 0 were read: lines are missing",
    ]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "not JSON"),
        ("7", "a JSON object was expected"),
        ({"prophecy": {}}, "a line of the unknown kind 'prophecy'"),
        ({"memory": 3}, "not a valid line of this version"),
        *(({"memory": without(name)}, f"not a valid line of this version (KeyError('{name}')") for name in NEEDED),
        ({"memory": {**WHOLE, "id": "1"}}, "id: '1' is not a UUID"),
        ({"memory": {**WHOLE, "text": ""}}, "text: a memory needs some text"),
        ({"memory": {**WHOLE, "halo": 1}}, "unknown field 'halo'"),
        ({"memory": {**WHOLE, "access_count": -1}}, "access_count"),
        ({"memory": {**WHOLE, "created": "soon"}}, "created: 'soon' is not a time"),
        ({**LINES[1], "vectors": "AAAA"}, "vectors: not rows of 16 numbers"),
        ({**LINES[1], "vectors": "?"}, "vectors: not rows of 16 numbers"),
        (memory_line(A, rows(vector(1) * 100)), "vectors: some are not of length 1"),
        (memory_line(A, rows(vector(1) * 0)), "vectors: some are not of length 1"),
        ({**LINES[1], "vectors": ""}, "vectors: some numbers are not finite, or there are none"),
        ({"judgement": {**LINES[3]["judgement"], "relevance": 9}}, "relevance"),
        ({"judgement": {"query": "x"}}, "not a valid line of this version"),
    ],
)
def test_an_invalid_line_is_skipped_with_its_reason(tmp_path, line, says):
    found = read(tmp_path, [HEADER, line, LINES[2], {"end": {}}])

    assert texts(found) == ["note number2"]
    assert says in reasons(found)[0]


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ({"retentive": "memories", "version": 2}, "of a newer Retentive"),
        ({"retentive": "dreams", "version": 1}, "not an export of memories"),
        ({**HEADER, "model": {"name": "x"}}, "model in the header is not valid"),
        ({**HEADER, "model": {**MODEL.to_dict(), "name": {"a": 1}}}, "model in the header is not valid"),
        ({**HEADER, "model": {**MODEL.to_dict(), "fingerprint": "\ud83d"}}, "model in the header is not valid"),
        ({**HEADER, "model": {**MODEL.to_dict(), "dimension": "16"}}, "model in the header is not valid"),
    ],
)
def test_a_header_that_cannot_be_read_is_an_error(tmp_path, header, says):
    with pytest.raises(Invalid, match=says):
        read(tmp_path, [header, *LINES[1:]])


def test_concatenated_files_are_each_read_by_their_own_header(tmp_path):
    other = {**MODEL.to_dict(), "fingerprint": "another"}
    end = end_line({"memories": 1, "judgements": 0, "kept": 0})
    found = read(tmp_path, [*LINES, {**HEADER, "model": other}, LINES[1], end])

    assert [
        entry.model.fingerprint for entry in found if isinstance(entry, StoredMemory) and entry.vectors is not None
    ] == [
        MODEL.fingerprint,
        "another",
    ]
    assert reasons(found) == truncated(found) == []


def test_an_invalid_header_of_an_appended_file_ends_the_reading(tmp_path):
    found = read(tmp_path, [*LINES[:2], {**HEADER, "version": 2}, LINES[2]])

    assert [entry.memory.id for entry in found if isinstance(entry, StoredMemory)] == [A.id]
    incomplete, newer = truncated(found)
    assert "no last line" in incomplete
    assert "newer Retentive" in newer


def test_lines_without_a_header_are_read_as_they_are_remembered(tmp_path):
    lines = [{"text": "a", "speaker": "Ana", "profile": "x"}, {"text": "b", "id": "7"}, {"text": "c", "halo": 1}]

    found = read(tmp_path, lines)

    assert [item.draft for item in items(found)] == [{"text": "a", "speaker": "Ana"}, {"text": "b"}]
    assert items(found)[1].key == "7"
    assert reasons(found) == ["unknown field 'halo'"]


def test_a_text_in_several_places_is_as_many_memories_and_replacements_are_named_by_the_ids_of_the_file(tmp_path):
    lines = [
        {"text": "ok", "project": "a", "session": "s"}, {"text": "ok", "project": "b", "session": "s"}, {"text": "ok"},
        {"text": "Paris", "id": "1", "valid_to": "2026-01-01", "superseded_by": "2"}, {"text": "Berlin", "id": "2"},
    ]  # fmt: skip
    path = tmp_path / "plain.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    with Engine.open("memory://", embedder="none") as engine:
        assert engine.import_from(path).added == 5
        assert engine.import_from(path).added == 0
        memories = {memory.text: memory for memory in engine.list(include_retired=True).memories}
        assert memories["Paris"].superseded_by == memories["Berlin"].id


def test_other_encodings_are_read_and_invalid_bytes_are_reported(tmp_path):
    path = tmp_path / "memories.jsonl"
    line = json.dumps({"text": "Grüße"}, ensure_ascii=False) + "\n"

    for encoding in ("utf-8-sig", "utf-16"):
        path.write_bytes(line.encode(encoding))
        assert texts(entries(Jsonl(), path)) == ["Grüße"]
    path.write_bytes(line.encode("latin-1"))
    found = entries(Jsonl(), path)
    assert texts(found) == ["Gr\ufffd\ufffde"]
    assert warnings(found) == ["invalid UTF-8 was replaced"]


def test_a_file_written_before_the_project_was_renamed_is_read(tmp_path):
    header = {("recollect" if name == "retentive" else name): value for name, value in HEADER.items()}
    judged = {("question" if name == "query" else name): value for name, value in LINES[3]["judgement"].items()}

    found = read(tmp_path, [header, *LINES[1:3], {"judgement": judged}, *LINES[4:]])

    assert texts(found) == texts(read(tmp_path, LINES))
    assert [entry.judgement for entry in found if isinstance(entry, JudgementEntry)] == [SAID]
    assert truncated(found) == reasons(found) == []
    path = write_lines(tmp_path / "before.jsonl", [header])
    assert Jsonl().recognises(path)
