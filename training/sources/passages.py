"""Questions with the passages that answer them: XQuAD, ShARC and WoW++."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from training.sources.cleaning import decoded
from training.sources.reading import Line, distinct, distinct_texts, one_line, read_json

FEWEST_WORDS = 4
LONGEST_PASSAGE = 200
WINDOW = 180
"""Of a paragraph with more words than `LONGEST_PASSAGE`, at most this many about the answer are kept."""

LEAST_AGREEMENT = 0.7
"""How many of the annotators of WoW++ must have found a sentence relevant."""

WOW_FILES = ("full_test_random_augmented_wow.json", "full_test_topic_augmented_wow.json")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


def pairs(found: list[tuple[str, str]]) -> Iterator[Line]:
    """Questions and passages, each pair once; questions of a few words are left out."""
    for question, passage in distinct(found):
        if len(question.split()) >= FEWEST_WORDS:
            yield {"question": question, "passage": passage}


def xquad(clone: Path) -> Iterator[Line]:
    """English questions of XQuAD and their paragraphs; of a long paragraph, the sentences about the answer."""
    found = []
    for article in read_json(clone / "xquad.en.json")["data"]:
        for paragraph in article["paragraphs"]:
            for one in paragraph["qas"]:
                passage = _around(paragraph["context"], one["answers"][0]["answer_start"])
                found.append((one_line(one["question"]), passage))
    yield from pairs(found)


def _around(paragraph: str, place: int) -> str:
    """All of a short paragraph. Of a long one the sentence at the place, as many after it as fit, then before it."""
    if len(paragraph.split()) <= LONGEST_PASSAGE:
        return one_line(paragraph)
    sentences = [one_line(text) for text in _SENTENCE_END.split(paragraph)]
    first = last = len(_SENTENCE_END.split(paragraph[: place + 1])) - 1

    def fits(first: int, last: int) -> bool:
        inside = first >= 0 and last < len(sentences)
        return inside and sum(len(text.split()) for text in sentences[first : last + 1]) <= WINDOW

    while fits(first, last + 1):
        last += 1
    while fits(first - 1, last):
        first -= 1
    return " ".join(sentences[first : last + 1])


def sharc(clone: Path) -> Iterator[Line]:
    """Scenarios with the question asked in them, and questions alone, with the rule text that decides them.

    The development file. Questions that were put to another rule text on purpose are marked as irrelevant.
    """
    alone, told = [], []
    for one in read_json(clone / "data" / "sharc1_dev.json"):
        rule = one_line(one["snippet"])
        if one["scenario"]:
            told.append((one_line(f"{one['scenario']} {one['question']}"), rule))
        elif one["answer"] != "Irrelevant":
            alone.append((one_line(one["question"]), rule))
    yield from pairs(told + alone)


def _wow_dialogues(clone: Path) -> Iterator[dict[str, Any]]:
    for name in WOW_FILES:
        yield from read_json(clone / "wow++" / name).values()


def wow(clone: Path) -> Iterator[Line]:
    """The last turn of a dialogue, and sentences that most annotators found fit to answer it with (test files)."""
    found = []
    for dialogue in _wow_dialogues(clone):
        for one in dialogue["annotated_sentences"]:
            if one["relevance"] == "relevant" and one["confidence"] >= LEAST_AGREEMENT:
                sentence = decoded(one["label"]).replace(" <knowledge_separator>", ":")
                found.append((one_line(dialogue["turns"][-1]), one_line(sentence)))
    yield from pairs(found)


def wow_texts(clone: Path) -> Iterator[Line]:
    """All turns of the dialogues."""
    yield from distinct_texts(turn for dialogue in _wow_dialogues(clone) for turn in dialogue["turns"])
