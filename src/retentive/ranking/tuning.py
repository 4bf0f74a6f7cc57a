"""`Tuning`: every parameter of a recall that can be changed at run time, with its range and description.

The same frozen model is the `[tuning]` table of the config file, the tuning saved in a store, an option of one recall
and the search space of `retentive tune`. An unknown parameter is an error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from retentive.errors import Invalid, did_you_mean
from retentive.lazy_models import LazyModel, field, plain_message
from retentive.models import check_unicode, hash_text

if TYPE_CHECKING:
    from pydantic import Field

Fusion = Literal["rrf", "relative", "weighted", "full"]
Scaling = Literal["min-max", "z-score", "sum", "max", "l2", "distribution", "spread", "saturate", "none"]
Quality = Literal["off", "add", "multiply"]
Judging = Literal["off", "order", "filter"]


def to_camel(name: str) -> str:
    """The name of a parameter in JSON, as pydantic's function of this name gives it, which is not imported here."""
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


class Tuning(LazyModel):
    """All tuning parameters of a recall."""

    model_config = {"extra": "forbid", "alias_generator": to_camel, "populate_by_name": True}  # noqa: RUF012

    fusion: Fusion = field(
        default="full",
        description="Fusion method: reciprocal rank fusion (rrf), scores scaled within each retriever (relative), raw "
        "scores (weighted), or scaled scores with every memory's true score by every retriever (full).",
    )
    semantic_weight: float = field(
        default=1.0, ge=0, le=5, description="Weight of the semantic retriever; 0 does not run it."
    )
    keyword_weight: float = field(
        default=1.4, ge=0, le=5, description="Weight of the keyword retriever; 0 does not run it."
    )
    rrf_k: float = field(
        default=60, ge=0, le=1000, description="RRF's k: a small value favours first ranks, a large one agreement."
    )
    semantic_scaling: Scaling = field(
        default="spread", description="How relative and full fusion scale semantic scores."
    )
    keyword_scaling: Scaling = field(default="max", description="How relative and full fusion scale keyword scores.")
    min_score_range: float = field(
        default=0.12, ge=0, le=1, description="The smallest range of scores that spread scaling maps to 0..1."
    )
    min_lead: float = field(
        default=0.4,
        ge=0,
        le=1,
        description="Keyword scores have full weight (relative, full) if the best exceeds the tenth by this share.",
    )
    short_keyword_share: float = field(
        default=0.23,
        ge=0,
        le=1,
        description="The share of the keyword weight that remains (relative, full) where memories are short: a match "
        "is then one or two words. With another embedding model than the default one, all of it remains.",
    )
    min_match: float = field(
        default=2.2,
        ge=0,
        le=50,
        description="Where memories are long, keyword scores have full weight (relative, full) if the best is this "
        "much for each informative term of the query.",
    )
    neighbour_weight: float = field(
        default=0.2,
        ge=0,
        le=2,
        description="The share of its better neighbour's score that a memory of a session gains.",
    )
    session_weight: float = field(
        default=0.4, ge=0, le=2, description="The share of its session's best score that a memory of a session gains."
    )
    min_candidates: int = field(
        default=30, ge=1, le=1000, description="Each retriever returns at least this many candidates."
    )
    max_document_frequency: float = field(
        default=0.05,
        gt=0,
        le=1,
        description="Terms above this document frequency do not retrieve candidates; they only affect scoring.",
    )
    min_cosine: float = field(
        default=0.0,
        ge=-1,
        le=1,
        description="The smallest cosine of a candidate of the semantic retriever; -1 is off. Keyword candidates stay.",
    )
    min_score: float = field(default=0.0, ge=0, le=10, description="The smallest final score of a hit.")
    min_relevance: float = field(
        default=0.0,
        ge=0,
        le=1,
        description="The smallest relevance of a hit; 0 is off. A judge that filters uses 0.06, prompts "
        "without a judge 0.3, unless it is set.",
    )
    source_weights: dict[Annotated[str, Field(max_length=500)], Annotated[float, Field(ge=0, le=100)]] = field(
        default_factory=dict,
        max_length=100,
        description="Multiplies the score by the weight of the first source pattern that matches: {'notes/*': 1.5}. "
        "A weight of 0 removes the source. Lines at its end (#L1-L3) may be left out.",
    )
    time_weight: float = field(
        default=0.5,
        ge=0,
        le=5,
        description="Weight of the time retriever, which finds the memories of the period that the query names; 0 does "
        "not run it.",
    )
    speaker_weight: float = field(
        default=0.2,
        ge=0,
        le=5,
        description="How much a memory that the user said gains if the query is about the asker (I, my); 0 is off.",
    )
    decay: bool = field(
        default=False, description="Whether scores decay with age. Identity and evergreen memories never decay."
    )
    half_life_days: float = field(
        default=30, gt=0, le=36500, description="The age in days at which decay halves a score."
    )
    importance_slows_decay: float = field(
        default=0.0, ge=0, le=10, description="An importance of 1 extends the half-life by this many half-lives."
    )
    quality: Quality = field(
        default="off",
        description="How importance and recent use affect the score: off, added (add) or as a factor (multiply).",
    )
    recency_share: float = field(default=0.05, ge=0, le=1, description="The share of recent use in the quality step.")
    importance_share: float = field(
        default=0.15, ge=0, le=1, description="The share of importance in the quality step."
    )
    access_half_life_days: float = field(
        default=30,
        gt=0,
        le=36500,
        description="The days since its last use after which a memory's recency is one half.",
    )
    dedup: bool = field(default=True, description="Whether to leave out a hit whose text equals that of a higher hit.")
    diversity: float = field(
        default=0.0,
        ge=0,
        le=1,
        description="MMR: 0 is off, 1 considers only diversity. Lowers recall of queries that need several memories.",
    )
    judge: Judging = field(
        default="order",
        description="Whether the judge reads the best hits: it orders them and gives their relevance (order), also "
        "leaves out what does not answer or help (filter), or does not run (off). Chat, MCP, hooks and /v1/context "
        "filter unless it is set.",
    )
    judge_depth: int = field(default=10, ge=1, le=100, description="How many of the best hits the judge reads.")
    judge_weight: float = field(
        default=0.1,
        ge=0,
        le=1,
        description="How much the judge's logit adds to the score of a hit, as a share of the best score.",
    )

    @property
    def version(self) -> str:
        """A hash of all parameters: every change gives another one, and equal tunings have the same."""
        return hash_text(json.dumps({name: _without_type(value) for name, value in self._values().items()}))

    def __hash__(self) -> int:
        weights = frozenset(self.source_weights.items())
        return hash(tuple((self._values() | {"source_weights": weights}).values()))

    def with_parameters(self, **parameters: Any) -> Tuning:
        """Return this tuning with some parameters changed, checked against their ranges."""
        return parse_tuning(self.model_dump() | expand(parameters))


