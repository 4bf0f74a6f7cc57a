"""Conversations with questions."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from training.packed import Conversation, Question, Turn
from training.sources.cleaning import content_words, untokenised

MEETING_PART = 400
"""The most turns of a meeting that are one conversation."""

MOST_EVIDENCE = 5
LEAST_SHARED = 0.6
"""How much of a persona statement's words a turn must have to count as its evidence."""


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def friendsqa(clone: Path) -> Iterator[Conversation]:
    """Scenes of a series. The training file is left alone, so that others can measure on it."""
    for part in ("dev", "tst"):
        for scene in _json(clone / "dat" / f"friendsqa_{part}.json")["data"]:
            for number, paragraph in enumerate(scene["paragraphs"]):
                said = paragraph["utterances:"]
                turns = [Turn(" and ".join(one["speakers"]), untokenised(one["utterance"])) for one in said]
                questions = []
                for one in paragraph["qas"]:
                    found = {answer["utterance_id"] for answer in one["answers"]}
                    questions.append(Question(untokenised(one["question"]), _gold(found, turns)))
                yield _conversation("friendsqa", f"{part}/{scene['title']}/{number}", turns, questions)


def qmsum(clone: Path) -> Iterator[Conversation]:
    """Meetings, cut into parts. Of a span of evidence the turns with most words of question and answer are kept."""
    for part in ("test", "train", "val"):
        for path in sorted((clone / "data" / "ALL" / part).glob("*.json")):
            meeting = _json(path)
            said = meeting["meeting_transcripts"]
            turns = [Turn(one["speaker"], untokenised(one["content"])) for one in said]
            asked = [
                Question(untokenised(one["query"]), _narrowed(one, turns)) for one in meeting["specific_query_list"]
            ]
            yield from _parts(f"{part}/{path.stem}", turns, asked)


def _narrowed(query: dict[str, Any], turns: list[Turn]) -> tuple[int, ...]:
    wanted = content_words(f"{query['query']} {query['answer']}")
    spans = [range(int(first), int(last) + 1) for first, last in query["relevant_text_span"]]
    inside = [at for span in spans for at in span if at < len(turns)]
    shared = {at: len(wanted & content_words(turns[at].text)) for at in inside}
    best = sorted((at for at in shared if shared[at] >= 3), key=lambda at: -shared[at])
    return tuple(sorted(best[:MOST_EVIDENCE]))


def _parts(id: str, turns: list[Turn], questions: list[Question]) -> Iterator[Conversation]:
    for number, first in enumerate(range(0, len(turns), MEETING_PART)):
        last = first + MEETING_PART
        inside = [
            Question(one.text, tuple(at - first for at in one.gold))
            for one in questions
            if one.gold and all(first <= at < last for at in one.gold)
        ]
        if inside:
            name = id if len(turns) <= MEETING_PART else f"{id}#{number}"
            yield _conversation("qmsum", name, turns[first:last], inside)


def molweni(clone: Path) -> Iterator[Conversation]:
    """IRC dialogues; the evidence is the turn whose place in the context holds the answer."""
    for number, dialogue in enumerate(_json(clone / "MRC(withDiscourse)" / "test.json")["data"]["dialogues"]):
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
        yield _conversation("molweni", f"test/{number}", turns, questions)


def precisionmem(clone: Path) -> Iterator[Conversation]:
    """Hand-written memories, as the turns of one conversation, and queries for them."""
    beliefs = _json(clone / "fixtures" / "beliefs.seed.json")
    number = {one["_id"]: at for at, one in enumerate(beliefs)}
    questions = []
    for case in _json(clone / "fixtures" / "retrieval.cases.json"):
        named = [
            id
            for part in case["expect"].values()
            for ids in part.values()
            if isinstance(ids, list)
            for id in ids
            if id in number
        ]
        if case.get("query"):
            questions.append(Question(case["query"], tuple(sorted({number[id] for id in named}))))
    turns = [Turn("Memory", one["content"]) for one in beliefs]
    yield _conversation("precisionmem", "retrieval", turns, questions)


def persona_chat(clone: Path) -> Iterator[Conversation]:
    """Dialogues of two people; a statement of a persona has as evidence the turn of that person with its words."""
    with (clone / "data" / "Synthetic-Persona-Chat_valid.csv").open(encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.DictReader(file)):
            turns = [
                Turn(*(part.strip() for part in line.split(":", 1)))
                for line in row["Best Generated Conversation"].splitlines()
                if ":" in line
            ]
            questions = []
            for speaker in ("User 1", "User 2"):
                for statement in row[f"{speaker.lower()} personas"].splitlines():
                    gold = _shares_words(statement, speaker, turns)
                    if gold is not None:
                        questions.append(Question(_about(statement, speaker), (gold,)))
            yield _conversation("synthetic-persona-chat-weak", f"valid/{number}", turns, questions)


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
    return " ".join(swapped.get(word.lower(), word) for word in statement.split())


def _gold(found: set[int], turns: list[Turn]) -> tuple[int, ...]:
    return tuple(sorted(at for at in found if 0 <= at < len(turns)))


def _conversation(source: str, id: str, turns: list[Turn], questions: list[Question]) -> Conversation:
    """A conversation without empty turns' questions: a question needs evidence."""
    return Conversation(source, id, tuple(turns), tuple(one for one in questions if one.gold))
