"""Answering a benchmark's questions: prompts, verdicts and sums, against a local server that speaks the protocol."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from bench.answers import __main__ as command
from bench.answers.judging import Question, answer_prompt, judge_prompt, read_verdict, word_f1
from bench.answers.model import ChatModel, ModelError, Usage
from bench.answers.run import Answered, by_category, to_markdown

from tests.evaluation.test_benchmarks import LOCOMO, write
from tests.surfaces.model_server import ModelServer, answers, fails, model_server


def question(category: str = "single-hop", expected: str | None = "a boat") -> Question:
    return Question("q", "What was sold?", category, expected, "conv-1", "02 June 2023")


def answered(category: str, *, correct: bool | None, f1: float | None = None) -> Answered:
    return Answered(question(category), "", correct, f1, 100, 4)


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ("CORRECT", True),
        ("Correct.", True),
        ("wrong", False),
        ("INCORRECT", False),
        ("Correct or wrong?", None),
        ("", None),
    ],
)
def test_a_verdict_is_read_only_if_it_is_clear(reply: str, verdict: bool | None) -> None:
    assert read_verdict(reply) is verdict


def test_f1_compares_stems_without_articles() -> None:
    assert word_f1("The boats", "a boat") == 1.0
    assert word_f1("she sold boats", "a boat") == 2 * 1 / (3 + 1)
    assert word_f1("no information", "a boat") == 0.0


def test_the_judge_gets_the_rule_of_the_category() -> None:
    assert "may differ by one" in judge_prompt(question("temporal-reasoning"), "5 days")[0]["content"]
    told = judge_prompt(question("adversarial", None), "Ana")
    assert "has no answer in the conversations" in told[0]["content"]
    assert "Expected answer: (not known)" in told[1]["content"]
    assert answer_prompt(question())[1]["content"] == "Today is 02 June 2023. Question: What was sold?"


def test_adversarial_questions_have_a_row_but_do_not_count_in_all() -> None:
    done = [
        answered("single-hop", correct=True, f1=0.5),
        answered("single-hop", correct=None, f1=0.0),
        answered("adversarial", correct=False),
    ]
    assert [len(group) for group in by_category(done).values()] == [1, 2, 2]
    assert "| all | 2 | 50.0 (0.0–100.0) | 25.0 | 1 | 100 | 4.0 |" in to_markdown(done)
    assert "| adversarial | 1 | 0.0 (0.0–0.0) | – | 0 | 100 | 4.0 |" in to_markdown(done)


def test_cost_is_tokens_times_the_prices_of_a_million() -> None:
    assert Usage(2, 1_000_000, 500_000).cost((0.15, 0.6)) == pytest.approx(0.15 + 0.3)


def test_a_model_is_asked_again_after_a_passing_failure_but_not_after_a_refusal() -> None:
    with model_server() as server:
        model = ChatModel(server.url, "stand-in")
        server.script = [fails(503, "busy"), answers("yes")]
        assert model.ask([{"role": "user", "content": "?"}]) == "yes"
        server.script = [fails(401, "no such key"), answers("yes")]
        with pytest.raises(ModelError, match="status 401"):
            model.ask([{"role": "user", "content": "?"}])
        assert len(server.calls) == 3
        model.close()


def run_command(server: ModelServer, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    settings = {"LLM_URL": server.url, "LLM_MODEL": "stand-in", "LLM_API_KEY": "sk-1", "EMBEDDER": "none"}
    for name, value in settings.items():
        monkeypatch.setenv(f"RETENTIVE_{name}", value)
    monkeypatch.setattr(sys, "argv", ["bench.answers", *arguments])
    command.main()


def test_the_command_answers_from_the_context_and_prints_verdicts_tokens_and_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, lines = write(tmp_path / "locomo10.json", LOCOMO), tmp_path / "answers.jsonl"
    with model_server() as server:
        replies = ("the boat", "CORRECT", "May", "WRONG", "no information", "CORRECT")
        server.script = [answers(text) for text in replies]
        run_command(server, monkeypatch, str(file), "--price", "1000000", "0", "--json", str(lines))
        first = server.calls[0]
        judged = server.calls[1].body["messages"]
    prompt = "\n".join(message["content"] for message in first.body["messages"])
    assert "I sold the boat." in prompt
    assert prompt.endswith("Today is 02 June 2023. Question: What was sold?")
    assert first.headers["authorization"] == "Bearer sk-1"
    assert judged[1]["content"].endswith("Expected answer: a boat\nAnswer: the boat")
    shown = capsys.readouterr().out
    assert "LoCoMo: 3 of 3 questions, answers by stand-in" in shown
    assert "| multi-hop | 1 | 100.0 (100.0–100.0) | 100.0 |" in shown
    assert "| all | 2 | 50.0 (0.0–100.0) |" in shown
    assert "answers: 3 requests, 3 prompt and 3 completion tokens, cost 3.0000" in shown
    kept = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [one["correct"] for one in kept] == [True, False, True]


def test_a_file_of_another_benchmark_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with model_server() as server, pytest.raises(SystemExit):
        run_command(server, monkeypatch, str(write(tmp_path / "other.json", {"a": 1})))
    assert "is not a file of LoCoMo or LongMemEval" in capsys.readouterr().err
