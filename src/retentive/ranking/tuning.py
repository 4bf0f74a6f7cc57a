"""`Tuning`: every parameter of a recall, with its range and what it does.

One frozen model serves as the `[tuning]` table of the config file, the settings of a store, an argument of a single
recall and the search space of tuning. An unknown parameter is an error.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from retentive.errors import Invalid

Fusion = Literal["rrf", "relative", "weighted", "full"]
Scaling = Literal["min-max", "z-score", "sum", "max", "l2", "distribution", "spread", "saturate", "none"]
Quality = Literal["off", "add", "multiply"]


class Tuning(BaseModel):
    """Everything about ranking that can be turned."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)

    fusion: Fusion = Field(
        "full",
        description="How the retrievers become one list: by ranks (rrf), by scores scaled within each retriever (relative), by raw "
        "scores (weighted), or by scaled scores in which every memory has its true score in every retriever (full).",
    )
    semantic_weight: float = Field(1.0, ge=0, le=5, description="Weight of the search by meaning; 0 does not run it.")
    keyword_weight: float = Field(1.4, ge=0, le=5, description="Weight of the search by words; 0 does not run it.")
    rrf_k: float = Field(60, ge=1, le=1000, description="RRF's k: small favours first places, large favours agreement.")
    rank_base: int = Field(1, ge=0, le=1, description="The rank RRF gives to the first of a list: 1 or 0.")
    semantic_scaling: Scaling = Field(
        "spread", description="How relative and full fusion scale the scores of the search by meaning."
    )
    keyword_scaling: Scaling = Field(
        "max", description="How relative and full fusion scale the scores of the search by words."
    )
    spread_depth: int = Field(
        100, ge=2, le=1000, description="Spread scaling takes the score at this depth of the search as zero."
    )
    spread_least: float = Field(
        0.12, ge=0, le=1, description="Spread scaling takes the best as standing out by at least this much."
    )
    standout_least: float = Field(
        0.4,
        ge=0,
        le=1,
        description="Words count in full (relative, full) where their best match is this share ahead of their tenth.",
    )
    neighbour_weight: float = Field(
        0.4, ge=0, le=2, description="How much of its better neighbour's score a memory of a conversation gains."
    )
    session_weight: float = Field(
        0.7, ge=0, le=2, description="How much of its session's best score a memory of a conversation gains."
    )
    context_words: float = Field(
        28, ge=1, le=1000, description="Up to this many words, memories lean fully on their neighbours."
    )
    pool_factor: int = Field(
        3, ge=3, le=50, description="Each retriever fetches this many times the limit before fusion."
    )
    pool_floor: int = Field(30, ge=1, le=1000, description="Each retriever fetches at least this many.")
    common_words: float = Field(
        0.05, gt=0, le=1, description="Words in more than this share of all memories score but do not search."
    )
    semantic_floor: float = Field(
        0.0, ge=-1, le=1, description="A memory found by meaning must be at least this similar (cosine)."
    )
    score_floor: float = Field(0.0, ge=0, le=10, description="A hit must score at least this in the end.")
    source_weights: dict[str, Annotated[float, Field(ge=0, le=100)]] = Field(
        default_factory=dict,
        description="Multiplies the score by the weight of the first source pattern that matches: {'notes/*': 1.5}.",
    )
    time_weight: float = Field(
        0.5, ge=0, le=5, description="How much a memory gains that happened when the query asks about; 0 is off."
    )
    decay: bool = Field(False, description="Whether memories fade with age. Identity and evergreen ones never do.")
    half_life_days: float = Field(30, gt=0, le=36500, description="The age in days at which decay halves a score.")
    importance_slows_decay: float = Field(
        0.0, ge=0, le=10, description="An importance of 1 makes the half-life longer by this many half-lives."
    )
    quality: Quality = Field(
        "multiply", description="How importance and recent use count: not (off), added (add) or as a factor (multiply)."
    )
    relevance_share: float = Field(0.80, ge=0, le=1, description="The share of relevance in the quality step.")
    recency_share: float = Field(0.05, ge=0, le=1, description="The share of recent use in the quality step.")
    importance_share: float = Field(0.15, ge=0, le=1, description="The share of importance in the quality step.")
    access_half_life_days: float = Field(
        30, gt=0, le=36500, description="The days since its last use at which a memory's recency is one half."
    )
    dedup: bool = Field(True, description="Whether a hit whose text equals a higher hit's is left out of the result.")
    diversity: float = Field(
        0.0, ge=0, le=1, description="MMR: 0 is off, 1 prefers only difference. Costs recall of many-part queries."
    )
    rerank: int = Field(
        0, ge=0, le=100, description="How many of the best hits a cross-encoder reads again; 0 does not load it."
    )
    rerank_weight: float = Field(
        0.7, ge=0, le=1, description="The share of the cross-encoder in the score of a hit that it read."
    )
    rerank_seconds: float = Field(
        2.0, gt=0, le=60, description="How long a recall waits for the cross-encoder before it answers without it."
    )

    def with_parameters(self, **parameters: Any) -> Tuning:
        """This tuning with some parameters turned, checked against their ranges."""
        return parse_tuning(self.model_dump() | _spelled(parameters))

    def pool(self, limit: int) -> int:
        """How many candidates each retriever fetches for a result of this length; 0 or less means as many as allowed."""
        wanted = self.pool_factor * limit if limit > 0 else 1000
        return max(wanted, self.pool_floor, self.rerank)

    def depth(self, limit: int) -> int:
        """How many the retriever by meaning looks at: beyond its pool where scores are scaled, to see the crowd behind it."""
        scaled = self.fusion in ("full", "relative")
        return max(self.pool(limit), self.spread_depth) if scaled else self.pool(limit)


class Hybrid(BaseModel):
    """The block of older configurations. It is whole: what it leaves out takes the default that is named here."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, alias_generator=to_camel, populate_by_name=True
    )

    fusion: Literal["weighted", "rrf"] = Field("weighted", description="How the retrievers become one list.")
    vector_weight: float = Field(0.7, ge=0, le=5, description="Turns semanticWeight.")
    text_weight: float = Field(0.3, ge=0, le=5, description="Turns keywordWeight.")
    rrf_k: float = Field(60, ge=1, le=1000, description="Turns rrfK.")

    def parameters(self) -> dict[str, Any]:
        """The parameters that it turns."""
        return {
            "fusion": self.fusion,
            "semantic_weight": self.vector_weight,
            "keyword_weight": self.text_weight,
            "rrf_k": self.rrf_k,
        }


def parse_tuning(parameters: dict[str, Any]) -> Tuning:
    """A tuning from plain values; what is wrong is named parameter by parameter."""
    try:
        return Tuning.model_validate(_spelled(parameters))
    except ValidationError as error:
        raise Invalid("; ".join(_sentence(problem) for problem in error.errors())) from None


def _spelled(parameters: dict[str, Any]) -> dict[str, Any]:
    return {spelled_parameter(name): value for name, value in parameters.items()}


def spelled_parameter(name: str) -> str:
    """A parameter's Python name: `keywordWeight` and `keyword-weight` mean `keyword_weight`."""
    return _CAMEL.get(name, name.replace("-", "_"))


_CAMEL = {to_camel(name): name for name in Tuning.model_fields}


def _sentence(problem: Any) -> str:
    name = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"there is no parameter '{name}'; the parameters are {', '.join(Tuning.model_fields)}"
    return f"{name}: {problem['msg'][0].lower()}{problem['msg'][1:]}, not {problem['input']!r}"
