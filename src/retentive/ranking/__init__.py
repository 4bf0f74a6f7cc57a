"""Ranking: pure arithmetic from what the retrievers found to what the user gets."""

from retentive.ranking.presets import PRESETS, preset
from retentive.ranking.rank import order, pick, rank
from retentive.ranking.rerank import rerank
from retentive.ranking.tuning import Tuning, parse_tuning

__all__ = ["PRESETS", "Tuning", "order", "parse_tuning", "pick", "preset", "rank", "rerank"]
