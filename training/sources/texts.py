"""Sentences and questions with what they mean: SQuAD, Disfl-QA; and texts without labels: CLINC, Topical-Chat."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from training.sources.cleaning import untokenised
from training.sources.passages import pairs
from training.sources.reading import Line, distinct_texts, one_line, read_json, some

SQUAD_PARTS = ("dev", "test")
DISFLUENT = 5000
CLINC_TEXTS = 8000
TOPICAL_FILES = ("valid_freq", "valid_rare", "test_freq", "test_rare")


def squad_sentences(clone: Path) -> Iterator[Line]:
    """Questions of SQuAD and the sentence that each was asked about (development and test files)."""
    folder = clone / "data" / "processed"
    found = []
    for part in SQUAD_PARTS:
        sentences = (folder / f"src-{part}.txt").read_text(encoding="utf-8").splitlines()
        questions = (folder / f"tgt-{part}.txt").read_text(encoding="utf-8").splitlines()
        found += [(untokenised(one), untokenised(two)) for one, two in zip(questions, sentences, strict=True)]
    yield from pairs(found)


def disfl_qa(clone: Path) -> Iterator[Line]:
    """Questions as people say them, with slips, and what they mean (training file)."""
    found = [
        (one_line(one["disfluent"]), one_line(one["original"])) for one in read_json(clone / "train.json").values()
    ]
    yield from some(pairs(found), DISFLUENT)


def clinc(clone: Path) -> Iterator[Line]:
    """What people ask an assistant for."""
    parts = read_json(clone / "data" / "data_full.json").values()
    yield from some(distinct_texts(text for rows in parts for text, _intent in rows), CLINC_TEXTS)


def topical_chat(clone: Path) -> Iterator[Line]:
    """What people say to each other about articles that they have read (validation and test files)."""
    files = [clone / "conversations" / f"{name}.json" for name in TOPICAL_FILES]
    yield from distinct_texts(
        turn["message"] for path in files for one in read_json(path).values() for turn in one["content"]
    )
