"""Conversations with questions."""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from training.packed import Conversation, Question, Turn
from training.sources.cleaning import content_words, untokenised
from training.sources.reading import Line, conversation, distinct_texts, read_json, some

WHOLE_MEETING = 400
MEETING_PART = 380
"""The most turns of a meeting that are one conversation, and of the equal parts that a longer one is cut into."""

MOST_EVIDENCE = 5
LEAST_OF_BEST = 0.5
"""A turn of a span is evidence if its score is this part of the best turn's, and it shares at least two words."""

FEWEST_WORDS = 4
"""The fewest words of a question."""

_ON_THE_SCRIPT = re.compile(r"\bscenes?\b", re.IGNORECASE)
"""Questions about a scene as a scene are not questions that someone who was there would ask."""

MOST_BELIEFS = 3
"""A query for more beliefs asks for all of a kind."""

MOLWENI_QUESTIONS = 5
"""Of some 25 questions on eight turns of IRC; most ask for the same."""

PERSONA_PARTS = ("valid", "test")
PERSONA_DIALOGUES = 1000
PERSONA_TEXTS = 30_000
LEAST_SHARED = 0.6
"""How much of a persona statement's words a turn must have to count as its evidence."""


def friendsqa(clone: Path) -> Iterator[Conversation]:
    """Scenes of a series. The training file is left alone, so that others can measure on it."""
    for part in ("dev", "tst"):
        for scene in read_json(clone / "dat" / f"friendsqa_{part}.json")["data"]:
            for number, paragraph in enumerate(scene["paragraphs"]):
                said = paragraph["utterances:"]
                turns = [Turn(" and ".join(one["speakers"]), untokenised(one["utterance"])) for one in said]
                questions = []
                for one in paragraph["qas"]:
                    found = {answer["utterance_id"] for answer in one["answers"]}
                    question = untokenised(one["question"])
                    if len(question.split()) >= FEWEST_WORDS and not _ON_THE_SCRIPT.search(question):
                        questions.append(Question(question, _gold(found, turns)))
                yield conversation("friendsqa", f"{part}/{scene['title']}/{number}", turns, questions)


def qmsum(clone: Path) -> Iterator[Conversation]:
    """Meetings, cut into parts. Of a span of evidence the turns with most words of question and answer are kept."""
    for part in ("test", "train", "val"):
        for path in sorted((clone / "data" / "ALL" / part).glob("*.json")):
            meeting = read_json(path)
            said = meeting["meeting_transcripts"]
            turns = [Turn(one["speaker"], untokenised(one["content"])) for one in said]
            asked = [
                Question(untokenised(one["query"]), _narrowed(one, turns)) for one in meeting["specific_query_list"]
            ]
            yield from _parts(f"{part}/{path.stem}", turns, asked)


def _narrowed(query: dict[str, Any], turns: list[Turn]) -> tuple[int, ...]:
    """The turns of the spans with most words of question and answer; words that few of the turns have count more."""
    wanted = content_words(f"{query['query']} {query['answer']}")
    spans = [range(int(first), int(last) + 1) for first, last in query["relevant_text_span"]]
    shared = {at: wanted & content_words(turns[at].text) for span in spans for at in span if at < len(turns)}
    frequency = Counter(word for words in shared.values() for word in words)
    weights = {word: math.log(1 + len(shared) / count) for word, count in frequency.items()}
    scores = {at: sum(weights[word] for word in sorted(words)) for at, words in shared.items() if len(words) > 1}
    best = sorted(scores, key=lambda at: -scores[at])[:MOST_EVIDENCE]
    return tuple(sorted(at for at in best if scores[at] >= LEAST_OF_BEST * scores[best[0]]))


def _parts(id: str, turns: list[Turn], questions: list[Question]) -> Iterator[Conversation]:
    parts = 1 if len(turns) <= WHOLE_MEETING else math.ceil(len(turns) / MEETING_PART)
    size = math.ceil(len(turns) / parts)
    for number, first in enumerate(range(0, len(turns), size)):
        last = first + size
        inside = [
            Question(one.text, tuple(at - first for at in one.gold))
            for one in questions
            if one.gold and all(first <= at < last for at in one.gold)
        ]
        if inside:
            name = id if parts == 1 else f"{id}#{number}"
            yield conversation("qmsum", name, turns[first:last], inside)


