"""Train the judge: `python -m training.judge.train FOLDER OUT --seconds 600`.

FOLDER has `judge.npz.xz` (of `training.judge.prepare`) and `base.onnx.xz`, the cross-encoder that training begins
with. OUT gets the weights and `judge.json` with the recipe and figures of the pieces kept for development. The word
embeddings are not trained: the export takes them from the base.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from dataclasses import asdict, dataclass

import numpy as np
import torch
import torch.nn.functional as functional
from torch import Tensor

from training.bert import Bert, Layer, Pieces, run
from training.device_data import open_weights
from training.judge.changes import ATTRIBUTES, LABELS, NO_CHANGE
from training.judge.prepare import CONTEXT_TOKENS
from training.prepare import load
from training.recipe import read_options
from training.weight_files import save_weights
from training.weights import Weights

STEP_TOKENS = 160_000
READ = 16
"""How many candidates of a query are read in a step."""

POSITIVES, WEAK, HARD = 3, 4, 6

SOURCE_WEIGHT = {
    "written": 3.0, "friendsqa": 1.5, "realmem": 0.7, "qmsum": 0.5, "vehiclemem": 0.7, "ikat-ptkb": 1.0, "madial": 1.0,
    "molweni": 1.0, "recall-bench": 1.0, "proactivemem": 1.0, "precisionmem": 1.0,
}  # fmt: skip
KIND_WEIGHT = {
    "answer": 1.0, "never": 1.4, "prompt": 1.4, "idle": 1.4, "change": 1.0, "swap": 0.6, "timed": 0.4, "rule": 3.0,
    "everyday": 0.5,
}  # fmt: skip


@dataclass(frozen=True)
class Recipe:
    """What one run uses."""

    seconds: float = 300.0
    rate: float = 5e-5
    queries: int = 112
    passages: int = 24
    statements: int = 48
    dropout: float = 0.1
    seed: int = 3
    pointwise: float = 4.0
    listwise: float = 0.3
    answerable: float = 0.5
    average: float = 0.998
    runs: int = 1
    bits: int = 16


class Turns:
    """The turns and queries of one part of the data, on the device."""

    def __init__(self, arrays: dict[str, np.ndarray], prefix: str, device: str) -> None:
        def tensor(name: str) -> Tensor:
            return torch.from_numpy(arrays[prefix + name].astype(np.int64)).to(device)

        self.device = device
        self.pool = torch.from_numpy(arrays["tokens"].astype(np.int32)).to(device)
        self.turns, self.speakers, self.queries = tensor("turns"), tensor("speakers"), tensor("queries")
        self.turn_speaker, self.turn_before = tensor("turn_speaker"), tensor("turn_before")
        self.speaker, self.period, self.group = tensor("query_speaker"), tensor("query_period"), tensor("query_group")
        self.firsts, self.marks = tensor("firsts"), torch.from_numpy(arrays["marks"].astype(np.int64)).to(device)
        self.kinds = [str(arrays[f"{prefix}kinds"][at]) for at in arrays[f"{prefix}query_kind"]]
        self.sources = [str(arrays[f"{prefix}sources"][at]) for at in arrays[f"{prefix}query_source"]]
        self.candidates = tensor("query_candidates")
        labels = arrays[f"{prefix}labels"]
        number = self.firsts.cpu().numpy()[arrays[f"{prefix}query_group"]]
        # 2: evidence, 1: weak, 0: neither
        self.label = torch.zeros(self.candidates.shape, dtype=torch.int64, device=device)
        for value, code in ((1.0, 2), (0.0, 1)):
            chosen = labels[labels[:, 2] == value]
            at = torch.from_numpy(chosen[:, 0].astype(np.int64)).to(device)
            turn = torch.from_numpy(chosen[:, 1].astype(np.int64) + number[chosen[:, 0].astype(np.int64)]).to(device)
            for part in torch.arange(len(at), device=device).split(8192):
                rows, columns = (self.candidates[at[part]] == turn[part][:, None]).nonzero(as_tuple=True)
                self.label[at[part][rows], columns] = code

    def pairs(self, query: Tensor, turn: Tensor, swapped: Tensor, context: Tensor) -> Pieces:
        """[CLS] query [SEP] (mark) speaker: turn [SEP] (the turn before [SEP])."""
        one = torch.ones_like(turn)
        speaker = torch.where(swapped, self.speaker[query], self.turn_speaker[turn])
        before = self.turn_before[turn]
        has = ((before >= 0) & context).long()
        before = before.clamp(min=0)
        first = self.firsts[self.group[query]]
        period = self.period[query]
        inside = (turn - first >= period[:, 0]) & (turn - first <= period[:, 1])
        mark = self.marks[(~inside).long()]
        named = (period[:, 0] >= 0).long()
        teller = self.speakers[self.turn_speaker[before]]
        told = self.turns[before]
        starts = [one * 0, self.queries[query, 0], one, mark[:, 0], self.speakers[speaker, 0], self.turns[turn, 0], one,
                  teller[:, 0], told[:, 0], one]  # fmt: skip
        lengths = [one, self.queries[query, 1], one, mark[:, 1] * named, self.speakers[speaker, 1], self.turns[turn, 1],
                   one, teller[:, 1] * has, told[:, 1].clamp(max=CONTEXT_TOKENS) * has, has]  # fmt: skip
        return Pieces(starts, lengths, second=3)


class Passages:
    """Questions with passages, on the device."""

    def __init__(self, arrays: dict[str, np.ndarray], device: str) -> None:
        self.texts, self.queries, self.nearest = (
            torch.from_numpy(arrays[name].astype(np.int64)).to(device)
            for name in ("passages", "passage_queries", "passage_nearest")
        )

    def pairs(self, query: Tensor, passage: Tensor) -> Pieces:
        """[CLS] question [SEP] passage [SEP]."""
        one = torch.ones_like(query)
        starts = [one * 0, self.queries[query, 0], one, self.texts[passage, 0], one]
        return Pieces(starts, [one, self.queries[query, 1], one, self.texts[passage, 1], one], second=3)


class Statements:
    """Pairs of an older and a newer statement, on the device."""

    def __init__(self, arrays: dict[str, np.ndarray], prefix: str, device: str) -> None:
        self.older, self.speaker, self.newer, self.before, self.label, self.attribute = (
            torch.from_numpy(arrays[f"{prefix}pair_{name}"].astype(np.int64)).to(device)
            for name in ("older", "speaker", "newer", "before", "label", "attribute")
        )
        self.weight = torch.from_numpy(arrays[f"{prefix}pair_weight"]).to(device)

    def pairs(self, chosen: Tensor) -> Pieces:
        """[CLS] [change] speaker: older [SEP] speaker: newer [SEP] (the turn before [SEP])."""
        one = torch.ones_like(chosen)
        before, length = self.before[chosen].unbind(1)
        starts = [one * 0, self.older[chosen, 0], one, self.speaker[chosen, 0], self.newer[chosen, 0], one, before, one]
        has = (length > 0).long()
        lengths = [one, self.older[chosen, 1], one, self.speaker[chosen, 1], self.newer[chosen, 1], one, length, has]
        return Pieces(starts, lengths, second=3)


def with_outputs(weights: Weights, seed: int = 3) -> Weights:
    """The weights with an output for each label of a pair of statements and each attribute beside the logit."""
    more = len(LABELS) + len(ATTRIBUTES)
    width = weights["classifier.weight"].shape[0]
    random = np.random.default_rng(seed).normal(0, 0.02, (width, more)).astype(np.float32)
    return weights | {
        "classifier.weight": np.concatenate([weights["classifier.weight"], random], axis=1),
        "classifier.bias": np.concatenate([weights["classifier.bias"], np.zeros(more, np.float32)]),
    }


def _of_statements(model: Bert, pool: Tensor, data: Statements, recipe: Recipe) -> Tensor:
    chosen = torch.multinomial(data.weight, recipe.statements)
    outputs = run(model.outputs, pool, data.pairs(chosen), budget=STEP_TOKENS)
    label = functional.log_softmax(outputs[:, 1 : 1 + len(LABELS)], 1)
    known = data.label[chosen]
    certain = functional.nll_loss(label, known.clamp(max=NO_CHANGE - 1), reduction="none")
    loss = torch.where(known == NO_CHANGE, -torch.logsumexp(label[:, 2:], 1), certain).mean()
    attribute = data.attribute[chosen]
    has = (attribute >= 0).float()
    named = functional.cross_entropy(outputs[:, 1 + len(LABELS) :], attribute.clamp(min=0), reduction="none")
    return loss + 0.2 * (named * has).sum() / has.sum().clamp(min=1)


@torch.no_grad()
def figures_of_statements(model: Bert, pool: Tensor, data: Statements) -> dict[str, float]:
    """How well the probability of a change separates changes from other pairs, and the attribute named first."""
    every = torch.arange(len(data.label), device=data.label.device)
    outputs = run(model.eval().outputs, pool, data.pairs(every), budget=600_000)
    probability = outputs[:, 1 : 1 + len(LABELS)].softmax(1)
    changes = probability[:, :2].sum(1).cpu().numpy()
    label, read = data.label.cpu().numpy(), data.label < NO_CHANGE
    right = (probability.argmax(1) == data.label)[read].float().mean()
    named = data.attribute >= 0
    attribute = (outputs[:, 1 + len(LABELS) :].argmax(1) == data.attribute)[named].float().mean()
    model.train()
    others = np.sort(changes[label == NO_CHANGE])
    least = others[int(len(others) * 0.99)]
    return {
        f"change/no change n={int((label < 2).sum())}+{int(((label >= 2) & (label < NO_CHANGE)).sum())}": round(
            auroc(changes[label < 2], changes[(label >= 2) & (label < NO_CHANGE)]), 3
        ),
        f"change/pairs of turns n={len(others)}": round(auroc(changes[label < 2], others), 3),
        "changes found, 1 % of pairs of turns taken for one": round(float((changes[label < 2] > least).mean()), 3),
        "labels right": round(float(right), 3),
        "attributes right": round(float(attribute), 3),
    }


def with_dropout(model: Bert, share: float) -> None:
    """Let each layer forget a share of what it adds while the model is trained."""
    plain = Layer.linear

    def linear(layer: Layer, name: str, states: Tensor) -> Tensor:
        found = plain(layer, name, states)
        return functional.dropout(found, share, layer.training) if name in ("out", "down") else found

    for layer in model.layers:
        layer.linear = linear.__get__(layer)  # type: ignore[method-assign]


@torch.no_grad()
def scores(model: Bert, data: Turns, query: Tensor, turn: Tensor) -> Tensor:
    """The logits of pairs, each turn read with the one before it."""
    no = torch.zeros_like(query, dtype=torch.bool)
    swapped = data.speaker[query] >= 0
    evidence = torch.zeros_like(no)
    pieces = data.pairs(query, turn, swapped & evidence, ~no)
    return run(model.relevance, data.pool, pieces, budget=600_000)


@torch.no_grad()
def mined(model: Bert, data: Turns) -> Tensor:
    """The base model's score of every candidate."""
    query, column = (data.candidates >= 0).nonzero(as_tuple=True)
    found = torch.full(data.candidates.shape, -1e4, device=data.device)
    for part in torch.arange(len(query), device=data.device).split(200_000):
        found[query[part], column[part]] = scores(model, data, query[part], data.candidates[query[part], column[part]])
    return found


