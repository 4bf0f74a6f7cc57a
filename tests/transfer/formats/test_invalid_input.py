"""Whatever a file holds, an import ends: with memories, with reasons, and without an exception."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retentive.stores import open_store
from retentive.transfer.formats import find_format
from retentive.transfer.formats.jsonl import header_line
from retentive.transfer.importing.importer import ImportTarget, file_source, import_source
from retentive.transfer.importing.log import Imports
from tests.stores.build import MODEL, NOW
from tests.transfer.formats.samples import (
    a_chatgpt_conversation,
    claude_conversation,
    claude_message,
    code_line,
)

STRANGE = st.sampled_from(
    [None, True, 0, -1, 1.5, 10**40, "", " ", "x", "\ud800", "\0", "user", "2026-13-99", [], {}, [[]],
     {"a": {"b": []}}, "9" * 600]
)  # fmt: skip
MEMORY = {
    "id": "01900000-0000-7000-8000-0000000000d1",
    "text": "x",
    "profile": "p",
    "created": "2026-05-08",
    "session": "s",
}
JUDGED = {
    "query": "q",
    "memory": MEMORY["id"],
    "relevance": 1,
    "created": "2026-05-08",
    "profile": "p",
    "project": None,
}
WHOLE: dict[str, list[Any]] = {
    "chatgpt": [a_chatgpt_conversation()],
    "claude": [claude_conversation(claude_message("a", "human", "Hello"))],
    "claude-code": [code_line("1", "user", "hello"), code_line("2", "assistant", [{"type": "text", "text": "x"}])],
    "mem0": [{"id": "f1", "memory": "x", "user_id": "sam", "run_id": "r", "metadata": {"a": 1}, "created_at": 7}],
    "memini": [{"id": "n1", "namespace": "a", "tier": "semantic", "content": "x", "tags": ["t"], "importance": 0.5}],
    "jsonl": [
        header_line(profile=None, model=MODEL, vectors=True, at=NOW),
        {"memory": MEMORY},
        {"judgement": JUDGED},
        {"kept": {"name": "tuning", "value": "{}"}},
        {"end": {"memories": 1, "judgements": 1, "kept": 1}},
    ],
    "beir": [{"_id": "d", "title": "t", "text": "x", "metadata": {"project": "p", "session": "s", "speaker": "A"}}],
}  # fmt: skip
LINES = ("claude-code", "jsonl", "beir")


def spoiled(draw: Callable[[Any], Any], value: Any) -> Any:
    """A value with one thing in it replaced by something strange, or taken away."""
    if isinstance(value, dict) and value and draw(st.integers(0, 4)):
        key = draw(st.sampled_from(sorted(value)))
        if not draw(st.integers(0, 5)):
            return {name: one for name, one in value.items() if name != key}
        return {**value, key: spoiled(draw, value[key])}
    if isinstance(value, list) and value and draw(st.integers(0, 4)):
        at = draw(st.integers(0, len(value) - 1))
        return [*value[:at], spoiled(draw, value[at]), *value[at + 1 :]]
    return draw(STRANGE)


@st.composite
def spoiled_files(draw: Callable[[Any], Any], name: str) -> bytes:
    """A file of a format in which up to three things are wrong, and which may be cut off."""
    whole = json.loads(json.dumps(WHOLE[name]))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(1 if name == "jsonl" else 0, len(whole) - 1))
        whole[at] = spoiled(draw, whole[at])
    written = "\n".join(map(json.dumps, whole)) + "\n" if name in LINES else json.dumps(whole)
    return written.encode()[: draw(st.sampled_from([None, None, None, -1, -20]))]


@pytest.mark.parametrize("name", WHOLE)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_spoiled_file_is_imported_as_far_as_it_makes_sense_and_taken_back(name, data):
    content = data.draw(spoiled_files(name))
    store = open_store("memory://")
    told: list[object] = []

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("corpus.jsonl" if name == "beir" else "file.jsonl")
        path.write_bytes(content)
        place = Path(folder) if name == "beir" else path
        done, again = (
            import_source(
                store,
                None,
                file_source(find_format(name), place),
                target=ImportTarget("p"),
                clock=lambda: NOW,
                report=told.append,
            )
            for _ in range(2)
        )

    json.dumps(done.to_dict(), ensure_ascii=False).encode()
    assert (again.added, again.existing) == (0, done.added + done.existing)
    assert done.added == store.stats().memories
    for run in Imports(store).list():
        Imports(store).undo(run.id)
    assert store.stats().memories == 0
    assert store.list_values("") == {}
