"""RealMem: months of dialogue of ten people with an assistant, with the memories that it should use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from training.packed import Conversation, Question, Turn
from training.sources.reading import Line, conversation, one_line, read_json

PART = 400
"""The most turns of a person that are one conversation; sessions stay whole."""

PADDING = "Enhanced"
"""Sessions of this kind are texts of others that only make the dialogues longer."""

MOST_EVIDENCE = 6
LONGEST_QUESTION = 70
"""The most words of a question: in longer ones the user tells as well as asks."""

SHORTEST_MEMORY = 4
LONGEST_PASSAGE = 200

_CATEGORY = re.compile(r"【[^】]*】")

Session = dict[str, Any]
Place = tuple[str, int]
"""A turn: the session's id, and its number in the session."""


def _people(clone: Path) -> Iterator[tuple[str, list[Session]]]:
    for path in sorted((clone / "dataset").glob("*_dialogues_256k.json")):
        sessions = read_json(path)["dialogues"]
        real = [one for one in sessions if not one["session_identifier"].startswith(PADDING)]
        yield path.name.removesuffix("_dialogues_256k.json"), real


def _sources(sessions: list[Session]) -> dict[tuple[str, str], Place]:
    """The turn that each memory was extracted from: the one with its text, or else the one with its number."""
    places: dict[tuple[str, str], Place] = {}
    for session in sessions:
        texts = [one_line(one["content"]) for one in session["dialogue_turns"]]
        for memory in session.get("extracted_memory") or ():
            text = one_line(memory.get("source_content_snapshot") or "")
            at = texts.index(text) if text in texts else int(memory["source_turn"]) - 1
            if 0 <= at < len(texts) and isinstance(memory["content"], str):
                places[session["session_uuid"], memory["content"]] = (session["session_uuid"], at)
    return places


def realmem(clone: Path) -> Iterator[Conversation]:
    """Dialogues in parts. A question is a turn marked as a query; the memories used in its answer lead to evidence.

    A question belongs to the part that has most of its evidence. Queries and the answers to them are not turns, unless
    they are evidence for others.
    """
    for person, sessions in _people(clone):
        places = _sources(sessions)
        asked = [query for session in sessions for query in _queries(session, places)]
        for number, part in enumerate(_parts(sessions)):
            yield _conversation(f"{person}#{number}", part, asked)


class _Query(NamedTuple):
    """A query, where it and its answer stand, and the turns that the answer needs: none, if it is no question."""

    text: str
    stands: set[Place]
    evidence: set[Place]


def _queries(session: Session, places: dict[tuple[str, str], Place]) -> Iterator[_Query]:
    said, id = session["dialogue_turns"], session["session_uuid"]
    for at, (query, answer) in enumerate(zip(said, [*said[1:], {}], strict=True)):
        if query.get("is_query"):
            used = [(one["session_uuid"], str(one["content"])) for one in answer.get("memory_used") or ()]
            stands = {(id, at), (id, at + 1)}
            evidence = {places[one] for one in used if one in places} - stands
            text = one_line(query["content"])
            if len(evidence) > MOST_EVIDENCE or len(text.split()) > LONGEST_QUESTION:
                evidence = set()
            yield _Query(text, stands, evidence)


def _parts(sessions: list[Session]) -> Iterator[list[Session]]:
    part: list[Session] = []
    for session in sessions:
        if part and sum(len(one["dialogue_turns"]) for one in [*part, session]) > PART:
            yield part
            part = []
        part.append(session)
    yield part


def _conversation(id: str, part: list[Session], asked: list[_Query]) -> Conversation:
    needed = {place for query in asked for place in query.evidence}
    left_out = {place for query in asked for place in query.stands} - needed
    turns: list[Turn] = []
    numbers: dict[Place, int] = {}
    for session in part:
        for at, one in enumerate(session["dialogue_turns"]):
            if (session["session_uuid"], at) not in left_out and one["content"].strip():
                numbers[session["session_uuid"], at] = len(turns)
                speaker = id.partition("#")[0].replace("_", " ") if one["speaker"] == "User" else one["speaker"]
                turns.append(Turn(speaker, one_line(one["content"])))
    questions = []
    for query in asked:
        gold = tuple(sorted(numbers[place] for place in query.evidence if place in numbers))
        if 2 * len(gold) > len(query.evidence):
            questions.append(Question(query.text, gold))
    return conversation("realmem", id, turns, questions)


def realmem_memories(clone: Path) -> Iterator[Line]:
    """Memories without their category, and the turns they were extracted from."""
    for _person, sessions in _people(clone):
        by_id = {one["session_uuid"]: one["dialogue_turns"] for one in sessions}
        for (_, memory), (session, at) in _sources(sessions).items():
            statement, passage = one_line(_CATEGORY.sub("", memory)), one_line(by_id[session][at]["content"])
            if len(statement.split()) >= SHORTEST_MEMORY and len(passage.split()) <= LONGEST_PASSAGE:
                yield {"question": statement, "passage": passage}
