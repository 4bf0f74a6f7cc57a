"""Write the conversations that are kept out of training as evaluation sets: `python -m training.heldout DATA OUT`.

DATA is the folder of the packed files; OUT gets one folder for each source, in the layout that `retentive eval` reads.
A scene is a session, an episode or a meeting is a project.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from training.packed import PROJECT, Conversation, read_conversations, split_held_out


def write_sets(conversations: list[Conversation], out: Path) -> dict[str, tuple[int, int]]:
    """Write one set for each source; return its numbers of memories and of queries."""
    written = {}
    for source in sorted({one.source for one in conversations}):
        ordered = sorted((one for one in conversations if one.source == source), key=lambda one: one.id)
        written[source] = _write_set(ordered, out / f"{source}-heldout")
    return written


def _write_set(conversations: list[Conversation], folder: Path) -> tuple[int, int]:
    corpus: list[dict[str, Any]] = []
    queries: list[dict[str, Any]] = []
    judgements = ["query-id\tcorpus-id\tscore"]
    for one in conversations:
        project = PROJECT[one.source](one.id)
        for number, turn in enumerate(one.turns):
            about = {"project": project, "session": one.id, "speaker": turn.speaker}
            corpus.append({"_id": f"{one.id}:{number}", "title": "", "text": turn.indexed_text, "metadata": about})
        for number, question in enumerate(one.questions):
            id = f"{one.id}/q{number}"
            queries.append({"_id": id, "text": question.text, "metadata": {"project": project}})
            judgements += [f"{id}\t{one.id}:{gold}\t1" for gold in question.gold]
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    for name, lines in (("corpus", corpus), ("queries", queries)):
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    (folder / "qrels" / "test.tsv").write_text("\n".join(judgements) + "\n", encoding="utf-8")
    return len(corpus), len(queries)


def main() -> None:
    """Write the sets and print their sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    train, kept = split_held_out(read_conversations(options.data))
    print(f"{len(train):,} conversations to train on, {len(kept):,} kept out")
    for source, (memories, queries) in write_sets(kept, options.out).items():
        print(f"{source}-heldout: {memories:,} memories, {queries:,} queries")


if __name__ == "__main__":
    main()
