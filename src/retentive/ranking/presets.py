"""Named tunings: our default, and the fusion methods of other systems."""

from __future__ import annotations

from typing import Any

from retentive.errors import Invalid, did_you_mean
from retentive.ranking.tuning import Tuning

# Without full-score fusion, a memory counts only in the retrievers that returned it, so the pools must be deep.
_PLAIN = Tuning.model_construct(
    semantic_weight=1.0,
    keyword_weight=1.0,
    min_score_range=0.0,
    min_lead=0.0,
    short_keyword_share=1.0,
    min_match=0.0,
    neighbour_weight=0.0,
    session_weight=0.0,
    time_weight=0.0,
    speaker_weight=0.0,
    min_candidates=50,
)


def _with(**parameters: Any) -> Tuning:
    return _PLAIN.model_copy(update=parameters)  # without a check: nothing here is given by a user


PRESETS: dict[str, Tuning] = {
    "default": Tuning(),
    # Ranks from 1 and k = 60, as in the paper that introduced RRF (Cormack, Clarke and Buettcher, 2009).
    "classic-rrf": _with(fusion="rrf", rrf_k=60.0),
    # k = 5 with ranks from 0, which is 4 with ranks from 1: a first rank in one retriever outweighs middle ranks in
    # both.
    "steep-rrf": _with(fusion="rrf", rrf_k=4.0),
    # Min-max within each retriever, half and half.
    "relative-score": _with(fusion="relative", semantic_scaling="min-max", keyword_scaling="min-max"),
    # Cosine and BM25 mapped to 0..1, weighted 0.7 and 0.3.
    "weighted": _with(fusion="weighted", semantic_weight=0.7, keyword_weight=0.3),
    "semantic-only": _with(fusion="weighted", semantic_weight=1.0, keyword_weight=0.0),
    "keyword-only": _with(fusion="weighted", semantic_weight=0.0, keyword_weight=1.0),
}


def preset(name: str) -> Tuning:
    """Return the preset of that name."""
    if name not in PRESETS:
        near = did_you_mean(name, PRESETS) or f"; the presets are {', '.join(PRESETS)}"
        raise Invalid(f"there is no preset '{name}'{near}")
    return PRESETS[name]