def auroc(positive: np.ndarray, negative: np.ndarray) -> float:
    """The probability that a positive value is larger than a negative one."""
    order = np.sort(negative)
    below = np.searchsorted(order, positive, "left") + np.searchsorted(order, positive, "right")
    return float(below.mean() / (2 * max(len(negative), 1)))


def figures(model: Bert, data: Turns) -> dict[str, float]:
    """How well the best logit separates queries with and without an answer, in pieces kept for development."""
    model.eval()
    found = mined(model, data)
    best = found.max(1).values.cpu().numpy()
    kinds, sources = np.array(data.kinds), np.array(data.sources)
    result: dict[str, float] = {}
    for name, chosen in [("all", np.ones(len(kinds), bool)), *((one, sources == one) for one in sorted(set(sources)))]:
        for yes, no in (("answer", "never"), ("prompt", "idle")):
            positive, negative = best[chosen & (kinds == yes)], best[chosen & (kinds == no)]
            if len(positive) and len(negative):
                result[f"{name} {yes}/{no} n={len(positive)}+{len(negative)}"] = round(auroc(positive, negative), 3)
    both = [value for name, value in result.items() if name.startswith("all ")]
    result["separates"] = round(sum(both) / len(both), 4)
    top = found.argmax(1)
    hit = data.label.gather(1, top[:, None])[:, 0].cpu().numpy() == 2
    result["any@1 answers"] = round(float(hit[kinds == "answer"].mean()), 3)
    result["any@1 prompts"] = round(float(hit[kinds == "prompt"].mean()), 3)
    model.train()
    return result


