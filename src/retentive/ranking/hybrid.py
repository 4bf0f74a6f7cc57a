"""`Hybrid`: the configuration block of other memory systems, read as a whole tuning."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from retentive.errors import Invalid
from retentive.lazy_models import plain_message
from retentive.ranking.presets import preset
from retentive.ranking.tuning import Scaling, Tuning


class _Block(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, alias_generator=to_camel, populate_by_name=True
    )


class Mmr(_Block):
    """Diversity in the `hybrid` block."""

    enabled: bool = Field(False, description="Whether results are diversified.")
    lambda_: float = Field(
        0.7, ge=0, le=1, alias="lambda", description="1 considers only relevance; diversity is 1 − it."
    )


class TemporalDecay(_Block):
    """Decay in the `hybrid` block."""

    enabled: bool = Field(False, description="Sets decay.")
    half_life_days: float = Field(30, gt=0, le=36500, description="Sets halfLifeDays.")


def _scaling(value: Any) -> Any:
    """A scaling in our spelling: minmax, minMax and min_max mean min-max."""
    spellings = {"minmax": "min-max", "zscore": "z-score"}
    return spellings.get(value.lower().replace("_", ""), value) if isinstance(value, str) else value


class Hybrid(_Block):
    """The `hybrid` block: a whole tuning. Values that it leaves out have the defaults given here."""

    enabled: bool = Field(True, description="False: the semantic retriever alone.")
    fusion: Literal["weighted", "rrf"] = Field("weighted", description="The preset: weighted, or classic-rrf for rrf.")
    vector_weight: float = Field(0.7, ge=0, le=1000, description="Weight of the semantic retriever; rrf ignores it.")
    text_weight: float = Field(0.3, ge=0, le=1000, description="Weight of the keyword retriever; rrf ignores it.")
    rrf_k: float = Field(60, ge=1, le=1000, description="Sets rrfK.")
    score_normalization: Annotated[Scaling, BeforeValidator(_scaling)] = Field(
        "none", description="How scores are scaled before they are weighted; rrf ignores it."
    )
    min_score: float = Field(0, ge=0, le=10, description="Sets minScore; rrf ignores it.")
    candidate_multiplier: int | None = Field(
        None, ge=1, le=50, description="Sets minCandidates to ten times this; at least 50."
    )
    mmr: Mmr = Mmr()
    temporal_decay: TemporalDecay = TemporalDecay()

    @model_validator(mode="after")
    def _check_weights(self) -> Self:
        if self.vector_weight + self.text_weight <= 0:
            raise ValueError("vectorWeight and textWeight must not both be 0")
        return self

    def tuning(self) -> Tuning:
        """The tuning that it stands for: a preset with the values of the block. Weights are scaled to a sum of 1."""
        both = self.vector_weight + self.text_weight
        if not self.enabled:
            base = preset("semantic-only")
        elif self.fusion == "rrf":
            base = preset("classic-rrf")
        else:
            scaling = self.score_normalization
            base = preset("weighted" if scaling == "none" else "relative-score").with_parameters(
                semantic_weight=self.vector_weight / both, keyword_weight=self.text_weight / both
            )
            if scaling != "none":
                base = base.with_parameters(semantic_scaling=scaling, keyword_scaling=scaling)
        return base.with_parameters(
            rrf_k=self.rrf_k,
            min_score=0.0 if base.fusion == "rrf" else self.min_score,
            min_candidates=max(base.min_candidates, 10 * (self.candidate_multiplier or 0)),
            diversity=1.0 - self.mmr.lambda_ if self.mmr.enabled else 0.0,
            decay=self.temporal_decay.enabled,
            half_life_days=self.temporal_decay.half_life_days,
        )


HYBRID_NAMES = frozenset(to_camel(name) for name in Hybrid.model_fields)
"""What a block can have, as other systems write it."""


def parse_hybrid(block: object) -> Hybrid:
    """A block from plain values. `Invalid` names what is wrong."""
    try:
        return Hybrid.model_validate(block)
    except ValidationError as error:
        problems = [
            (".".join(map(str, ("hybrid", *problem["loc"]))), plain_message(problem["msg"]))
            for problem in error.errors()
        ]
        raise Invalid("; ".join(f"{name}: {message}" for name, message in problems)) from None
