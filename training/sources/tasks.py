"""Dialogues of people who want something done: SGD and Taskmaster."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from training.packed import Conversation, Question, Turn
from training.sources.reading import Line, conversation, digest, distinct_texts, one_line, read_json, some

SGD_FILES = (
    "test/dialogues_011.json",
    "train/dialogues_107.json",
    "dev/dialogues_003.json",
    "train/dialogues_119.json",
    "train/dialogues_090.json",
    "train/dialogues_086.json",
    "dev/dialogues_014.json",
    "train/dialogues_087.json",
)
"""The files that questions are asked about."""

SGD_TEXT_FILES = {
    "train": [*range(1, 37), *range(38, 52), *range(86, 93), *range(95, 104), *range(105, 117), *range(119, 128)],
    "dev": [*range(1, 15)],
    "test": [*range(1, 12)],
}
"""The numbers of the files that utterances are taken from: dialogues about one service and about several."""

TASKMASTER_FILES = ("data_00.json", "data_01.json", "data_02.json", "data_03.json")
SGD_DIALOGUES = 800
SGD_TEXTS = 35_000
FEWEST_TURNS = 14
QUESTIONS = 3
TEMPLATES = (
    "What is the {}?",
    "What was the {}?",
    "Do you remember the {}?",
    "Can you remind me of the {}?",
)
STATING = {"INFORM", "OFFER"}


class _Slot(NamedTuple):
    """What is known of a slot: the schema's words for it, its values, and the turns that state one."""

    about: str
    values: set[str]
    turns: set[int]


def sgd(clone: Path) -> Iterator[Conversation]:
    """Dialogues with up to three questions each, by template, about slots that have one value all through.

    The words for a slot are those of the schema. The evidence is each turn that informs of the value or offers it, and
    has it literally. Slots and templates are chosen by a hash.
    """
    found = 0
    for name in SGD_FILES:
        words = _descriptions(clone / name.split("/")[0] / "schema.json")
        for dialogue in read_json(clone / name):
            if len(dialogue["turns"]) < FEWEST_TURNS or found == SGD_DIALOGUES:
                continue
            turns = [Turn(one["speaker"].capitalize(), one_line(one["utterance"])) for one in dialogue["turns"]]
            questions = _questions(dialogue, words)
            found += bool(questions)
            yield conversation("sgd-template", dialogue["dialogue_id"], turns, questions)


def _descriptions(schema: Path) -> dict[tuple[str, str], str]:
    """The description of each slot, by service and name, as it stands after "the"."""
    words = {}
    for service in read_json(schema):
        for slot in service["slots"]:
            text = re.sub(r"^the ", "", one_line(slot["description"]), flags=re.IGNORECASE)
            words[service["service_name"], slot["name"]] = text[:1].lower() + text[1:]
    return words


def _questions(dialogue: dict[str, Any], words: dict[tuple[str, str], str]) -> list[Question]:
    slots = [one for one in _slots(dialogue, words).values() if len(one.values) == 1 and one.turns]
    asked = []
    for slot in some(slots, QUESTIONS, key=lambda one: f"{dialogue['dialogue_id']} {one.about}"):
        template = TEMPLATES[digest(f"{slot.about} {dialogue['dialogue_id']}")[0] % len(TEMPLATES)]
        asked.append(Question(template.format(slot.about), tuple(sorted(slot.turns))))
    return asked


def _slots(dialogue: dict[str, Any], words: dict[tuple[str, str], str]) -> dict[tuple[str, str], _Slot]:
    slots: dict[tuple[str, str], _Slot] = {}
    several = len(dialogue["services"]) > 1
    for at, turn in enumerate(dialogue["turns"]):
        for frame in turn["frames"]:
            for action in frame["actions"]:
                key = (frame["service"], action["slot"])
                if action["act"] in STATING and action["values"] and key in words:
                    about = words[key] + (f" (for the {_service(key[0])})" if several else "")
                    slot = slots.setdefault(key, _Slot(about, set(), set()))
                    value = action["values"][0].lower()
                    slot.values.add(value)
                    slot.turns.update({at} if value in turn["utterance"].lower() else ())
    return slots


def _service(name: str) -> str:
    """`RentalCars_2` → `rental car`."""
    parts = re.findall(r"[A-Z][a-z]*", name.split("_", maxsplit=1)[0])
    return " ".join(parts).lower().removesuffix("s")


def sgd_texts(clone: Path) -> Iterator[Line]:
    """Utterances of the dialogues."""
    said = (
        turn["utterance"] for path in _text_files(clone) for dialogue in read_json(path) for turn in dialogue["turns"]
    )
    yield from some(distinct_texts(said), SGD_TEXTS)


def _text_files(clone: Path) -> list[Path]:
    numbers = [(part, number) for part, listed in SGD_TEXT_FILES.items() for number in listed]
    return [clone / part / f"dialogues_{number:03}.json" for part, number in numbers]


def taskmaster(clone: Path) -> Iterator[Line]:
    """Utterances of half of Taskmaster 4: orders in a coffee shop."""
    files = [clone / "TM-4-2024" / "data" / name for name in TASKMASTER_FILES]
    yield from distinct_texts(
        turn["text"] for path in files for dialogue in read_json(path) for turn in dialogue["utterances"]
    )
