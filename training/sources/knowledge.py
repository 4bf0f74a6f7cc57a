"""Hotels and restaurants of the DSTC challenges 9 to 11: frequent questions, reviews, and users who ask."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from training.sources.passages import pairs
from training.sources.reading import Line, distinct, distinct_texts, one_line, read_json, some

DSTC9_QUESTIONS = 4000
DSTC11_REVIEWED = 5000
DSTC11_SENTENCES = 6000
"""How many are chosen, of up to three times as many."""

ARTICLES = {"the", "a", "an"}
_WORDS = re.compile(r"[a-z0-9]+")


def _entities(knowledge: Path) -> Iterator[dict[str, Any]]:
    """Hotels, restaurants and, in DSTC 9, taxis and trains, which have no name."""
    for by_id in read_json(knowledge).values():
        yield from by_id.values()


def _named(question: str, name: str | None) -> str:
    """The question with the name of what it is about, unless it has the first word of it."""
    asked = one_line(question)
    words = [word for word in _WORDS.findall((name or "").lower()) if word not in ARTICLES]
    if not name or words[:1] == [] or words[0] in _WORDS.findall(asked.lower()):
        return asked
    return f"{asked} ({name.title()})"


def dstc9_questions(clone: Path) -> Iterator[Line]:
    """Frequent questions and their answers, of the evaluation data, which DSTC 10 uses as well."""
    found = [
        (_named(one["title"], entity["name"]), one_line(one["body"]))
        for entity in _entities(clone / "data_eval" / "knowledge.json")
        for one in entity["docs"].values()
    ]
    yield from pairs(some(distinct(found), DSTC9_QUESTIONS))


def dstc11_questions(clone: Path) -> Iterator[Line]:
    """Frequent questions and their answers; many are those of DSTC 9, and the builder takes them once."""
    found = [
        (_named(one["question"], entity["name"]), one_line(one["answer"]))
        for entity in _entities(clone / "data" / "knowledge.json")
        for one in entity["faqs"].values()
    ]
    yield from pairs(found)


def dstc11_reviewed(clone: Path) -> Iterator[Line]:
    """What a user asks last, and the sentences of reviews and the frequent questions that bear on it (validation)."""
    knowledge = read_json(clone / "data" / "knowledge.json")
    folder = clone / "data" / "val"
    found = []
    for log, label in zip(read_json(folder / "logs.json"), read_json(folder / "labels.json"), strict=True):
        for snippet in label.get("knowledge", ()):
            entity = knowledge[snippet["domain"]][str(snippet["entity_id"])]
            found.append((one_line(log[-1]["text"]), f"{entity['name'].title()}: {_snippet(entity, snippet)}"))
    yield from pairs(some(distinct(found), DSTC11_REVIEWED))


def _snippet(entity: dict[str, Any], snippet: dict[str, Any]) -> str:
    if snippet["doc_type"] == "review":
        return one_line(entity["reviews"][str(snippet["doc_id"])]["sentences"][str(snippet["sent_id"])])
    one = entity["faqs"][str(snippet["doc_id"])]
    return one_line(f"{one['question']} {one['answer']}")


def dstc11_texts(clone: Path) -> Iterator[Line]:
    """Sentences of reviews."""
    sentences = [
        sentence
        for entity in _entities(clone / "data" / "knowledge.json")
        for review in entity["reviews"].values()
        for sentence in review["sentences"].values()
    ]
    yield from some(list(distinct_texts(sentences)), DSTC11_SENTENCES)
