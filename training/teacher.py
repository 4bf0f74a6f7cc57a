"""Fit the cross-encoder to conversations, then score all candidates: `python -m training.teacher FOLDER OUT`.

FOLDER has `data.npz.xz` (of `training.prepare`), `bge.onnx.xz` and `reranker.onnx.xz`. OUT gets the candidates and
their scores.
"""

from __future__ import annotations

import argparse
import copy
import time
from pathlib import Path

import torch
from torch import Tensor

from training import candidates, measure
from training.bert import Bert, run
from training.candidates import Candidates, save_candidates
from training.device_data import Data, Texts, open_weights
from training.losses import agreement, evidence, some_candidates
from training.sampling import EVIDENCE_WEIGHT, SOURCE_WEIGHT, QuerySampler, weights_of

SEED = 15
QUERIES, PASSAGES, READ = 72, 40, 14
"""Queries and passage questions in a step, and candidates read for each."""

RATE = 2e-5
KEEP = 0.6
"""The weight of agreement with the teacher as it was."""


@torch.no_grad()
def score(model: Bert, data: Data, texts: Texts, queries: Texts, found: Candidates, *, context: bool) -> Tensor:
    """The teacher's logit of each candidate."""
    asked, column = (found.number >= 0).nonzero(as_tuple=True)
    pairs = texts.pairs(queries, asked, found.number[asked, column], context=context)
    scores = torch.zeros(found.number.shape, device=data.device)
    scores[asked, column] = run(model.relevance, data.pool, pairs, budget=measure.BUDGET).float()
    return scores


def score_all(model: Bert, data: Data, queries: Candidates, passages: Candidates) -> None:
    """Score the candidates of queries in both readings, and those of passages."""
    queries.alone = score(model, data, data.turns, data.queries, queries, context=False)
    queries.context = score(model, data, data.turns, data.queries, queries, context=True)
    passages.alone = score(model, data, data.passages, data.passage_queries, passages, context=False)
    passages.context = passages.alone


def fit(model: Bert, old: Bert, data: Data, queries: Candidates, passages: Candidates, steps: int) -> None:
    """Train the cross-encoder on evidence, without letting go of what it knows."""
    arrays = data.arrays
    counts = weights_of(arrays["sources"], arrays["query_source"], EVIDENCE_WEIGHT)
    often = weights_of(arrays["sources"], arrays["query_source"], SOURCE_WEIGHT) * (counts > 0)
    sampler = QuerySampler(arrays["query_conversation"], often, seed=SEED)
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01, fused=data.device == "cuda")
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=steps + 1, pct_start=0.1)
    label_weight = torch.from_numpy(counts).float().to(data.device)
    started = time.monotonic()
    for step in range(steps):
        asked = torch.from_numpy(sampler.draw(QUERIES)).to(data.device)
        loss = _loss(model, old, data, data.turns, data.queries, queries, asked, step % 2 == 1, label_weight[asked])
        asked = torch.randint(len(data.passage_queries), (PASSAGES,), device=data.device)
        ones = torch.ones(len(asked), device=data.device)
        loss = loss + 0.5 * _loss(model, old, data, data.passages, data.passage_queries, passages, asked, False, ones)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        if step % 50 == 0 or step == steps - 1:
            print(f"teacher step {step} loss {loss.item():.3f} at {time.monotonic() - started:.0f} s", flush=True)


def _loss(
    model: Bert, old: Bert, data: Data, texts: Texts, queries: Texts, found: Candidates, asked: Tensor, context: bool,
    weight: Tensor,
) -> Tensor:  # fmt: skip
    columns = some_candidates(found, asked, READ, hard=0.0)
    number = found.number[asked].gather(1, columns)
    present = number >= 0
    row, column = present.nonzero(as_tuple=True)
    pairs = texts.pairs(queries, asked[row], number[row, column], context=context)

    def table(model: Bert) -> Tensor:
        scores = torch.zeros(number.shape, device=data.device)
        return scores.index_put((row, column), run(model.relevance, data.pool, pairs, budget=60_000))

    scores = table(model)
    with torch.no_grad():
        before = table(old)
    gold, beside = found.gold[asked].gather(1, columns), found.beside[asked].gather(1, columns)
    label = (weight * evidence(scores, gold, present & ~gold & ~beside)).mean()
    drift = ((scores - before) ** 2).masked_fill(~present, 0.0).sum() / present.sum()
    return label + KEEP * agreement(scores, before, present).mean() + 0.01 * drift


def average(one: Bert, other: Bert) -> Bert:
    """The model whose weights are the mean of two others."""
    mean = copy.deepcopy(one)
    with torch.no_grad():
        for into, second in zip(mean.parameters(), other.parameters(), strict=True):
            into.lerp_(second, 0.5)
    return mean


def compare(name: str, model: Bert, data: Data, first: dict[str, Tensor]) -> float:
    """Print what the model makes of the best 50 memories by vectors; the mean nDCG@10 of both readings over sets."""
    total = []
    for set_name, one in data.development.items():
        found = measure.reranked(model, data.pool, one, first[set_name], 50)
        total.append(found["mean"]["nDCG@10"] + found["alone"]["nDCG@10"])
        print(name, set_name, {form: measure.show(values) for form, values in found.items()}, flush=True)
    return sum(total) / len(total)


def main() -> None:
    """Fit, compare on the development sets, score with the best, and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=320)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(SEED)
    began = time.monotonic()
    data = Data(options.folder / "data.npz.xz", device)
    base = Bert(open_weights(options.folder / "bge.onnx.xz")).to(device).eval()
    old = Bert(open_weights(options.folder / "reranker.onnx.xz")).to(device).eval()
    _clock("loaded", began)
    turns = measure.vectors(base, data.pool, data.turns)
    asked = measure.vectors(base, data.pool, data.queries)
    queries = candidates.of_queries(data, asked, turns, SEED)
    asked = measure.vectors(base, data.pool, data.passage_queries)
    passages = candidates.of_passages(data, asked, measure.vectors(base, data.pool, data.passages), SEED)
    print(f"n: {int((queries.number >= 0).sum()):,} candidate turns, {passages.number.numel():,} passages")
    first = {}
    for name, one in data.development.items():
        found = measure.vectors(base, data.pool, one.queries) @ measure.vectors(base, data.pool, one.texts).T
        first[name] = found.masked_fill(~one.inside, -torch.inf)
        print("untrained", name, measure.show(measure.metrics(first[name], one.relevant)))
    _clock("candidates chosen", began)
    fitted = copy.deepcopy(old).train()
    fit(fitted, old, data, queries, passages, options.steps)
    _clock("fitted", began)
    models = {"old": old, "mean": average(old, fitted), "fitted": fitted}
    best = max(models, key=lambda name: compare(name, models[name], data, first))
    _clock(f"compared; the best is {best}", began)
    score_all(models[best], data, queries, passages)
    _clock("scored", began)
    options.out.mkdir(parents=True, exist_ok=True)
    save_candidates(options.out / "candidates.npz", queries, passages)
    _clock("saved", began)


def _clock(what: str, began: float) -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    print(f"[{time.monotonic() - began:.0f} s] {what}", flush=True)


if __name__ == "__main__":
    main()
