"""Evaluate a model by the product itself: `python -m training.evaluate MODEL SET... --against bge-small`.

Runs `retentive eval` with the model's folder as the embedder on each set, and prints one table in Markdown.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from retentive.evaluation import Evaluation, evaluate, read_evaluation_set
from retentive.inference.embedders.disk_cache import default_cache
from retentive.settings import EmbedderSettings

ROWS = ("keyword", "semantic", "classic-rrf", "relative-score", "default")
COLUMNS = ("any@1", "any@5", "any@10", "all@5", "nDCG@10")


def run(model: str, folder: Path) -> Evaluation:
    """Evaluate one model on one set."""
    return evaluate(
        read_evaluation_set(str(folder)), embedder=EmbedderSettings(name=model), cache=default_cache(), names=ROWS
    )


def lines(model: str, folder: Path, done: Evaluation) -> list[str]:
    """The rows of the table for one model and set."""
    found = []
    for row in done.rows:
        shown = [
            f"{row.metrics[name]:.3f}" if name == "nDCG@10" else f"{100 * row.metrics[name]:.1f}" for name in COLUMNS
        ]
        found.append(f"| {folder.name} | {model} | {row.name} | {' | '.join(shown)} | {row.metrics['p50_ms']:.1f} |")
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("sets", type=Path, nargs="+")
    parser.add_argument("--against", help="Another embedder, such as bge-small.")
    options = parser.parse_args()
    print(f"| set | model | row | {' | '.join(COLUMNS)} | p50 ms |")
    print("|---" * (len(COLUMNS) + 4) + "|")
    for folder in options.sets:
        for model in filter(None, (f"local:{options.model}", options.against)):
            shown = model.rsplit("/", 1)[-1]
            print("\n".join(lines(shown, folder, run(model, folder))), flush=True)


if __name__ == "__main__":
    main()
