"""Write a trained model as the folder that the product loads.

`python -m training.export KIND FOLDER NAME TOKENIZER DATA OUT`

KIND is `embedder` or `judge`, FOLDER has its weights and figures from the trainer, TOKENIZER is a folder with the
tokenizer of the model that training began with, DATA the packed training data, from which a few turns tell the ranges
of values inside the model. OUT gets `model.onnx`, `tokenizer.json`, `config.json`, and the model card: `card.json` for
tests (SHA-256 of the model, results for twenty fixed texts) and `README.md` for people.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import shutil
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import tokenizers

from training.graph import HEADS, write_model
from training.packed import read_conversations, split_held_out
from training.smoothing import factors
from training.weight_files import load_weights
from training.weights import Weights, layers

FIXED_TEXTS = (
    "When did Caroline go to the support group?",
    "Caroline: I went to a support group yesterday and it was so powerful.",
    "user: I've been getting around 32 miles per gallon with the new car.",
    "assistant: That's great to hear! Keep tracking the mileage after each service.",
    "What degree did I graduate with?",
    "Where does Sam keep the spare key?",
    "Sam: It's under the blue flower pot, as always.",
    "Maria: No.",
    "ok",
    "The meeting moved to Thursday at 3 pm.",
    "Our deploys go through GitHub Actions; production needs a manual approval.",
    "Which database did we decide on, and why?",
    "Ben: I was allergic to peanuts as a child, but not any more.",
    "What is Ben allergic to?",
    "The inhibitor reduced tumour growth in mice by 40 % after two weeks.",
    "User prefers window seats and vegetarian meals on long flights.",
    "¿Dónde dejé las llaves?",
    "def add(a, b): return a + b",
    "🎉 Happy birthday, Grandma! 🎂",
    "1234-5678 is the number on the invoice of 2024-02-29.",
)
"""Texts whose results the card records: a test compares them with those of the shipped file."""

SEED = 15
SAMPLE = 48
"""How many texts tell the ranges of values."""

RECORDED = 16
"""How many numbers of each vector the card records."""


def results(model: Path, tokenizer: Any, kind: str) -> list[list[float]]:
    """For an embedder the first numbers of each text's vector; for a judge its logit as the answer to the first."""
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    found = []
    for text in FIXED_TEXTS:
        encoded = tokenizer.encode(text) if kind == "embedder" else tokenizer.encode(FIXED_TEXTS[0], text)
        rows = {"input_ids": encoded.ids, "attention_mask": encoded.attention_mask, "token_type_ids": encoded.type_ids}
        output = session.run(None, {name: np.array([row], np.int64) for name, row in rows.items()})[0]
        if kind == "embedder":
            output = output[0, 0] / np.linalg.norm(output[0, 0])
        found.append([round(float(value), 4) for value in output.ravel()[:RECORDED]])
    return found


def sample(data: Path, tokenizer: Any, kind: str) -> list[tuple[list[int], list[int]]]:
    """Token ids and types of some turns, or of questions with their evidence."""
    chance = random.Random(SEED)
    train, _ = split_held_out(read_conversations(data))
    found = []
    for one in chance.sample([one for one in train if one.questions], SAMPLE):
        question = chance.choice(one.questions)
        text = one.turns[question.gold[0]].indexed_text
        encoded = tokenizer.encode(text) if kind == "embedder" else tokenizer.encode(question.text, text)
        found.append((encoded.ids[:256], encoded.type_ids[:256]))
    return found


def export(
    kind: str, weights: Weights, figures: dict[str, Any], name: str, *, tokenizer: Path, data: Path, out: Path
) -> dict[str, Any]:
    """Write the folder of the model; return its card."""
    out.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(tokenizer / "tokenizer.json", out / "tokenizer.json")
    loaded = tokenizers.Tokenizer.from_file(str(out / "tokenizer.json"))
    loaded.no_padding()
    loaded.no_truncation()
    model = write_model(weights, factors=factors(weights, sample(data, loaded, kind), heads=HEADS))
    (out / "model.onnx").write_bytes(model)
    width = len(weights["embeddings.LayerNorm.bias"])
    shape = {"hidden_size": width, "max_position_embeddings": 512, "num_hidden_layers": layers(weights)}
    (out / "config.json").write_text(json.dumps(shape, indent=1) + "\n")
    card = {
        "name": name,
        "kind": kind,
        "sha256": hashlib.sha256(model).hexdigest(),
        "bytes": len(model),
        **shape,
        **figures,
        "fixed": results(out / "model.onnx", loaded, kind),
    }
    (out / "card.json").write_text(json.dumps(card, indent=1) + "\n")
    (out / "README.md").write_text(_card_text(card), encoding="utf-8")
    return card


def _card_text(card: dict[str, Any]) -> str:
    sources = tomllib.loads((Path(__file__).parent / "sources.toml").read_text(encoding="utf-8"))
    use = {
        "embedder": "Turns a memory or a query into a vector. Pooling: the first token, scaled to length 1.",
        "judge": "Reads a query and a memory together and says whether the memory answers or helps (a logit).",
    }[card["kind"]]
    started = {
        "embedder": "bge-small-en-v1.5 (MIT)",
        "judge": "ms-marco-MiniLM-L-12-v2 (Apache-2.0)",
    }[card["kind"]]
    lines = [
        f"# {card['name']}",
        "",
        f"{use} English. {card['num_hidden_layers']} layers of {card['hidden_size']}, int8 for each column,",
        f"{card['bytes'] / 1e6:.1f} MB. Training began with {started}.",
        "",
        f"SHA-256 of `model.onnx`: `{card['sha256']}`",
        "",
        "## Training",
        "",
        "```json",
        json.dumps(card["recipe"], indent=1),
        "```",
        "",
        "## Search on development sets, by this model alone, before quantisation",
        "",
        "| set | reads | any@1 | any@5 | any@10 | nDCG@10 |",
        "|---|---|---|---|---|---|",
    ]
    for name, forms in card.get("dense", {}).items():
        for form, values in forms.items():
            shown = " | ".join(f"{100 * values[key]:.1f}" for key in ("any@1", "any@5", "any@10"))
            lines.append(f"| {name} | {form} | {shown} | {values['nDCG@10']:.3f} |")
    lines += ["", "## Sources", "", "| source | repository | commit | licence |", "|---|---|---|---|"]
    for one in sources["source"]:
        lines.append(f"| {one['name']} | {one['repository']} | {one['commit'] or 'not recorded'} | {one['licence']} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the folder and print the digest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("embedder", "judge"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("name")
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    figures = json.loads((options.folder / f"{options.kind}.json").read_text(encoding="utf-8"))
    weights = load_weights(options.folder, options.kind)
    places = {"tokenizer": options.tokenizer, "data": options.data, "out": options.out}
    card = export(options.kind, weights, figures, options.name, **places)
    print(f"{card['sha256']}  {options.out / 'model.onnx'}  {card['bytes']:,} bytes")


if __name__ == "__main__":
    main()