def molweni(clone: Path) -> Iterator[Conversation]:
    """IRC dialogues; the evidence is the turn whose place in the context holds the answer."""
    for number, dialogue in enumerate(read_json(clone / "MRC(withDiscourse)" / "test.json")["data"]["dialogues"]):
        turns = [Turn(one["speaker"], untokenised(one["text"])) for one in dialogue["edus"]]
        starts, at = [], 0
        for one in dialogue["edus"]:
            starts.append(at)
            at += len(f"{one['speaker']}: {one['text']} ")
        questions = []
        for one in dialogue["qas"]:
            places = {answer["answer_start"] for answer in one["answers"]}
            found = {max(row for row, start in enumerate(starts) if start <= place) for place in places}
            questions.append(Question(untokenised(one["question"]), tuple(sorted(found))))
        good = [one for one in questions if one.gold and len(one.text.split()) >= FEWEST_WORDS]
        few = some(good, MOLWENI_QUESTIONS, key=lambda one: one.text)
        yield conversation("molweni", f"test/{number}", turns, few)


def precisionmem(clone: Path) -> Iterator[Conversation]:
    """Hand-written memories, as the turns of one conversation, and queries for them."""
    beliefs = read_json(clone / "fixtures" / "beliefs.seed.json")
    number = {one["_id"]: at for at, one in enumerate(beliefs)}
    wanted: dict[str, set[int]] = {}
    for case in read_json(clone / "fixtures" / "retrieval.cases.json"):
        named = [
            id
            for part in case["expect"].values()
            for rule in ("mustInclude", "shouldOnlyInclude")
            for id in part.get(rule, ())
            if id in number
        ]
        if case.get("query"):
            wanted.setdefault(case["query"], set()).update(number[id] for id in named)
    questions = [Question(query, tuple(sorted(gold))) for query, gold in wanted.items() if len(gold) <= MOST_BELIEFS]
    turns = [Turn("Memory", one["content"]) for one in beliefs]
    yield conversation("precisionmem", "beliefs", turns, questions)


def _persona_rows(clone: Path) -> Iterator[tuple[str, dict[str, str], list[Turn]]]:
    """The id, the row and the turns of each dialogue. The training file is large and left out."""
    for part in PERSONA_PARTS:
        with (clone / "data" / f"Synthetic-Persona-Chat_{part}.csv").open(encoding="utf-8", newline="") as file:
            for number, row in enumerate(csv.DictReader(file)):
                lines = row["Best Generated Conversation"].splitlines()
                turns = [Turn(*(half.strip() for half in line.split(":", 1))) for line in lines if ":" in line]
                yield f"{part}/{number}", row, turns


def persona_chat(clone: Path) -> Iterator[Conversation]:
    """Dialogues of two people; a statement of a persona has as evidence the turn of that person with its words."""
    found = []
    for id, row, turns in _persona_rows(clone):
        questions = []
        for speaker in ("User 1", "User 2"):
            for statement in row[f"{speaker.lower()} personas"].splitlines():
                gold = _shares_words(statement, speaker, turns)
                if gold is not None:
                    questions.append(Question(_about(statement, speaker), (gold,)))
        if questions:
            found.append(conversation("synthetic-persona-chat-weak", id, turns, questions))
    yield from some(found, PERSONA_DIALOGUES, key=lambda one: one.id)


def persona_texts(clone: Path) -> Iterator[Line]:
    """What the two people say."""
    said = (turn.text for _, _, turns in _persona_rows(clone) for turn in turns)
    yield from some(distinct_texts(said), PERSONA_TEXTS)


def _shares_words(statement: str, speaker: str, turns: list[Turn]) -> int | None:
    words = content_words(statement) - {"i", "my", "me"}
    best = max(
        (at for at, turn in enumerate(turns) if turn.speaker == speaker),
        key=lambda at: len(words & content_words(turns[at].text)),
        default=None,
    )
    if best is None or not words or len(words & content_words(turns[best].text)) < LEAST_SHARED * len(words):
        return None
    return best


def _about(statement: str, speaker: str) -> str:
    """The statement in the third person."""
    swapped = {"i": speaker, "my": f"{speaker}'s", "me": speaker, "am": "is", "i'm": f"{speaker} is"}
    changed = " ".join(swapped.get(word.lower(), word) for word in statement.split())
    return changed.replace(f"{speaker} have ", f"{speaker} has ")


def _gold(found: set[int], turns: list[Turn]) -> tuple[int, ...]:
    return tuple(sorted(at for at in found if 0 <= at < len(turns)))
