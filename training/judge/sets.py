"""Write pieces as evaluation sets: `python -m training.judge.sets DATA OUT`.

OUT gets `pieces-dev` and `pieces-test` in the layout that `retentive eval` reads: a piece is a project, and the queries
without an answer are in `unanswerable.json`. The second is to be measured once, at the end.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from training.judge.pieces import Piece, Turn, pieces


def write_set(chosen: Iterable[Piece], folder: Path) -> tuple[int, int, int]:
    """Write one set; return its numbers of memories, of queries with evidence, and of those without."""
    corpus: list[dict[str, Any]] = []
    queries: list[dict[str, Any]] = []
    unanswerable: list[dict[str, Any]] = []
    judgements = ["query-id\tcorpus-id\tscore"]
    for piece in chosen:
        project = f"{piece.source}/{piece.id}"
        corpus += [_document(project, at, turn) for at, turn in enumerate(piece.turns)]
        for at, query in enumerate(piece.queries):
            id = f"{project}/q{at}"
            about = {"project": project, "category": query.kind, "source": piece.source}
            about["weak"] = [f"{project}:{turn}" for turn in query.weak]
            (queries if query.gold else unanswerable).append({"_id": id, "text": query.text, "metadata": about})
            judgements += [f"{id}\t{project}:{turn}\t1" for turn in query.gold]
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    for name, lines in (("corpus", corpus), ("queries", queries)):
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    (folder / "unanswerable.json").write_text(json.dumps(unanswerable, ensure_ascii=False, indent=0), encoding="utf-8")
    (folder / "qrels" / "test.tsv").write_text("\n".join(judgements) + "\n", encoding="utf-8")
    return len(corpus), len(queries), len(unanswerable)


def _document(project: str, at: int, turn: Turn) -> dict[str, Any]:
    about: dict[str, Any] = {"project": project, "session": project}
    if turn.speaker:
        about["speaker"] = turn.speaker
    if turn.date:
        about["occurred_at"] = f"{turn.date[:10]}T12:00:{at:02d}"
    text = f"{turn.speaker}: {turn.words}" if turn.speaker else turn.text
    return {"_id": f"{project}:{at}", "title": "", "text": text, "metadata": about}


def main() -> None:
    """Write both sets and print their sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    every = list(pieces(options.data))
    for split in ("dev", "test"):
        counts = write_set((piece for piece in every if piece.split == split), options.out / f"pieces-{split}")
        print(f"pieces-{split}: {counts[0]:,} memories, {counts[1]:,} queries, {counts[2]:,} unanswerable")


if __name__ == "__main__":
    main()
