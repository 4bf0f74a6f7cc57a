"""Measures of a ranking on the development sets, on the device: any@1, any@5, any@10 and nDCG@10."""

from __future__ import annotations

import torch
from torch import Tensor

from training.bert import Bert, run
from training.device_data import DevelopmentSet, Texts

BUDGET = 400_000
"""Tokens in one batch when nothing is trained."""

COLUMNS = ("any@1", "any@5", "any@10", "nDCG@10")


def metrics(scores: Tensor, relevant: Tensor) -> dict[str, float]:
    """The means over all queries; a score of minus infinity is never found."""
    best = scores.topk(min(10, scores.shape[1]), dim=1)
    found = relevant.gather(1, best.indices) & best.values.isfinite()
    discount = 1 / torch.log2(torch.arange(2, 2 + found.shape[1], device=scores.device).float())
    ideal = discount.cumsum(0)[relevant.sum(1).clamp(1, len(discount)) - 1]
    values = {f"any@{k}": found[:, :k].any(1).float().mean() for k in (1, 5, 10)}
    values["nDCG@10"] = ((found * discount).sum(1) / ideal).mean()
    return {name: float(value) for name, value in values.items()}


def show(values: dict[str, float]) -> str:
    """The figures in one line."""
    return " ".join(f"{values[name]:.3f}" if name == "nDCG@10" else f"{100 * values[name]:.1f}" for name in COLUMNS)


@torch.no_grad()
def vectors(model: Bert, pool: Tensor, texts: Texts, *, context: bool = False) -> Tensor:
    """The unit vectors of all texts."""
    chosen = torch.arange(len(texts), device=pool.device)
    pieces = texts.with_context(chosen) if context else texts.alone(chosen)
    return run(model.vector, pool, pieces, budget=BUDGET)


@torch.no_grad()
def dense(model: Bert, pool: Tensor, one: DevelopmentSet) -> dict[str, dict[str, float]]:
    """Exact search by vectors of the memories alone, with their context, and by the better of the two."""
    queries = vectors(model, pool, one.queries)
    alone = (queries @ vectors(model, pool, one.texts).T).masked_fill(~one.inside, -torch.inf)
    forms = {"alone": alone}
    if bool((one.texts.before >= 0).any()):
        context = queries @ vectors(model, pool, one.texts, context=True).T
        forms["context"] = context.masked_fill(~one.inside, -torch.inf)
        forms["both"] = torch.maximum(alone, forms["context"])
    return {name: metrics(scores, one.relevant) for name, scores in forms.items()}


@torch.no_grad()
def reranked(model: Bert, pool: Tensor, one: DevelopmentSet, first: Tensor, most: int) -> dict[str, dict[str, float]]:
    """The best memories by given scores, in the order of a cross-encoder that reads them alone or with context."""
    best = first.topk(min(most, first.shape[1]), dim=1)
    asked, place = best.values.isfinite().nonzero(as_tuple=True)
    chosen = best.indices[asked, place]
    read = {}
    for name, context in (("alone", False), ("context", True)):
        pairs = one.texts.pairs(one.queries, asked, chosen, context=context)
        scores = torch.full_like(first, -torch.inf)
        scores[asked, chosen] = run(model.relevance, pool, pairs, budget=BUDGET).to(scores.dtype)
        read[name] = scores
    read["mean"] = (read["alone"] + read["context"]) / 2
    return {name: metrics(scores, one.relevant) for name, scores in read.items()}
