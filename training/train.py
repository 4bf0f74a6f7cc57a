"""Train the embedder: `python -m training.train FOLDER OUT`.

FOLDER has `data.npz.xz`, `bge.onnx.xz` and `candidates.npz` (of `training.teacher`). OUT gets the weights. A query's
vector is compared with those of turns alone and of turns with the one before them; the better of the two counts as
well, because a memory may have both.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as functional
from torch import Tensor

from training import measure
from training.bert import Bert, run
from training.candidates import load_candidates
from training.device_data import Data, open_weights
from training.losses import TEACHER_TEMPERATURE, agreement, evidence, some_candidates
from training.recipe import read_options
from training.sampling import EVIDENCE_WEIGHT, SOURCE_WEIGHT, QuerySampler, weights_of
from training.speed import steps_in
from training.weight_files import save_weights

STEP_TOKENS = 48_000
"""Tokens in one batch of a step: few large batches, of texts of about the same length."""


@dataclass
class Recipe:
    """What can be changed on the command line."""

    steps: int = 1500
    seed: int = 15
    rate: float = 6e-5
    embedding_rate: float = 1 / 3
    queries: int = 160
    read: int = 20
    passages: int = 128
    read_passages: int = 8
    texts: int = 192
    long_texts: int = 96
    temperature: float = 0.03
    context: float = 0.5
    label: float = 0.3
    distil: float = 1.5
    passage_label: float = 0.3
    passage_distil: float = 0.3
    passage_keep: float = 0.6
    keep: float = 2.0
    mean_share: float = 0.25
    seconds: float = 0.0
    """If set, the number of steps is what fits into this time by the speed of a few, instead of `steps`."""


class Trainer:
    """The embedder, the data and the losses."""

    def __init__(self, folder: Path, recipe: Recipe, device: str) -> None:
        self.recipe = recipe
        self.data = data = Data(folder / "data.npz.xz", device)
        self.queries, self.found_passages = load_candidates(folder / "candidates.npz", device)
        start = open_weights(folder / "bge.onnx.xz")
        self.base = Bert(start).to(device).eval()
        self.model = Bert(start).to(device).train()
        arrays = data.arrays
        often = weights_of(arrays["sources"], arrays["query_source"], SOURCE_WEIGHT)
        counts = weights_of(arrays["sources"], arrays["query_source"], EVIDENCE_WEIGHT)
        self.label_weight = torch.from_numpy(counts).float().to(device)
        self.sampler = QuerySampler(arrays["query_conversation"], often, seed=recipe.seed)
        self.query_conversation = torch.from_numpy(arrays["query_conversation"]).long().to(device)
        bounds = torch.from_numpy(arrays["conversations"]).long().to(device)
        numbers = torch.arange(len(data.turns), device=device)
        self.turn_conversation = torch.searchsorted(bounds, numbers, right=True) - 1
        self.kept = measure.vectors(self.base, data.pool, data.texts)
        self.kept_turns = measure.vectors(self.base, data.pool, data.turns)
        self.kept_passages = measure.vectors(self.base, data.pool, data.passages)
        self.kept_passage_queries = measure.vectors(self.base, data.pool, data.passage_queries)
        self.long_turns = (data.turns.length > 60).nonzero()[:, 0]
        self.long_passages = (data.passages.length > 60).nonzero()[:, 0]

    def vectors(self, pieces: object) -> Tensor:
        """Unit vectors, with gradients."""
        return run(self.model.vector, self.data.pool, pieces, budget=STEP_TOKENS)

    def conversations(self) -> dict[str, Tensor]:
        """The losses of some queries of conversations."""
        recipe, data, device = self.recipe, self.data, self.data.device
        asked = torch.from_numpy(self.sampler.draw(recipe.queries)).to(device)
        columns = some_candidates(self.queries, asked, recipe.read)
        number = self.queries.number[asked].gather(1, columns)
        present = number >= 0
        unique, where = torch.unique(number.clamp(min=0), return_inverse=True)
        query, turns = self.vectors(data.queries.alone(asked)), self.vectors(data.turns.alone(unique))
        scores = query @ turns.T / recipe.temperature
        alone, context = (table[asked].gather(1, columns) for table in (self.queries.alone, self.queries.context))
        mean = (alone + context) / 2
        target = (1 - recipe.mean_share) * alone + recipe.mean_share * context
        losses = {"distil": agreement(scores.gather(1, where), target, present).mean()}
        gold = torch.zeros(scores.shape, dtype=torch.bool, device=device)
        known = torch.zeros_like(gold)
        row = torch.arange(len(asked), device=device)[:, None].expand_as(where)
        is_gold, beside = (mask[asked].gather(1, columns) for mask in (self.queries.gold, self.queries.beside))
        gold[row[is_gold], where[is_gold]] = True
        plain = present & ~is_gold & ~beside
        known[row[plain], where[plain]] = True
        elsewhere = self.turn_conversation[unique][None] != self.query_conversation[asked][:, None]
        weight = self.label_weight[asked]
        losses["label"] = (weight * evidence(scores, gold, (known | elsewhere) & ~gold)).mean()
        if recipe.context:
            in_context = self.vectors(data.turns.with_context(unique))
            read = query @ in_context.T / recipe.temperature
            best = torch.maximum(scores, read)
            losses["distil_context"] = agreement(read.gather(1, where), mean, present).mean()
            losses["distil_best"] = agreement(best.gather(1, where), mean, present).mean()
            losses["label_best"] = (weight * evidence(best, gold, (known | elsewhere) & ~gold)).mean()
        return losses

    def passages(self) -> dict[str, Tensor]:
        """The losses of some questions and passages."""
        recipe, data = self.recipe, self.data
        asked = torch.randint(len(data.passage_queries), (recipe.passages,), device=data.device)
        columns = some_candidates(self.found_passages, asked, recipe.read_passages)
        number = self.found_passages.number[asked].gather(1, columns)
        unique, where = torch.unique(number, return_inverse=True)
        query, texts = self.vectors(data.passage_queries.alone(asked)), self.vectors(data.passages.alone(unique))
        scores = query @ texts.T / recipe.temperature
        teacher = self.found_passages.alone[asked].gather(1, columns)
        is_gold = self.found_passages.gold[asked].gather(1, columns)
        gold = torch.zeros(scores.shape, dtype=torch.bool, device=data.device).scatter(1, where, is_gold)
        # What the teacher finds about as good as the evidence may answer the question too.
        best = teacher.masked_fill(~is_gold, -torch.inf).amax(1, keepdim=True)
        unsure = torch.zeros_like(gold).scatter(1, where, teacher > best - 1.5)
        # On plain passages the untrained model ranks about as well as the teacher: its order is kept too.
        then = self.kept_passage_queries[asked] @ self.kept_passages[unique].T / recipe.temperature
        every = torch.ones_like(gold)
        return {
            "passage_keep": agreement(scores, TEACHER_TEMPERATURE * then, every).mean(),
            "passage_distil": agreement(scores.gather(1, where), teacher, torch.ones_like(is_gold)).mean(),
            "passage_label": evidence(scores, gold, ~gold & ~unsure).mean(),
        }

    def keeping(self) -> Tensor:
        """How far the vectors of random texts have moved from those of the untrained model."""
        recipe, data, device = self.recipe, self.data, self.data.device
        some = torch.randint(len(data.texts), (recipe.texts,), device=device)
        turns = self.long_turns[torch.randint(len(self.long_turns), (recipe.long_texts // 2,), device=device)]
        at = torch.randint(len(self.long_passages), (recipe.long_texts // 2,), device=device)
        passages = self.long_passages[at]
        now = [self.vectors(data.texts.alone(some)), self.vectors(data.turns.alone(turns))]
        now.append(self.vectors(data.passages.alone(passages)))
        then = torch.cat([self.kept[some], self.kept_turns[turns], self.kept_passages[passages]])
        return _distance(torch.cat(now), then)

    def loss(self) -> tuple[Tensor, dict[str, Tensor]]:
        """The whole loss of a step, and its parts."""
        recipe = self.recipe
        parts = self.conversations() | self.passages() | {"keep": self.keeping()}
        share = {
            "distil": recipe.distil,
            "label": recipe.label,
            "distil_context": recipe.distil * recipe.context,
            "distil_best": recipe.distil * recipe.context,
            "label_best": recipe.label * recipe.context,
            "passage_distil": recipe.passage_distil,
            "passage_label": recipe.passage_label,
            "passage_keep": recipe.passage_keep,
            "keep": recipe.keep,
        }
        total = torch.stack([share[name] * part for name, part in parts.items()]).sum()
        return total, parts

    def try_step(self) -> None:
        """Compute the gradients of a step."""
        self.loss()[0].backward()

    def train(self) -> None:
        """All steps."""
        recipe, model = self.recipe, self.model
        embeddings = [model.words, model.positions, model.types]
        rest = [one for one in model.parameters() if all(one is not other for other in embeddings)]
        groups = [{"params": embeddings, "lr": recipe.rate * recipe.embedding_rate}, {"params": rest}]
        optimiser = torch.optim.AdamW(groups, lr=recipe.rate, weight_decay=0.01, fused=self.data.device == "cuda")
        rates = [recipe.rate * recipe.embedding_rate, recipe.rate]
        if recipe.seconds:
            recipe.steps = steps_in(recipe.seconds, self.try_step, self.data.device)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rates, total_steps=recipe.steps + 1, pct_start=0.05)
        began = time.monotonic()
        for step in range(recipe.steps):
            loss, parts = self.loss()
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            if step % 100 == 0 or step == recipe.steps - 1:
                shown = " ".join(f"{name} {part.item():.3f}" for name, part in parts.items())
                print(f"step {step} loss {loss.item():.3f} {shown} at {time.monotonic() - began:.0f} s", flush=True)

    def measure(self) -> dict[str, dict[str, dict[str, float]]]:
        """Search by vectors alone on the development sets."""
        self.model.eval()
        found = {name: measure.dense(self.model, self.data.pool, one) for name, one in self.data.development.items()}
        for name, forms in found.items():
            print("dense", name, {form: measure.show(values) for form, values in forms.items()}, flush=True)
        return found


def _distance(now: Tensor, then: Tensor) -> Tensor:
    """How far unit vectors are from others, on average: 1 - cosine."""
    return (1 - functional.cosine_similarity(now, then)).mean()


def main() -> None:
    """Train, measure and save."""
    folder, out, recipe = read_options(__doc__, Recipe)
    torch.manual_seed(recipe.seed)
    trainer = Trainer(folder, recipe, "cuda" if torch.cuda.is_available() else "cpu")
    print(f"n: {len(trainer.data.queries):,} queries, {len(trainer.data.passage_queries):,} passages; {recipe}")
    trainer.train()
    found = trainer.measure()
    out.mkdir(parents=True, exist_ok=True)
    save_weights(out, "embedder", trainer.model.weights())
    written = json.dumps({"recipe": asdict(recipe), "dense": found}, indent=1)
    (out / "embedder.json").write_text(written, encoding="utf-8")


if __name__ == "__main__":
    main()
