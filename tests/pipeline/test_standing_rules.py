"""Standing rules: recognised when they are stored, whatever the way in, and given without being similar to a prompt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from time import monotonic

import pytest

from retentive.chat.context import PromptContext, assemble, brief
from retentive.engine import Engine
from retentive.errors import Unavailable
from retentive.inference.judge import RULE_QUERY, LocalJudge, Reading
from retentive.stores import open_store
from retentive.tenancy import ProfileView
from tests.transfer.formats.samples import chatgpt_conversation, chatgpt_node, write_json

RULE = "Never push to the main branch on a Friday."
OTHER = "Always answer me in short sentences."
NONE = "My sister never came to the party."


class Lawyer:
    """A judge to whom everything but what begins with "My" is a rule. What is about pushes helps with commits."""

    name = "lawyer"

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[str]]] = []
        self.failure: Exception | None = None

    def score(self, query: str, readings: Sequence[Reading], *, deadline: float) -> list[float | None]:
        assert deadline > monotonic()
        self.asked.append((query, [one.text for one in readings]))
        if self.failure:
            raise self.failure
        if query == RULE_QUERY:
            return [-4.0 if one.text.startswith("My") else 4.0 for one in readings]
        return [6.0 if "commit" in query and "push" in one.text else -6.0 for one in readings]

    @property
    def ruled(self) -> list[list[str]]:
        return [texts for query, texts in self.asked if query == RULE_QUERY]


@pytest.fixture
def judge() -> Lawyer:
    return Lawyer()


@pytest.fixture(params=["sqlite", "memory"])
def engine(request: pytest.FixtureRequest, tmp_path: Path, judge: Lawyer) -> Iterator[Engine]:
    store = open_store("memory://" if request.param == "memory" else str(tmp_path / "store.db"))
    with Engine(store, None, judge=judge) as opened:
        yield opened


@pytest.fixture
def ada(engine: Engine) -> ProfileView:
    return ProfileView(engine, "default")


def rules(engine: Engine) -> list[str]:
    return [memory.text for memory in engine.list(metadata={"rule": True}).memories]


def told(context: PromptContext) -> list[tuple[str, str]]:
    return [(item.part, item.text) for item in context.items]


def test_what_the_judge_reads_as_a_rule_is_marked_in_one_reading_and_nothing_else(
    engine: Engine, judge: Lawyer
) -> None:
    stored = engine.remember_many(
        [
            {"text": RULE, "metadata": {"from": "Ana"}},
            {"text": NONE},
            {"text": OTHER, "speaker": "assistant"},
            {"text": OTHER, "metadata": {"rule": False}},
            {"text": "The key is under the pot.", "metadata": {"rule": True}},
            {"text": "The tide is high at ten."},
        ]
    )

    assert [dict(one.metadata) for one in stored] == [
        {"from": "Ana", "rule": True}, {}, {}, {"rule": False}, {"rule": True}, {},
    ]  # fmt: skip
    assert judge.ruled == [[RULE, NONE]]
    assert rules(engine) == ["The key is under the pot.", RULE]


@pytest.mark.parametrize(
    "text",
    [
        "Commits schreiben wir immer auf Deutsch.",
        "Ne réponds jamais en anglais.",
        "Responde siempre en español.",
        "Nunca uses emojis nas respostas.",
        "以后不要用表格回答。",
        "I prefer tabs.",
        "We don't use npm here.",
        "From now on it is pnpm.",
    ],
)
def test_rules_are_recognised_in_six_languages(engine: Engine, text: str) -> None:
    assert engine.remember(text).metadata == {"rule": True}


def test_an_update_of_the_text_is_judged_anew_and_a_mark_made_by_hand_stays(engine: Engine) -> None:
    rule, none = engine.remember(RULE, metadata={"from": "Ana"}), engine.remember(NONE)
    by_hand = engine.remember("My keys are on the hook.", metadata={"rule": True})

    assert engine.update(rule.id, text="My keys are never there.").metadata == {"from": "Ana"}
    assert engine.update(none.id, text=RULE).metadata == {"rule": True}
    assert engine.update(none.id, importance=0.9).metadata == {"rule": True}
    assert engine.update(none.id, text=OTHER, metadata={"rule": False}).metadata == {"rule": False}
    assert engine.update(by_hand.id, text="My keys are on the table.").metadata == {"rule": True}


def test_without_a_judge_nothing_is_marked_and_a_judge_that_is_missing_fails_no_write(
    engine: Engine, judge: Lawyer, caplog: pytest.LogCaptureFixture
) -> None:
    with Engine(open_store("memory://")) as plain:
        assert plain.remember(RULE).metadata == {}
    judge.failure = Unavailable("no model")
    assert engine.remember(RULE).metadata == {}
    assert "no model" in caplog.text


def test_a_key_or_a_repeated_text_gives_the_memory_that_was_stored(engine: Engine, judge: Lawyer) -> None:
    first = engine.remember_many([{"text": RULE}], idempotency_key="k")

    judge.failure = Unavailable("no model")
    assert engine.remember_many([{"text": RULE}], idempotency_key="k") == first
    assert engine.remember(RULE, on_duplicate="count").metadata == {"rule": True, "repeats": 1}
    assert rules(engine) == [RULE]


def test_an_import_marks_rules_of_users_and_an_export_keeps_what_is_marked(
    engine: Engine, judge: Lawyer, tmp_path: Path
) -> None:
    talk = chatgpt_conversation(
        chatgpt_node("a", "root", "user", RULE),
        chatgpt_node("b", "a", "assistant", OTHER),
        chatgpt_node("c", "b", "user", NONE),
    )
    assert engine.import_from(write_json(tmp_path / "conversations.json", [talk])).added == 3

    assert rules(engine) == [RULE]
    assert judge.ruled == [[RULE, NONE]]

    engine.export_to(tmp_path / "out.jsonl")
    with Engine(open_store("memory://"), judge=judge) as other:
        other.import_from(tmp_path / "out.jsonl")
        assert rules(other) == [RULE]
    assert len(judge.ruled) == 1


def test_a_session_begins_with_the_newest_rules_of_its_project_and_of_none(ada: ProfileView, engine: Engine) -> None:
    ada.remember([{"text": f"Never do thing {at}.", "project": "boat"} for at in range(20)])
    ada.remember([{"text": OTHER}, {"text": "Never in the house.", "project": "house"}])
    [retired] = ada.remember([{"text": "Never at all.", "project": "boat"}])
    engine.retract(retired.id)
    ada.remember([{"text": "Always be brief.", "project": "boat", "kind": "semantic"} for _ in range(2)])
    ada.remember([{"text": "The boat has two masts.", "project": "boat", "kind": "semantic"}])
    ada.remember([{"text": "My name is Ada.", "kind": "identity"}])

    found = brief(ada, project="boat")

    newest = ["Always be brief.", OTHER, *(f"Never do thing {at}." for at in range(19, 9, -1))]
    assert told(found) == [
        *(("rules", text) for text in newest),
        ("identity", "My name is Ada."),
        ("facts", "The boat has two masts."),
    ]
    assert '{"note": "rule"' in found.text
    assert [text for part, text in told(brief(ada)) if part == "rules"] == [OTHER]


def test_rules_take_at_most_a_third_of_the_budget_of_a_briefing(ada: ProfileView) -> None:
    ada.remember([{"text": f"Never do thing number {at}, whatever anybody says about it."} for at in range(12)])
    found = brief(ada, budget=600)
    assert found.items
    assert sum(item.tokens for item in found.items) <= 200
    assert found.left_out_counts == {"budget": 12 - len(found.items)}


def test_a_prompt_is_given_the_rules_that_the_judge_finds_for_it_whatever_their_words(
    ada: ProfileView, engine: Engine, judge: Lawyer
) -> None:
    ada.remember(
        [{"text": RULE, "project": "shop"}, {"text": OTHER}, {"text": "No push to the house.", "project": "house"}]
    )
    ada.remember([{"text": f"apple {at}", "project": "shop"} for at in range(40)])
    judge.asked.clear()

    found = assemble(ada, "commit the changes", project="shop", parts=["recalled"])

    assert told(found) == [("rules", RULE)]
    assert '"note": "rule"' in found.text
    assert found.judged == 2
    assert found.relevance == found.items[0].relevance > 0.5
    assert told(assemble(ada, "what is for dinner?", project="shop")) == []
    assert told(assemble(ada, "commit it", project="shop", parts=["identity"])) == []
    assert told(assemble(ada, "commit it", project="shop", exclude=[found.items[0].memory.id])) == []
    assert told(assemble(ada, "commit it", project="shop", tuning={"judge": "off"})) == []
    assert told(assemble(ada, "commit it", project="house")) == [("rules", "No push to the house.")]
    assert not judge.ruled


def test_a_rule_that_is_a_hit_is_read_and_given_once_and_of_many_only_the_newest_are_read(
    ada: ProfileView, judge: Lawyer
) -> None:
    ada.remember([{"text": f"Never push apple {at} without care."} for at in range(60)])
    judge.asked.clear()

    found = assemble(ada, "commit the apple", budget=20_000)

    read = [text for _, texts in judge.asked for text in texts]
    assert len(read) == len(set(read)) == found.judged == 50  # 20 hits, and 30 other rules
    assert len(found.items) == len({item.memory.id for item in found.items}) == 50


def test_the_judge_that_comes_with_the_package_knows_clear_rules_from_clear_facts() -> None:
    rules = [
        Reading("From now on, always answer me in German.", "user"),
        Reading("Always run the linter before you commit.", "user"),
        Reading("Don't ever delete files without asking me.", "user"),
    ]
    facts = [
        Reading("The train to Bern leaves at 7:42."),
        Reading("My sister never came to the party in May.", "user"),
        Reading("I only bought two apples yesterday.", "user"),
    ]
    logits = LocalJudge().score(RULE_QUERY, [*rules, *facts], deadline=monotonic() + 600)
    assert [logit is not None and logit > 0 for logit in logits] == [True] * 3 + [False] * 3
