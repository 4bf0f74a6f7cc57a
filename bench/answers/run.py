"""Asks the questions of a benchmark, and collects the answers and the verdicts by category."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bench.answers.judging import ADVERSARIAL, Question, answer_prompt, judge_prompt, read_verdict, word_f1
from bench.answers.model import ChatModel
from bench.answers.service import ContextService
from bench.peers.table import pipes
from retentive.evaluation.benchmarks import Benchmark
from retentive.evaluation.statistics import intervals
from retentive.transfer.formats.beir import BeirQuery

ALL = "all"


@dataclass(frozen=True, slots=True)
class Answered:
    """A question with the model's answer and the judge's verdict; None if the verdict could not be read."""

    question: Question
    answer: str
    correct: bool | None
    f1: float | None
    context_tokens: int
    memories: int

    def to_dict(self) -> dict[str, Any]:
        """This as plain values."""
        return asdict(self)


def questions(benchmark: Benchmark) -> list[tuple[BeirQuery, Question]]:
    """Return all questions of a benchmark that have an expected answer, or none in the memories."""
    found = []
    for query in benchmark.queries:
        date = query.asked_at.strftime("%d %B %Y") if query.asked_at else None
        expected = benchmark.answers.get(query.id)
        question = Question(query.id, query.text, query.category or "", expected, query.project, date)
        if expected is not None or question.unanswerable:
            found.append((query, question))
    return found


def answer_all(
    asked: Sequence[tuple[BeirQuery, Question]],
    service: ContextService,
    model: ChatModel,
    judge: ChatModel,
    *,
    budget: int,
    advance: Callable[[int], None] = lambda done: None,
) -> Iterator[Answered]:
    """Answer questions one after the other."""
    for query, question in asked:
        context = service.context(question.text, project=question.project, asked_at=query.asked_at, budget=budget)
        rules, last = answer_prompt(question)
        answer = model.ask([rules, *context["messages"], last])
        verdict = read_verdict(judge.ask(judge_prompt(question, answer)))
        f1 = None if question.unanswerable or question.expected is None else word_f1(answer, question.expected)
        yield Answered(question, answer, verdict, f1, context["tokenCount"], len(context["items"]))
        advance(1)


def by_category(answered: Sequence[Answered]) -> Mapping[str, Sequence[Answered]]:
    """Return the answers of each category, then all of them; LoCoMo's adversarial ones are not among all."""
    groups: dict[str, list[Answered]] = {}
    for one in answered:
        groups.setdefault(one.question.category, []).append(one)
    counted = [one for one in answered if one.question.category != ADVERSARIAL]
    return dict(sorted(groups.items())) | ({ALL: counted} if counted else {})


def to_markdown(answered: Sequence[Answered]) -> str:
    """Return a table with a row for each category. A verdict that could not be read counts as wrong."""

    def row(name: str, group: Sequence[Answered]) -> Iterator[str]:
        verdicts = np.array([float(one.correct is True) for one in group])
        low, high = intervals({"correct": verdicts})["correct"]
        f1 = [one.f1 for one in group if one.f1 is not None]
        yield name
        yield str(len(group))
        yield f"{100 * verdicts.mean():.1f} ({100 * low:.1f}–{100 * high:.1f})"
        yield f"{100 * float(np.mean(f1)):.1f}" if f1 else "–"
        yield str(sum(one.correct is None for one in group))
        yield f"{np.mean([one.context_tokens for one in group]):,.0f}"
        yield f"{np.mean([one.memories for one in group]):.1f}"

    columns = ("", "n", "judged right, %", "F1, %", "no verdict", "context tokens", "memories")
    return pipes(columns, (row(name, group) for name, group in by_category(answered).items()))