def _without_type(value: Any) -> Any:
    """A parameter's value with every number as a float: a default may be written 60 where a checked value is 60.0."""
    if isinstance(value, dict):
        return {name: float(number) for name, number in value.items()}
    return float(value) if isinstance(value, int) else value


def parse_tuning(parameters: Mapping[str, Any]) -> Tuning:
    """A tuning from plain values. `Invalid` names every parameter that is wrong."""
    expanded = expand(parameters)
    if not expanded:
        return Tuning()
    weights = expanded.get("source_weights")
    for pattern in weights if isinstance(weights, Mapping) else ():
        check_unicode("source_weights", pattern)
    from pydantic import ValidationError

    try:
        return Tuning.model_validate(expanded)
    except ValidationError as error:
        raise Invalid("; ".join(_sentence(problem) for problem in error.errors())) from None


def expand(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters by their Python names, with `preset` and `hybrid` replaced by every parameter that they set.

    Parameters given beside a preset or block take precedence over it; a block takes precedence over a preset.
    """
    named = {parameter_name(name): value for name, value in parameters.items()}
    whole = {name: value for name in WHOLE if (value := named.pop(name, None)) is not None}
    if not whole:
        return named
    from retentive.ranking.hybrid import parse_hybrid  # which is made of tunings
    from retentive.ranking.presets import preset

    tuning = parse_hybrid(whole["hybrid"]).tuning() if "hybrid" in whole else preset(str(whole["preset"]))
    return tuning.model_dump(exclude=set(OUTSIDE_PRESETS)) | named


WHOLE = ("preset", "hybrid")
"""Names that stand for every parameter of the ranking, wherever parameters are given; see `OUTSIDE_PRESETS`."""

OUTSIDE_PRESETS = ("min_relevance", "judge", "judge_depth", "judge_weight")
"""Parameters that no preset or block sets: relevance and its judge, which read what was ranked."""


RENAMED = {
    "match_least": "min_match",
    "spread_least": "min_score_range",
    "standout_least": "min_lead",
    "pool_floor": "min_candidates",
    "semantic_floor": "min_cosine",
    "score_floor": "min_score",
    "common_words": "max_document_frequency",
}
"""Parameters of earlier versions by their former names."""

REMOVED = {
    "rank_base": "RRF counts ranks from 1; ranks from 0 are the same as an rrf_k that is smaller by 1",
    "context_tokens": "it is the setting llm.context_tokens now",
    "recent_turns": "it is the setting llm.recent_turns now",
    **dict.fromkeys(
        ("spread_depth", "short_words", "context_words", "pool_factor", "relevance_share"),
        "its value is fixed now",
    ),
}
"""Parameters that earlier versions had, with what holds instead."""


def parameter_name(name: str) -> str:
    """The Python name of a parameter: `keywordWeight` and `keyword-weight` mean `keyword_weight`."""
    return _CAMEL.get(name, name.replace("-", "_"))


_CAMEL = {to_camel(name): name for name in (*Tuning.model_fields, *RENAMED, *REMOVED)}


def from_earlier_version(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Saved parameters under their present names, without those that were removed."""
    present = {RENAMED.get(name, name): value for name, value in saved.items() if name not in REMOVED}
    if saved.get("rank_base") == 0:
        present["rrf_k"] = max(0.0, saved.get("rrf_k", Tuning().rrf_k) - 1)
    return present


def unknown_parameter(name: str) -> str:
    """A sentence about a name that is no parameter: its present name, the one that is most like it, or all of them."""
    former = parameter_name(name)
    if former in RENAMED:
        return f"there is no parameter '{name}'; it is called '{RENAMED[former]}' now"
    if former in REMOVED:
        return f"there is no parameter '{name}'; {REMOVED[former]}"
    names = (*Tuning.model_fields, *WHOLE)
    near = did_you_mean(name, names) or f"; the parameters are {', '.join(names)}"
    return f"there is no parameter '{name}'{near}"


def _sentence(problem: Any) -> str:
    name = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return unknown_parameter(name)
    return f"{name}: {plain_message(problem['msg'])}, not {problem['input']!r}"
