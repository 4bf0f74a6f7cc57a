"""Frozen values that pydantic checks when they are given."""

from __future__ import annotations

import subprocess
import sys
from typing import Annotated, Literal

import pytest
from pydantic import Field, SecretStr, TypeAdapter, ValidationError

from retentive.lazy_models import LazyModel, field
from retentive.ranking import PRESETS, Tuning
from retentive.settings import EmbedderSettings, Settings


class Oven(LazyModel):
    """An oven."""

    name: str = field(default="oven", description="What it is called.")
    degrees: float = field(default=180, ge=0, le=300, description="How hot it is.")
    mode: Literal["fan", "grill"] = "fan"
    key: SecretStr | None = None
    shelves: dict[str, Annotated[int, Field(ge=1)]] = field(default_factory=dict)


class Kitchen(LazyModel):
    """A kitchen."""

    oven: Oven = Oven()
    place: str = field(default="here", min_length=1)


def test_values_have_defaults_and_are_compared():
    assert Oven() == Oven(degrees=180.0) != Oven(degrees=90)
    assert Oven().shelves is not Oven().shelves
    assert len({EmbedderSettings(), EmbedderSettings(name="memory-small"), EmbedderSettings(name="none")}) == 2


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"degrees": 301}, "degrees"),
        ({"degrees": "hot"}, "degrees"),
        ({"name": 1}, "name"),
        ({"mode": "steam"}, "mode"),
        ({"shelves": {"top": 0}}, "shelves"),
        ({"colour": "red"}, "colour"),
        ({"self": "red"}, "self"),
    ],
)
def test_a_value_that_is_given_is_checked(values, named):
    for make in (lambda: Oven(**values), lambda: Oven.model_validate(values)):
        with pytest.raises(ValidationError, match=named):
            make()
    with pytest.raises(ValidationError, match=named):
        Kitchen(oven=values)


def test_all_that_is_wrong_is_named():
    with pytest.raises(ValidationError) as caught:
        Oven(degrees=-1, mode="steam")
    assert [problem["loc"] for problem in caught.value.errors()] == [("degrees",), ("mode",)]


@pytest.mark.parametrize("value", [1, "hot", None, [("degrees", 90)]])
def test_only_names_with_values_are_accepted(value):
    with pytest.raises(ValidationError):
        Oven.model_validate(value)


def test_a_text_is_taken_as_it_is_where_any_text_is_valid():
    assert Oven(name="Ω").name == "Ω"
    with pytest.raises(ValidationError, match="place"):
        Kitchen(place="")


def test_a_secret_is_not_shown():
    oven = Oven(key="sk-1")
    assert oven.key is not None
    assert oven.key.get_secret_value() == "sk-1"
    assert "sk-1" not in repr(oven) + repr(Kitchen(oven=oven))


def test_what_was_given_is_known():
    oven = Oven.model_validate({"degrees": 180})
    assert oven.model_fields_set == {"degrees"}
    assert oven.model_dump(exclude_unset=True) == {"degrees": 180.0}
    assert oven.model_copy(update={"mode": "grill"}).model_fields_set == {"degrees", "mode"}
    assert Kitchen(oven={"degrees": 90}).oven.model_fields_set == {"degrees"}


def test_a_value_cannot_be_changed():
    with pytest.raises(AttributeError, match="frozen"):
        Oven().degrees = 1
    dumped = Oven(shelves={"top": 1}).model_dump()
    dumped["shelves"]["top"] = 9
    assert Oven(shelves={"top": 1}).model_dump()["shelves"] == {"top": 1}


def test_pydantic_checks_and_describes_a_field_of_such_a_type():
    adapter = TypeAdapter(Kitchen)
    assert adapter.validate_python({"oven": {"degrees": "90"}}) == Kitchen(oven=Oven(degrees=90.0))
    assert adapter.validate_python(Kitchen()) == Kitchen()
    schema = Kitchen.model_json_schema()
    assert schema["properties"]["place"] == {"default": "here", "minLength": 1, "title": "Place", "type": "string"}
    assert schema["$defs"]["Oven"]["properties"]["degrees"]["maximum"] == 300


@pytest.mark.parametrize(
    "value", [*PRESETS.values(), Settings(), EmbedderSettings()], ids=lambda one: type(one).__name__
)
def test_values_that_are_made_without_a_check_are_valid(value):
    assert type(value).model_validate(value.model_dump()) == value


def test_a_tuning_is_written_in_both_spellings():
    assert Tuning().model_dump(by_alias=True)["keywordWeight"] == Tuning().model_dump()["keyword_weight"]


def test_a_recall_does_not_import_pydantic(tmp_path):
    program = (
        "import sys; from retentive import Engine\n"
        f"with Engine.open({str(tmp_path / 'memories.db')!r}) as engine:\n"
        "    engine.remember('the keys are in the blue bowl')\n"
        "    engine.recall('where are the keys?')\n"
        "    print('pydantic' in sys.modules)\n"
        "    engine.recall('where are the keys?', tuning={'keyword_weight': 2})\n"
        "print('pydantic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["False", "True"]
