"""Evaluation: how well recall finds relevant memories, on public evaluation sets and on your own queries."""

from retentive.evaluation.evaluate import Evaluation, SystemResult, evaluate, summarise
from retentive.evaluation.evaluation_set import CorpusStats, EvaluationQuery, EvaluationSet, read_evaluation_set

__all__ = [
    "CorpusStats",
    "Evaluation",
    "EvaluationQuery",
    "EvaluationSet",
    "SystemResult",
    "evaluate",
    "read_evaluation_set",
    "summarise",
]
