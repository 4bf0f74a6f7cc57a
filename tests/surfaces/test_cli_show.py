"""What the command line shows in a terminal."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from retentive import Engine
from retentive.cli import show


def shown(monkeypatch: pytest.MonkeyPatch, query: str, *, terminal: bool) -> str:
    output = StringIO()
    monkeypatch.setattr(show, "console", Console(file=output, force_terminal=terminal, no_color=True, width=80))
    with Engine.open("memory://", embedder="none") as engine:
        engine.remember("The plumber comes on Monday at nine")
        answer = engine.recall(query)
        assert len(answer) == 1
        show.recall(answer, explain=False, ids={hit.id: hit.id for hit in answer})
    return output.getvalue()


def test_a_terminal_says_when_probably_nothing_relevant_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    weak = "did Dmitri phone the Hungarian embassy about Monday?"

    assert "probably nothing stored answers this (relevance " in shown(monkeypatch, weak, terminal=True)
    assert "probably" not in shown(monkeypatch, weak, terminal=False)
    assert "probably" not in shown(monkeypatch, "when does the plumber come?", terminal=True)
