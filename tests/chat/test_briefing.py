"""The context of a new session, and which parts of a context are asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from retentive.chat.context import PromptContext, assemble, brief
from retentive.engine import Engine
from retentive.tenancy import ProfileView


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine.open("memory://", embedder="none") as opened:
        yield opened


@pytest.fixture
def ada(engine: Engine) -> ProfileView:
    return ProfileView(engine, "ada")


def told(context: PromptContext) -> list[tuple[str, str]]:
    return [(item.part, item.text) for item in context.items]


def test_a_briefing_has_identity_facts_of_the_project_and_the_end_of_its_last_session(ada: ProfileView) -> None:
    ada.remember([{"text": "Ada sails", "kind": "identity"}])
    ada.remember([{"text": "a fact of another project", "kind": "semantic", "project": "music"}])
    for text, importance in (("a small fact", 0.2), ("a great fact", 0.9)):
        ada.remember([{"text": text, "kind": "semantic", "project": "boat", "importance": importance}])
    for session in ("first", "second", "now"):
        ada.remember([{"text": f"{session} {at}", "project": "boat", "session": session} for at in range(3)])

    found = brief(ada, project="boat", session="now", recent=2)

    assert told(found) == [
        ("identity", "Ada sails"),
        ("facts", "a great fact"),
        ("facts", "a small fact"),
        ("recent", "second 1"),
        ("recent", "second 2"),
    ]
    assert told(brief(ada, project="unknown")) == [("identity", "Ada sails")]
    assert brief(ProfileView(ada.engine, "bo"), project="boat").text == ""
    assert brief(ada, project="boat", budget=0).text == ""


def test_a_context_has_only_the_parts_asked_for_and_leaves_out_what_the_session_has(ada: ProfileView) -> None:
    ada.remember([{"text": "Ada likes llamas", "kind": "identity"}])
    ada.remember([{"text": "the llama said in this session", "session": "now"}])
    (before, other) = ada.remember([{"text": f"a llama {at}", "session": "before"} for at in range(2)])

    def recalled(**options: object) -> list[str]:
        options |= {"session": "now", "everywhere": True, "parts": ["recalled"], "tuning": {"judge": "off"}}
        found = assemble(ada, "llama", **options)  # type: ignore[arg-type]
        assert {part for part, _ in told(found)} <= {"recalled"}
        return sorted(text for _, text in told(found))

    assert "the llama said in this session" in recalled()
    assert recalled(exclude_session=True) == ["Ada likes llamas", before.text, other.text]
    assert recalled(exclude_session=True, exclude=[before.id]) == ["Ada likes llamas", other.text]
