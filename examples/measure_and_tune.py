"""Measure recall on your own chats, and tune it: import, judge, evaluate, search for better parameters.

    python examples/measure_and_tune.py

`examples/data/chats.jsonl` and `examples/data/judged.json` are samples made for this script. For your own chats, import
your export (see docs/formats.md) and judge some recalls with `retentive judge` or with the thumbs of the playground: 30
queries are enough to see large differences, 100 to see small ones.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from retentive import Engine, show_progress
from retentive.evaluation.own_judgements import evaluate_own, own_evaluation_set
from retentive.evaluation.tune import tune

DATA = Path(__file__).parent / "data"


def judge(engine: Engine, judged: dict[str, str]) -> None:
    """Store which memory answers each query; here it is named by a part of its text."""
    memories = engine.list(limit=1000).memories
    for query, part in judged.items():
        engine.judge(query, good=[memory.id for memory in memories if part in memory.text])


def main(store: str = "chats.db", *, budget: int = 50) -> None:
    """Print the metrics of each preset, and what tuning would gain on queries that it has not seen."""
    with Engine.open(store) as engine:
        print(engine.import_from(DATA / "chats.jsonl").added, "memories imported")
        judge(engine, json.loads((DATA / "judged.json").read_text(encoding="utf-8")))
        evaluation = evaluate_own(engine, names=["keyword", "semantic", "default"], progress=show_progress)
        for row in evaluation.rows:
            print(f"{row.name:<10} nDCG@10 {row.metrics['nDCG@10']:.3f}  any@5 {row.metrics['any@5']:.3f}")

        found = tune(
            engine,
            own_evaluation_set(engine),
            current=engine.tuning.current(),
            budget=budget,
            progress=show_progress,
        )
        gain = found.held_out[found.metric]
        print(f"held out: {found.metric} {gain.before:.3f} → {gain.after:.3f}, p = {gain.p_value:.3f}; {found.verdict}")
        if found.verdict == "better":
            engine.tuning.save({name: after for name, (_, after) in found.parameters.items()}, by="measure_and_tune")


if __name__ == "__main__":
    main(*sys.argv[1:])