class Sampler:
    """Chooses the queries of a step and the candidates that are read with each."""

    def __init__(self, data: Turns, mined: Tensor) -> None:
        self.data = data
        kinds, sources = np.array(data.kinds), np.array(data.sources)
        weight = np.array([SOURCE_WEIGHT[one] for one in sources]) * np.array([KIND_WEIGHT[one] for one in kinds])
        self.weight = torch.from_numpy(weight).to(data.device)
        self.written = torch.from_numpy(sources == "written").to(data.device)
        # A weak turn of an answered query may help; of one without an answer it only looks like an answer.
        self.may_help = torch.from_numpy(np.isin(kinds, ["answer", "prompt", "timed", "change"])).to(data.device)
        self.rank = mined.masked_fill(data.candidates < 0, -1e9).argsort(1, descending=True).argsort(1)
        near = torch.zeros_like(data.label, dtype=torch.bool)
        gold = data.label == 2
        for step in (-1, 1):
            beside = torch.where(gold, data.candidates + step, -5)
            for part in torch.arange(len(gold), device=data.device).split(2048):
                near[part] |= (data.candidates[part][:, :, None] == beside[part][:, None, :]).any(2)
        # Labels of other sources are incomplete: neighbours of evidence and the best-scored turns may answer, too.
        sure = self.written | torch.from_numpy(np.isin(kinds, ["swap"])).to(data.device)
        self.unsure = (near | (self.rank < 2)) & ~gold & ~sure[:, None]

    def draw(self, count: int) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, the columns of their candidates, and which of these are present."""
        asked = torch.multinomial(self.weight, count, replacement=False)
        label, present = self.data.label[asked], self.data.candidates[asked] >= 0
        chance = torch.rand(label.shape, device=self.data.device)
        key = chance + 3.0
        hard = (self.rank[asked] < 3 * HARD) & (label == 0) & (torch.rand_like(chance) < 0.5)
        key = torch.where(hard, chance + 2.0, key)
        for code, most, base in ((1, WEAK, 1.0), (2, POSITIVES, 0.0)):
            mine = label == code
            order = chance.masked_fill(~mine, 9.0).argsort(1).argsort(1)
            key = torch.where(
                mine, torch.where(order < most, base + chance, torch.tensor(8.0, device=chance.device)), key
            )
        key = key.masked_fill(~present | self.unsure[asked], 9.0)
        best = key.topk(READ, dim=1, largest=False)
        return asked, best.indices, best.values < 8.0


def loss_of(
    model: Bert, data: Turns, sampler: Sampler, passages: Passages, statements: Statements, recipe: Recipe
) -> Tensor:
    """The loss of one step."""
    asked, columns, present = sampler.draw(recipe.queries)
    turn, label = data.candidates[asked].gather(1, columns), data.label[asked].gather(1, columns)
    row, column = present.nonzero(as_tuple=True)
    read = asked[row]
    swapped = (data.speaker[read] >= 0) & (label[row, column] == 1)
    context = (torch.rand(recipe.queries, device=data.device) > 0.3)[row]
    pieces = data.pairs(read, turn[row, column], swapped, context)
    logits = run(model.relevance, data.pool, pieces, budget=STEP_TOKENS)
    table = torch.full(present.shape, -1e4, device=data.device).index_put((row, column), logits)
    helps = sampler.may_help[asked][:, None]
    gold, weak = (label == 2) & present, (label == 1) & present
    target = torch.where(gold, 1.0, torch.where(weak & helps, 0.3, 0.0))
    weight = torch.where(weak, torch.where(helps, 0.3, 1.5), 1.0) * present
    pointwise = (
        functional.binary_cross_entropy_with_logits(table.clamp(min=-30), target, reduction="none") * weight
    ).sum() / present.sum()
    has = gold.any(1)
    rivals = table.masked_fill(weak & helps, -1e4)
    listwise = (torch.logsumexp(rivals, 1) - torch.logsumexp(table.masked_fill(~gold, -1e4), 1))[has].mean()
    best = torch.where(has, table.masked_fill(~gold, -1e4).max(1).values, table.max(1).values)
    answerable = functional.binary_cross_entropy_with_logits(best, has.float())
    of_turns = recipe.pointwise * pointwise + recipe.listwise * listwise + recipe.answerable * answerable
    of_statements = _of_statements(model, data.pool, statements, recipe)
    return of_turns + 0.25 * recipe.pointwise * _of_passages(model, data, passages, recipe) + of_statements


def _of_passages(model: Bert, data: Turns, passages: Passages, recipe: Recipe) -> Tensor:
    query = torch.randint(len(passages.queries), (recipe.passages,), device=data.device)
    others = passages.nearest[query][:, torch.randperm(passages.nearest.shape[1], device=data.device)[:4]]
    some = torch.randint(len(passages.queries), (recipe.passages, 2), device=data.device)
    chosen = torch.cat([query[:, None], others, some], 1)
    pieces = passages.pairs(query.repeat_interleave(chosen.shape[1]), chosen.flatten())
    logits = run(model.relevance, data.pool, pieces, budget=STEP_TOKENS).view(chosen.shape)
    target = torch.zeros_like(logits)
    target[:, 0] = 1.0
    pointwise = functional.binary_cross_entropy_with_logits(logits, target)
    return 0.6 * pointwise + 0.1 * functional.cross_entropy(logits, torch.zeros_like(query))


def train(
    model: Bert, data: Turns, dev: Turns, passages: Passages, changes: tuple[Statements, Statements], recipe: Recipe
) -> tuple[int, dict[str, float]]:
    """All steps; the weights become the moving average of those of the steps. Return how many, and the figures."""
    found = mined(model.eval(), data)
    print("before", figures(model, dev), flush=True)
    sampler = Sampler(data, found)
    with_dropout(model.train(), recipe.dropout)
    model.words.requires_grad_(False)
    trained = [one for one in model.parameters() if one.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=recipe.rate, weight_decay=0.01, fused=data.device == "cuda")
    average = [one.detach().clone() for one in trained]
    began, step, losses = time.monotonic(), 0, []
    while (share := (time.monotonic() - began) / recipe.seconds) < 1:
        for group in optimiser.param_groups:
            group["lr"] = recipe.rate * min(1, share / 0.06) * (0.5 * (1 + np.cos(np.pi * share)) + 0.02)
        loss = loss_of(model, data, sampler, passages, changes[0], recipe)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimiser.step()
        step += 1
        decay = min(recipe.average, step / (step + 20))
        torch._foreach_lerp_(average, [one.detach() for one in trained], 1 - decay)
        losses.append(loss.detach())
        if step % 200 == 0:
            print(
                f"step {step} loss {torch.stack(losses[-200:]).mean().item():.3f} at {time.monotonic() - began:.0f} s",
                flush=True,
            )
        if step % 1000 == 0:
            print(step, figures(model, dev) | figures_of_statements(model, data.pool, changes[1]), flush=True)
    with torch.no_grad():
        for one, mean in zip(trained, average, strict=True):
            one.copy_(mean)
    return step, figures(model, dev) | figures_of_statements(model, data.pool, changes[1])


def main() -> None:
    """Train, measure and save."""
    folder, out, recipe = read_options(__doc__, Recipe)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(recipe.seed)
    arrays = load(folder / "judge.npz.xz")
    data, dev, passages = Turns(arrays, "", device), Turns(arrays, "dev/", device), Passages(arrays, device)
    changes = Statements(arrays, "", device), Statements(arrays, "dev/", device)
    model = Bert(with_outputs(open_weights(folder / "base.onnx.xz"))).to(device)
    counts: dict[str, int] = defaultdict(int)
    for kind in data.kinds:
        counts[kind] += 1
    print(f"n: {len(data.kinds):,} queries {dict(counts)}; {len(model.layers)} layers", flush=True)
    start = {name: value.clone() for name, value in model.state_dict().items()}
    made: list[tuple[dict[str, Tensor], int, dict[str, float]]] = []
    for run_number in range(recipe.runs):
        torch.manual_seed(recipe.seed + run_number)
        model.load_state_dict(start)
        steps, found = train(model, data, dev, passages, changes, recipe)
        print("after", steps, found, flush=True)
        made.append(({name: value.clone() for name, value in model.state_dict().items()}, steps, found))
    if recipe.runs > 1:  # the mean of the weights of several runs is often better than each of them
        mean = {name: torch.stack([one[0][name] for one in made]).mean(0) for name in start}
        model.load_state_dict(mean)
        found = figures(model, dev)
        print("mean of the runs", found, flush=True)
        made.append((mean, sum(one[1] for one in made), found))
    weights, steps, found = max(made, key=lambda one: one[2]["separates"])
    model.load_state_dict(weights)
    out.mkdir(parents=True, exist_ok=True)
    weights = {name: array for name, array in model.weights().items() if "word_embeddings" not in name}
    save_weights(out, "judge", weights, limit=32_767 if recipe.bits == 16 else 127)
    (out / "judge.json").write_text(json.dumps({"recipe": asdict(recipe) | {"steps": steps}, "dev": found}, indent=1))


if __name__ == "__main__":
    main()
