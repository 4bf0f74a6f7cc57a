"""Evaluation: how well recall finds what it should, on public sets and on one's own questions."""

from recollect.evaluation.judged import JudgedSet, Pool, Question, read_judged_set
from recollect.evaluation.result import Evaluation, Measured, evaluate, summarise

__all__ = ["Evaluation", "JudgedSet", "Measured", "Pool", "Question", "evaluate", "read_judged_set", "summarise"]
