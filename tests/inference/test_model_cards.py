"""The models that are shipped are those that their cards describe."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
from training.export import FIXED_TEXTS, results

from retentive.inference.embedders.onnx import MEMORY_SMALL, MEMORY_SMALL_SHA256
from retentive.inference.judge import JUDGE, JUDGE_SHA256
from retentive.inference.loading import MODELS

LARGEST = 36_000_000


@pytest.mark.parametrize(("name", "digest"), [(MEMORY_SMALL, MEMORY_SMALL_SHA256), (JUDGE, JUDGE_SHA256)])
def test_the_file_is_the_one_that_the_card_and_the_code_name(name, digest):
    card = json.loads((MODELS / name / "card.json").read_text())
    model = (MODELS / name / "model.onnx").read_bytes()

    assert hashlib.sha256(model).hexdigest() == card["sha256"] == digest
    assert len(model) == card["bytes"] < LARGEST
    assert digest in (MODELS / name / "README.md").read_text()


@pytest.mark.parametrize("name", [MEMORY_SMALL, JUDGE])
def test_the_results_for_twenty_fixed_texts_are_those_that_the_card_recorded(name):
    import tokenizers

    card = json.loads((MODELS / name / "card.json").read_text())
    tokenizer = tokenizers.Tokenizer.from_file(str(MODELS / name / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()

    computed = np.array(results(MODELS / name / "model.onnx", tokenizer, card["kind"]))
    recorded = np.array(card["fixed"])

    assert len(FIXED_TEXTS) == len(recorded) == 20
    # Processors round differently: on one without VNNI the last digits of the numbers are others.
    tolerance = 0.02 if card["kind"] == "embedder" else 0.5
    assert np.abs(computed - recorded).max() < tolerance
