"""Ranking: pure arithmetic from what the legs found to what the user gets."""

from recollect.ranking.presets import PRESETS, preset
from recollect.ranking.rank import order, pick, rank
from recollect.ranking.rerank import rerank
from recollect.ranking.tuning import Tuning, parse_tuning

__all__ = ["PRESETS", "Tuning", "order", "parse_tuning", "pick", "preset", "rank", "rerank"]
