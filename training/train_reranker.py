"""Train the student of the cross-encoder: `python -m training.train_reranker FOLDER OUT`.

FOLDER has `data.npz.xz`, `bge.onnx.xz`, and of `training.teacher` the files `candidates.npz` and `student-start-*.npz`.
The student learns the teacher's logits and order; what it reads in the product is a turn alone, so that is most of what
it learns.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch
from torch import Tensor

from training import measure
from training.bert import Bert, run
from training.candidates import Candidates, load_candidates
from training.device_data import Data, Texts, open_weights
from training.losses import agreement, evidence, some_candidates
from training.sampling import EVIDENCE_WEIGHT, SOURCE_WEIGHT, QuerySampler, weights_of
from training.speed import steps_in
from training.weight_files import load_weights, save_weights

SEED = 15
QUERIES, PASSAGES, READ = 160, 96, 16
STEP_TOKENS = 60_000


def _loss(
    model: Bert, data: Data, texts: Texts, queries: Texts, found: Candidates, asked: Tensor, context: bool,
    weight: Tensor,
) -> Tensor:  # fmt: skip
    columns = some_candidates(found, asked, READ, hard=0.2)
    number = found.number[asked].gather(1, columns)
    present = number >= 0
    row, column = present.nonzero(as_tuple=True)
    pairs = texts.pairs(queries, asked[row], number[row, column], context=context)
    read = run(model.relevance, data.pool, pairs, budget=STEP_TOKENS)
    scores = torch.zeros(number.shape, device=data.device).index_put((row, column), read)
    alone, with_context = (table[asked].gather(1, columns) for table in (found.alone, found.context))
    teacher = with_context if context else 0.8 * alone + 0.2 * with_context
    gold, beside = found.gold[asked].gather(1, columns), found.beside[asked].gather(1, columns)
    label = (weight * evidence(scores, gold, present & ~gold & ~beside)).mean()
    pointwise = ((scores - teacher) ** 2).masked_fill(~present, 0.0).sum() / present.sum()
    return agreement(scores, teacher, present).mean() + 0.05 * pointwise + 0.2 * label


def train(
    model: Bert, data: Data, queries: Candidates, passages: Candidates, *, steps: int, rate: float, seconds: float
) -> int:
    """All steps, three in four of which read the turn alone; return how many."""
    arrays = data.arrays
    often = weights_of(arrays["sources"], arrays["query_source"], SOURCE_WEIGHT)
    counts = weights_of(arrays["sources"], arrays["query_source"], EVIDENCE_WEIGHT)
    label_weight = torch.from_numpy(counts).float().to(data.device)
    sampler = QuerySampler(arrays["query_conversation"], often, seed=SEED)
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01, fused=data.device == "cuda")

    def loss_of(step: int) -> Tensor:
        asked = torch.from_numpy(sampler.draw(QUERIES)).to(data.device)
        loss = _loss(model, data, data.turns, data.queries, queries, asked, step % 4 == 3, label_weight[asked])
        asked = torch.randint(len(data.passage_queries), (PASSAGES,), device=data.device)
        ones = torch.ones(len(asked), device=data.device)
        return loss + _loss(model, data, data.passages, data.passage_queries, passages, asked, False, ones)

    if seconds:
        steps = steps_in(seconds, lambda: loss_of(0).backward(), data.device)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=steps + 1, pct_start=0.05)
    began = time.monotonic()
    for step in range(steps):
        loss = loss_of(step)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        if step % 200 == 0 or step == steps - 1:
            print(f"student step {step} loss {loss.item():.3f} at {time.monotonic() - began:.0f} s", flush=True)
    return steps


def main() -> None:
    """Train, measure and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=2500)
    parser.add_argument("--rate", type=float, default=1.5e-4)
    parser.add_argument("--seconds", type=float, default=0.0)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(SEED)
    data = Data(options.folder / "data.npz.xz", device)
    queries, passages = load_candidates(options.folder / "candidates.npz", device)
    model = Bert(load_weights(options.folder, "student-start")).to(device).train()
    print(f"n: {len(data.queries):,} queries, {len(data.passage_queries):,} passages; {len(model.layers)} layers")
    wanted = {"steps": options.steps, "rate": options.rate, "seconds": options.seconds}
    steps = train(model, data, queries, passages, **wanted)
    model.eval()
    base = Bert(open_weights(options.folder / "bge.onnx.xz")).to(device).eval()
    figures = {}
    for name, one in data.development.items():
        found = measure.vectors(base, data.pool, one.queries) @ measure.vectors(base, data.pool, one.texts).T
        figures[name] = measure.reranked(model, data.pool, one, found.masked_fill(~one.inside, -torch.inf), 50)
        print("student", name, {form: measure.show(values) for form, values in figures[name].items()}, flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    save_weights(options.out, "reranker", model.weights())
    recipe = {"steps": steps, "rate": options.rate, "seed": SEED, "layers": len(model.layers)}
    (options.out / "reranker.json").write_text(json.dumps({"recipe": recipe, "reranked": figures}, indent=1))


if __name__ == "__main__":
    main()
