"""The two protocols: what the model is asked, what the judge is asked, and how its verdict is read.

LoCoMo asks for a short answer and measures F1 of its words; most published figures are of a judge instead, which
accepts an answer that says the same in other words. LongMemEval has a judge with a rule for each type of question. The
wording here is ours, so figures are comparable with published ones only roughly.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import Stemmer

ADVERSARIAL = "adversarial"
ABSTENTION = "-abstention"

_RULES = {
    "temporal-reasoning": "A number of days, weeks or months may differ by one.",
    "knowledge-update": "An older value may be told as well, if the answer gives the newest one as the present one.",
    "single-session-preference": "The expected answer describes what suits the user. The answer is right if it uses "
    "what is known of the user; it need not cover everything.",
}
"""What the judge of LongMemEval is told for some types of question."""

_ARTICLES = {"a", "an", "the", "and"}
_WORD = re.compile(r"\w+")
_STEM = Stemmer.Stemmer("porter")


@dataclass(frozen=True, slots=True)
class Question:
    """A question of a benchmark. `expected` is None if the memories have no answer."""

    id: str
    text: str
    category: str
    expected: str | None
    project: str | None
    date: str | None

    @property
    def unanswerable(self) -> bool:
        """Whether the right answer is that nothing is known."""
        return self.category == ADVERSARIAL or self.category.endswith(ABSTENTION)


def answer_prompt(question: Question) -> list[dict[str, str]]:
    """Return the messages around the context: what the model is told before it, and the question."""
    rules = (
        "You answer a question from notes about earlier conversations. Use only the notes. Answer with a short phrase, "
        "in the words of the notes where you can. Give a date as a date, not relative to another day. If the notes do "
        "not have the answer, say: no information."
    )
    asked = f"Today is {question.date}. " if question.date else ""
    return [{"role": "system", "content": rules}, {"role": "user", "content": f"{asked}Question: {question.text}"}]


def judge_prompt(question: Question, answer: str) -> list[dict[str, str]]:
    """Return the messages for the judge."""
    if question.unanswerable:
        rule = "The question has no answer in the conversations. The answer is right if it says that this is not known."
        expected = "(not known)"
    else:
        rule = "The answer is right if it has what the expected answer has, in whatever words and with whatever more. "
        rule += _RULES.get(question.category, "A date is right if it is the same day, month or year, however written.")
        expected = question.expected or ""
    told = f"Question: {question.text}\nExpected answer: {expected}\nAnswer: {answer}"
    system = f"You judge an answer. {rule} Reply with one word: CORRECT or WRONG."
    return [{"role": "system", "content": system}, {"role": "user", "content": told}]


def read_verdict(reply: str) -> bool | None:
    """Return whether the judge accepts the answer; None if its reply says neither or both."""
    words = {word for word in _WORD.findall(reply.upper()) if word in ("CORRECT", "WRONG", "INCORRECT")}
    if words == {"CORRECT"}:
        return True
    return False if words and "CORRECT" not in words else None


def word_f1(answer: str, expected: str) -> float:
    """Return the F1 of the stems of two answers, without articles, as LoCoMo computes it."""
    ours, theirs = Counter(_stems(answer)), Counter(_stems(expected))
    common = sum((ours & theirs).values())
    return 2 * common / (sum(ours.values()) + sum(theirs.values())) if common else 0.0


def _stems(text: str) -> list[str]:
    words = [word for word in _WORD.findall(text.lower()) if word not in _ARTICLES]
    stems: list[str] = _STEM.stemWords(words)
    return stems
