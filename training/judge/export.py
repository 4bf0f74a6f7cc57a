"""Write the trained judge as the folder that the product loads.

`python -m training.judge.export FOLDER BASE MODEL DATA OUT`

FOLDER has the weights from the trainer, BASE is the cross-encoder that training began with (`base.onnx.xz`), MODEL the
folder with its tokenizer, DATA the packed training data.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from training.device_data import open_weights
from training.export import export
from training.weight_files import load_weights

EMBEDDINGS = "embeddings.word_embeddings.weight"


def main() -> None:
    """Write the folder and print the digest."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("folder", "base", "tokenizer", "data", "out"):
        parser.add_argument(name, type=Path)
    options = parser.parse_args()
    figures = json.loads((options.folder / "judge.json").read_text(encoding="utf-8"))
    weights = load_weights(options.folder, "judge") | {EMBEDDINGS: open_weights(options.base)[EMBEDDINGS]}
    places = {"tokenizer": options.tokenizer, "data": options.data, "out": options.out}
    card = export("judge", weights, figures, "memory-judge", **places)
    print(f"{card['sha256']}  {options.out / 'model.onnx'}  {card['bytes']:,} bytes")


if __name__ == "__main__":
    main()
