"""Ranking: pure arithmetic from the candidates of the retrievers to the hits of a recall.

It can be used alone, for any ranked lists: `ranked_list` makes one of ids and scores, `fuse` fuses lists, and `rank`
runs all steps. docs/fusion.md shows how.
"""

from retentive.models import Candidate, Hit, Reason
from retentive.ranking.fusion import fuse
from retentive.ranking.lists import RankedList, Ranking, ranked_list
from retentive.ranking.presets import PRESETS, preset
from retentive.ranking.rank import drop_duplicates, order, pick, rank
from retentive.ranking.tuning import Tuning, parse_tuning

__all__ = [
    "PRESETS",
    "Candidate",
    "Hit",
    "RankedList",
    "Ranking",
    "Reason",
    "Tuning",
    "drop_duplicates",
    "fuse",
    "order",
    "parse_tuning",
    "pick",
    "preset",
    "rank",
    "ranked_list",
]
