"""Parameters as requests carry them: some of a tuning's, the block of older configurations, or a preset's name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, Discriminator, Field, Tag, WithJsonSchema, create_model
from pydantic.fields import FieldInfo

from retentive.errors import Invalid
from retentive.ranking import Tuning, preset
from retentive.ranking.presets import PRESETS
from retentive.ranking.tuning import Hybrid
from retentive.server.http.fields import WHOLE, Camel


def _optional(field: FieldInfo) -> Any:
    whole = [WHOLE] if field.annotation is int else []
    limits = [*field.metadata, *whole]
    kind: Any = Annotated[(field.annotation, *limits)] if limits else field.annotation
    return (kind | None, Field(None, description=field.description))


if TYPE_CHECKING:

    class Parameters(Camel):
        """Some parameters of a tuning."""
else:
    Parameters = create_model(
        "Parameters",
        __base__=Camel,
        __doc__="Some parameters of a tuning; those left out or null stay as they are in force.",
        **{name: _optional(field) for name, field in Tuning.model_fields.items()},
    )


class SettingsPatch(Parameters):
    """Parameters to turn for everybody who uses the store; null takes one back to its default."""

    hybrid: Hybrid | None = Field(
        None,
        description="Turns fusion, semanticWeight, keywordWeight and rrfK together, null takes them back; a parameter that "
        "is named beside it goes over it.",
    )

    def turned(self) -> dict[str, Any]:
        """Each parameter that is to be turned, by its Python name; None takes it back."""
        parameters: dict[str, Any] = {}
        if "hybrid" in self.model_fields_set:
            parameters = self.hybrid.parameters() if self.hybrid else dict.fromkeys(Hybrid().parameters())
        return parameters | {name: getattr(self, name) for name in self.model_fields_set if name != "hybrid"}


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
    return "(parameters)" if isinstance(value, dict | Parameters) else None


TuningChoice = Annotated[
    Annotated[Parameters, Tag("(parameters)")] | Annotated[PresetName, Tag("(preset)")],
    Discriminator(
        _form,
        custom_error_type="parameters_or_preset",
        custom_error_message="an object of parameters, or the name of a preset",
    ),
]
"""A tuning for one recall: parameters that differ from those in force, or a preset."""


def chosen(choice: Any) -> dict[str, Any] | str | None:
    """A choice as the engine takes it."""
    if not isinstance(choice, Parameters):
        preset_or_none: str | None = choice
        return preset_or_none
    return choice.model_dump(exclude_none=True)
