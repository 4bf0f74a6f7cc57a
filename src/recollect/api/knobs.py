"""Knobs as requests carry them: some of a tuning's, the block of older configurations, or a preset's name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, Discriminator, Field, Tag, WithJsonSchema, create_model
from pydantic.fields import FieldInfo

from recollect.api.fields import WHOLE, Camel
from recollect.errors import Invalid
from recollect.ranking import Tuning, preset
from recollect.ranking.presets import PRESETS
from recollect.ranking.tuning import Hybrid


def _optional(field: FieldInfo) -> Any:
    whole = [WHOLE] if field.annotation is int else []
    limits = [*field.metadata, *whole]
    kind: Any = Annotated[(field.annotation, *limits)] if limits else field.annotation
    return (kind | None, Field(None, description=field.description))


if TYPE_CHECKING:

    class Knobs(Camel):
        """Some knobs of a tuning."""
else:
    Knobs = create_model(
        "Knobs",
        __base__=Camel,
        __doc__="Some knobs of a tuning; those left out or null stay as they are in force.",
        **{name: _optional(field) for name, field in Tuning.model_fields.items()},
    )


class SettingsPatch(Knobs):
    """Knobs to turn for everybody who uses the store; null takes one back to its default."""

    hybrid: Hybrid | None = Field(
        None,
        description="Turns fusion, semanticWeight, keywordWeight and rrfK together, null takes them back; a knob that "
        "is named beside it goes over it.",
    )

    def turned(self) -> dict[str, Any]:
        """Each knob that is to be turned, by its Python name; None takes it back."""
        knobs: dict[str, Any] = {}
        if "hybrid" in self.model_fields_set:
            knobs = self.hybrid.knobs() if self.hybrid else dict.fromkeys(Hybrid().knobs())
        return knobs | {name: getattr(self, name) for name in self.model_fields_set if name != "hybrid"}


def _known(name: str) -> str:
    try:
        preset(name)
    except Invalid as error:
        raise ValueError(str(error)) from None
    return name


PresetName = Annotated[str, AfterValidator(_known), WithJsonSchema({"type": "string", "enum": list(PRESETS)})]


def _form(value: Any) -> str | None:
    if isinstance(value, str):
        return "(preset)"
    return "(knobs)" if isinstance(value, dict | Knobs) else None


TuningChoice = Annotated[
    Annotated[Knobs, Tag("(knobs)")] | Annotated[PresetName, Tag("(preset)")],
    Discriminator(
        _form,
        custom_error_type="knobs_or_preset",
        custom_error_message="an object of knobs, or the name of a preset",
    ),
]
"""A tuning for one recall: knobs that differ from those in force, or a preset."""


def chosen(choice: Any) -> dict[str, Any] | str | None:
    """A choice as the engine takes it."""
    if not isinstance(choice, Knobs):
        preset_or_none: str | None = choice
        return preset_or_none
    return choice.model_dump(exclude_none=True)
