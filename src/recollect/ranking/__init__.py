"""Ranking: pure arithmetic from what the legs found to what the user gets."""

from recollect.ranking.presets import PRESETS, preset
from recollect.ranking.rank import rank
from recollect.ranking.tuning import Tuning, parse_tuning

__all__ = ["PRESETS", "Tuning", "parse_tuning", "preset", "rank"]
