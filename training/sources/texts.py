"""Questions with passages, and texts without labels."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from training.sources.cleaning import untokenised


def squad_sentences(clone: Path) -> Iterator[dict[str, Any]]:
    """Questions of SQuAD and the sentence that each was asked about."""
    folder = clone / "data" / "processed"
    for path in sorted(folder.glob("src-*.txt")):
        sentences = path.read_text(encoding="utf-8").splitlines()
        questions = (folder / path.name.replace("src", "tgt")).read_text(encoding="utf-8").splitlines()
        for question, sentence in zip(questions, sentences, strict=True):
            yield {"question": untokenised(question), "passage": untokenised(sentence)}


def disfl_qa(clone: Path) -> Iterator[dict[str, Any]]:
    """Questions as people say them, with slips, and what they mean."""
    for part in ("dev", "test", "train"):
        for one in json.loads((clone / f"{part}.json").read_text(encoding="utf-8")).values():
            yield {"question": one["disfluent"], "passage": one["original"]}


def clinc(clone: Path) -> Iterator[dict[str, Any]]:
    """What people ask an assistant for."""
    for rows in json.loads((clone / "data" / "data_full.json").read_text(encoding="utf-8")).values():
        for text, _intent in rows:
            yield {"text": text}
