"""The options of a training step."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from training.recipe import read_options


@dataclass
class Recipe:
    steps: int = 600
    embedding_rate: float = 0.3
    layers: str = "1,2"


def test_every_field_of_the_recipe_is_an_option_of_its_type() -> None:
    arguments = ["work", "out", "--steps", "7", "--embedding-rate", "1"]
    folder, out, recipe = read_options(None, Recipe, arguments)
    assert (folder, out) == (Path("work"), Path("out"))
    assert recipe == Recipe(steps=7, embedding_rate=1.0)
    assert isinstance(recipe.embedding_rate, float)


def test_a_value_of_another_type_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read_options(None, Recipe, ["work", "out", "--steps", "many"])
    assert "--steps: invalid int value: 'many'" in capsys.readouterr().err
