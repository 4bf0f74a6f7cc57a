"""Named tunings: our default, and the ways in which other systems are known to fuse."""

from __future__ import annotations

from retentive.errors import Invalid
from retentive.ranking.tuning import Tuning

# Fusions that know a memory only by the retrievers that returned it need deep pools; full-score fusion does not.
_PLAIN = Tuning(
    semantic_weight=1.0,
    keyword_weight=1.0,
    spread_least=0.0,
    standout_least=0.0,
    neighbour_weight=0.0,
    session_weight=0.0,
    time_weight=0.0,
    quality="off",
    pool_factor=5,
    pool_floor=50,
)

PRESETS: dict[str, Tuning] = {
    "default": Tuning(),
    # Ranks from 1 and k = 60, as in the paper that introduced RRF (Cormack, Clarke and Buettcher, 2009).
    "classic-rrf": _PLAIN.with_parameters(fusion="rrf", rrf_k=60, rank_base=1),
    # Ranks from 0 and k = 5, so that a first place in one retriever outweighs middling places in both.
    "steep-rrf": _PLAIN.with_parameters(fusion="rrf", rrf_k=5, rank_base=0),
    # Min-max within each retriever, half and half.
    "relative-score": _PLAIN.with_parameters(fusion="relative", semantic_scaling="min-max", keyword_scaling="min-max"),
    # Cosine and saturated BM25 as they are, seven to three.
    "weighted": _PLAIN.with_parameters(fusion="weighted", semantic_weight=0.7, keyword_weight=0.3),
    "semantic-only": _PLAIN.with_parameters(fusion="weighted", semantic_weight=1.0, keyword_weight=0.0),
    "keyword-only": _PLAIN.with_parameters(fusion="weighted", semantic_weight=0.0, keyword_weight=1.0),
}


def preset(name: str) -> Tuning:
    """The tuning of that name."""
    if name not in PRESETS:
        raise Invalid(f"there is no preset '{name}'; the presets are {', '.join(PRESETS)}")
    return PRESETS[name]
