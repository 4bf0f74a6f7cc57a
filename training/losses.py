"""The losses: agreement with the teacher's order, and evidence before everything else."""

from __future__ import annotations

import torch
import torch.nn.functional as functional
from torch import Tensor

from training.candidates import Candidates

TEACHER_TEMPERATURE = 1.5


def agreement(scores: Tensor, teacher: Tensor, present: Tensor) -> Tensor:
    """The divergence of each query's distribution over its candidates from the teacher's."""
    target = functional.softmax((teacher / TEACHER_TEMPERATURE).masked_fill(~present, -torch.inf), dim=1)
    log_scores = functional.log_softmax(scores.masked_fill(~present, -1e4), dim=1)
    log_target = torch.log(target.clamp(min=1e-8))
    return (target * (log_target - log_scores)).masked_fill(~present, 0.0).sum(1)


def evidence(scores: Tensor, gold: Tensor, negative: Tensor) -> Tensor:
    """Minus the log of the evidence's share of each query; 0 for a query without evidence."""
    at_all = torch.logsumexp(scores.masked_fill(~(gold | negative), -1e4), dim=1)
    found = torch.logsumexp(scores.masked_fill(~gold, -1e4), dim=1)
    return torch.where(gold.any(1), at_all - found, 0.0)


def some_candidates(candidates: Candidates, queries: Tensor, size: int, *, hard: float = 0.4) -> Tensor:
    """Columns of some candidates of each query: its evidence, then by chance, those the teacher ranks high likelier."""
    present = candidates.number[queries] >= 0
    keys = torch.rand(present.shape, device=present.device)
    rank = candidates.alone[queries].masked_fill(~present, -torch.inf).argsort(1, descending=True).argsort(1)
    keys = keys - hard * (rank < size) - 10.0 * candidates.gold[queries] + 20.0 * ~present
    return keys.topk(min(size, keys.shape[1]), dim=1, largest=False).indices
