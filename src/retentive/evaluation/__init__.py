"""Evaluation: how well recall finds what it should, on public sets and on one's own queries."""

from retentive.evaluation.evaluation_set import EvaluationQuery, JudgedSet, Pool, read_judged_set
from retentive.evaluation.result import Evaluation, Measured, evaluate, summarise

__all__ = ["Evaluation", "JudgedSet", "Measured", "Pool", "EvaluationQuery", "evaluate", "read_judged_set", "summarise"]
