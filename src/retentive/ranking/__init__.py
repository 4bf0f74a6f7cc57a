"""Ranking: pure arithmetic from the candidates of the retrievers to the hits of a recall."""

from retentive.ranking.presets import PRESETS, preset
from retentive.ranking.rank import order, pick, rank
from retentive.ranking.rerank import rerank
from retentive.ranking.tuning import Tuning, parse_tuning

__all__ = ["PRESETS", "Tuning", "order", "parse_tuning", "pick", "preset", "rank", "rerank"]
