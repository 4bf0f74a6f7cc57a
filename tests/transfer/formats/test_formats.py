"""Each format recognises its own files and no others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from retentive.errors import Invalid, NotFound
from retentive.transfer.formats import FORMATS, detect_format, find_format
from tests.evaluation.build import write_set
from tests.transfer.formats.samples import (
    a_chatgpt_conversation,
    claude_conversation,
    claude_message,
    code_line,
    write_database,
    write_json,
    write_lines,
    write_zip,
)


def sample(name: str, folder: Path) -> list[Path]:
    """Files of a format."""
    chatgpt = [a_chatgpt_conversation()]
    claude = [claude_conversation(claude_message("a", "human", "Hello"))]
    mem0, memini = {"id": "1", "memory": "x"}, {"content": "x", "tier": "semantic", "namespace": "n"}
    if name == "jsonl":
        header = {"retentive": "memories", "version": 1}
        return [write_lines(folder / "a.jsonl", [header]), write_lines(folder / "b.ndjson", [{"text": "x"}])]
    if name == "chatgpt":
        archive = write_zip(folder / "a.zip", {"conversations.json": json.dumps(chatgpt)})
        return [write_json(folder / "conversations.json", chatgpt), archive, write_json(folder / "b.json", chatgpt[0])]
    if name == "claude":
        archive = write_zip(folder / "a.zip", {"conversations.json": json.dumps(claude)})
        return [write_json(folder / "conversations.json", claude), archive, write_json(folder / "b.json", claude[0])]
    if name == "claude-code":
        lines = [{"type": "summary"}, code_line("1", "user", "x")]
        return [write_lines(folder / "p" / "s.jsonl", lines), folder / "p"]
    if name == "mem0":
        return [write_json(folder / "a.json", [mem0]), write_json(folder / "b.json", {"results": [mem0]})]
    if name == "memini":
        return [write_json(folder / "a.json", [memini]), write_json(folder / "b.json", {"memories": [memini]})]
    if name == "beir":
        return [write_set(folder / "set")]
    if name == "sqlite":
        return [
            write_database(folder / "a.db", "CREATE TABLE episodes (content TEXT); INSERT INTO episodes VALUES ('x')")
        ]
    (folder / "memory").mkdir()
    (folder / "memory" / ("2026-05-08.md" if name == "openclaw" else "note.md")).write_text("Ana called.")
    return [folder] if name == "openclaw" else [folder / "memory", folder / "memory" / "note.md"]


@pytest.mark.parametrize("name", FORMATS)
def test_the_files_of_a_format_are_recognised_and_read(tmp_path, name):
    for path in sample(name, tmp_path):
        assert detect_format(path).name == name, path
        assert list(find_format(name).read(path))


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 100, b"{", b"[]", b"{}", b"[1]", b"PK\x03\x04", b'"text"', b"\xff\xfe"]
)
def test_an_unrecognised_file_is_rejected_with_the_names_of_the_formats(tmp_path, content):
    path = tmp_path / "thing.dat"
    path.write_bytes(content)

    with pytest.raises(Invalid, match="was not recognised; name it with --format: jsonl, chatgpt"):
        detect_format(path)


def test_an_unknown_format_and_a_missing_file_are_named(tmp_path):
    with pytest.raises(Invalid, match="unknown format 'word'; the formats are jsonl, chatgpt"):
        find_format("word")
    with pytest.raises(NotFound, match="there is no"):
        detect_format(tmp_path / "nothing")


@pytest.mark.parametrize("name", FORMATS)
def test_no_format_fails_on_a_file_that_is_not_its_own(tmp_path, name):
    for content in (b"", b"[" * 5000, b"\xff\xfe\0\0", b'{"a": [1, {"b": 2}]}\n[7]\n"x"\n', b'[{"id": 1}, 2, null]'):
        path = tmp_path / "thing.jsonl"
        path.write_bytes(content)
        folder = tmp_path / "set"
        folder.mkdir(exist_ok=True)
        (folder / "corpus.jsonl").write_bytes(content)

        list(find_format(name).read(folder if name == "beir" else path))
