"""Benchmarks of memory: iKAT, MADial, ProactiveMemBench and recall-bench."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from training.packed import Conversation, Question, Turn
from training.sources.reading import Line, conversation, one_line, read_json, read_json_lines

ROLES = {"user": "User", "assistant": "Assistant"}

MOST_EVIDENCE = 6
"""A question with evidence in more turns is left out: it does not ask for one thing."""


# iKAT: topics of 2023 to 2025, each with statements of a user and a dialogue with an assistant

IKAT_FILES = {
    "2023t": "2023/data/2023_train_topics.json",
    "2023": "2023/data/2023_test_topics.json",
    "2024": "2024/data/2024_test_topics.json",
    "2025": "2025/data/2025_test_topics.json",
}


def _ikat_topics(clone: Path) -> Iterator[tuple[str, list[str], list[dict[str, Any]]]]:
    """The id, the statements and the exchanges of each topic. The fields have other names since 2025."""
    for year, name in IKAT_FILES.items():
        for topic in read_json(clone / name):
            statements = topic["ptkb"]
            if isinstance(statements, dict):
                statements = [statements[key] for key in sorted(statements, key=int)]
            yield f"{year}/{topic['number']}", statements, topic.get("turns") or topic["responses"]


def _ikat_utterance(exchange: dict[str, Any]) -> str:
    """What the user says, with the words that it refers to."""
    return one_line(exchange["resolved_utterance"])


def ikat(clone: Path) -> Iterator[Conversation]:
    """Statements of a user as turns; a question is an utterance for which annotators marked statements."""
    for id, statements, exchanges in _ikat_topics(clone):
        numbers = {one_line(text): at for at, text in enumerate(statements)}
        questions = []
        for one in exchanges:
            if "ptkb_provenance" in one:
                gold = {int(number) - 1 for number in one["ptkb_provenance"]}
            else:
                gold = {numbers[one_line(text)] for text in one["relevant_ptkbs"] if one_line(text) in numbers}
            found = tuple(sorted(at for at in gold if at < len(statements)))
            if " " in _ikat_utterance(one):
                questions.append(Question(_ikat_utterance(one), found))
        yield conversation("ikat-ptkb", id, [Turn("User", one_line(text)) for text in statements], questions)


def ikat_responses(clone: Path) -> Iterator[Line]:
    """Questions of the user and what the assistant answers, in 12 to 200 words."""
    for _id, _statements, exchanges in _ikat_topics(clone):
        for one in exchanges:
            question, answer = _ikat_utterance(one), one_line(one["response"])
            if question.endswith("?") and len(question.split()) >= 5 and 12 <= len(answer.split()) <= 200:
                yield {"question": question, "passage": answer}


# MADial: memories of two children, and dialogues that call for them

_SAID = re.compile(r'^<(?P<speaker>[^>]+)>:\s*"?(?P<text>.*?)"?\s*$', re.DOTALL)


def madial(clone: Path) -> Iterator[Conversation]:
    """Memories with their dates as turns; a question is what the user said last before the assistant recalls."""
    memories = {}
    for line in read_json_lines(clone / "data" / "en" / "MADial-Bench-en-memory.json"):
        memories |= {int(number): f"{one['event']} ({one['time']})" for number, one in line.items()}
    places = {number: at for at, number in enumerate(memories)}
    questions = []
    for one in read_json_lines(clone / "data" / "en" / "MADial-Bench-en-dialogue.json"):
        said = [_SAID.match(line) for line in one["dialogue"][: one["test-turn"][0]]]
        of_user = [found for found in said if found and found["speaker"] != "Assistant"]
        text = " ".join(f"{found['speaker']}: {one_line(found['text'])}" for found in of_user[-2:])
        gold = sorted({places[number] for number in one["relevant-id"] if number in places})
        questions.append(Question(text, tuple(gold)))
    yield conversation("madial", "en", [Turn("Memory", one_line(text)) for text in memories.values()], questions)


# ProactiveMemBench: dialogues into which statements were planted

PROACTIVE_DOMAINS = ("music", "cooking", "fitness", "pet", "travel")


def _proactive(clone: Path, domain: str) -> tuple[list[Turn], dict[str, list[int]]]:
    """The turns of a domain, and the numbers of those that each unit of memory was planted in."""
    turns: list[Turn] = []
    planted: dict[str, list[int]] = {}
    for session in read_json(clone / "data" / domain / "step4_conversations.json"):
        for one in session["turns"]:
            for unit in one.get("planted_pairs") or one.get("planted_units") or ():
                planted.setdefault(unit, []).append(len(turns))
            turns.append(Turn(ROLES[one["role"]], one_line(one["content"])))
    return turns, planted


def proactivemem(clone: Path) -> Iterator[Conversation]:
    """Situations as questions; the evidence is where the units that a situation should recall were planted."""
    for domain in PROACTIVE_DOMAINS:
        turns, planted = _proactive(clone, domain)
        questions = []
        for one in read_json(clone / "data" / domain / "step5_proactive_questions.json"):
            gold = {at for unit in one["source_pairs"] for at in planted.get(unit, ())}
            if len(gold) <= MOST_EVIDENCE:
                questions.append(Question(one_line(one["question"]), tuple(sorted(gold))))
        yield conversation("proactivemem", domain, turns, questions)


def proactivemem_units(clone: Path) -> Iterator[Line]:
    """Units of memory, and the first two turns that each was planted in."""
    for domain in PROACTIVE_DOMAINS:
        turns, planted = _proactive(clone, domain)
        for unit in read_json(clone / "data" / domain / "step1_concept_pairs.json"):
            for at in planted.get(unit["id"], [])[:2]:
                statement = unit.get("natural_expression") or unit["proactive_trigger"]
                yield {"question": one_line(statement), "passage": turns[at].text}


# recall-bench: scenarios with words that an answer must have

FEWEST_WORDS = 4
MOST_TURNS_OF_A_WORD = 5
"""A word that occurs in more turns of its scenario does not tell where the evidence is."""


def recall_bench(clone: Path) -> Iterator[Conversation]:
    """Scripted conversations; the evidence of a question is each turn with one of the words it should recall."""
    for path in sorted((clone / "scenarios" / "v1").glob("*.json")):
        scenario = read_json(path)
        said = [message for session in scenario.get("sessions", ()) for message in session["messages"]]
        turns = [Turn(ROLES[one["role"]], one_line(one["content"])) for one in said]
        questions = []
        for query in scenario.get("queries", ()):
            places = [_with_words(entry, turns) for entry in query["should_recall"]]
            gold = {at for found in places if len(found) <= MOST_TURNS_OF_A_WORD for at in found}
            if len(gold) <= MOST_EVIDENCE and len(query["question"].split()) >= FEWEST_WORDS:
                questions.append(Question(one_line(query["question"]), tuple(sorted(gold))))
        yield conversation("recall-bench", f"v1/{path.stem}", turns, questions)


def _with_words(entry: str, turns: list[Turn]) -> list[int]:
    """The turns with an entry of recall-bench: words, or alternatives with `|` between them."""
    words = entry.lower().split("|")
    return [at for at, turn in enumerate(turns) if any(word in turn.text.lower() for word in words)]
