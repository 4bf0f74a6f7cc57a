from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from training.weight_files import load_weights, save_weights

from tests.training.conftest import made_up
from training import weight_files


@pytest.mark.parametrize(("limit", "error"), [(64, 0.5 / 64), (32_767, 0.5 / 32_767)])
def test_saved_weights_are_rounded_to_the_limit(tmp_path: Path, limit: int, error: float):
    weights = made_up()

    save_weights(tmp_path, "model", weights, limit=limit)

    found = load_weights(tmp_path, "model")
    assert found.keys() == weights.keys()
    for name, array in weights.items():
        if array.ndim == 2 and "embeddings" not in name:
            largest = np.abs(array).max(axis=0)
            assert np.abs(found[name] - array).max() > 0
            assert (np.abs(found[name] - array) <= largest * error * 1.02).all()
        elif array.ndim == 1:
            np.testing.assert_array_equal(found[name], array)


def test_weights_are_saved_in_parts_of_limited_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(weight_files, "PART", 2_000)

    save_weights(tmp_path, "model", made_up())

    assert len(list(tmp_path.glob("model-*.npz"))) > 2
    assert load_weights(tmp_path, "model").keys() == made_up().keys()
