"""Make the feed-forward networks of the embedder narrower: `python -m training.narrow WORK OUT --width 1024`.

WORK has `data.npz.xz` and `unlabelled.npz.xz` (both of `training.prepare`), and the trained embedder
(`teacher.onnx.xz`, as exported). Nothing is trained. Layer by layer, the hidden units that add least are left out, and
the weights after the others are fitted by least squares, so that the layer gives what that of the whole model gives for
a sample of texts. The same fit after attention makes up for a part of what earlier layers have lost.

Layers may have different widths: a first pass over the whole model tells what each layer would lose at each width, and
units are given to the layers that lose most without them.

The last layer stays as it is: only the first token of a text is computed there, which takes little time.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as functional
from torch import Tensor

from training.bert import Bert, Layer, Pieces, batch_sizes
from training.device_data import Data, Texts, unpack
from training.prepare import load
from training.recipe import read_options
from training.weight_files import SAVED_LIMIT, save_weights
from training.weights import Weights, read_exported

BUDGET = 16_000
"""Tokens in one batch."""

AT_ONCE = 8
"""How many inputs are left out in one step of the elimination."""

STEP = 64
"""The width of a layer is a multiple of this."""

NORM = {"out": "between", "down": "after"}
"""The normalisation after a product."""


@dataclass
class Recipe:
    """What can be changed on the command line."""

    width: int = 1024
    """How many hidden units a layer keeps on average; a multiple of 64."""
    least: int = 512
    """How many hidden units each layer keeps at least; a multiple of 64. With the same as `width`, all keep as many."""
    seed: int = 25
    texts: float = 1.0
    """A factor for the number of texts in the sample."""
    ridge: float = 1e-3
    """How strongly weights are held where they were, as a share of the mean square of what they meet."""


class Batch(NamedTuple):
    """Some texts of about the same length, and the states by both models.

    `weights` tell how much the vector of a text depends on the states of each token before each normalisation, and
    `scales` on each dimension of them: the mean squares of the gradients of a random projection of the vector.
    """

    mask: Tensor
    inside: Tensor
    weights: dict[tuple[int, str], Tensor]
    scales: dict[tuple[int, str], Tensor]
    wanted: list[Tensor]
    now: list[Tensor]


class Fit:
    """Least squares from the inputs of a product to what it adds to the states."""

    def __init__(self, layer: Layer, name: str, batches: Sequence[Batch], place: tuple[int, str]) -> None:
        weight, bias = getattr(layer, f"{name}_weight"), getattr(layer, f"{name}_bias")
        self._place = place
        self._before = torch.cat([weight, bias[None]]).double()
        self._scale = torch.stack([one.scales[place] for one in batches]).sum(0).double()
        size = len(weight) + 1
        self._squares = torch.zeros(size, size, dtype=torch.float64, device=weight.device)
        self._products = torch.zeros_like(self._before)
        self.energy = 0.0

    def add(self, batch: Batch, inputs: Tensor, added: Tensor, wanted: Tensor) -> None:
        """Add the tokens of a batch: inputs, what they should give, and the states after it."""
        states, weight = wanted[batch.inside], batch.weights[self._place]
        rows = functional.pad(inputs[batch.inside], (0, 1), value=1.0) * weight.sqrt()[:, None]
        self._squares += (rows.T @ rows).double()
        self._products += (rows.T @ (added[batch.inside] * weight.sqrt()[:, None])).double()
        self.energy += float((self.errors(states - states.mean(-1, keepdim=True)) * weight).sum())

    def errors(self, states: Tensor) -> Tensor:
        """The squares of states, by what each dimension counts."""
        return (states**2 * self._scale).sum(-1)

    def solve(self, *, width: int, ridge: float) -> Solution:
        """The weights of the `width` inputs that add most, and what is lost at each multiple of 64 until there."""
        count = len(self._before) - 1
        held = ridge * self._squares.diagonal()[:count].mean()
        inverse = torch.linalg.inv(self._squares + held * torch.eye(count + 1, dtype=torch.float64, device=held.device))
        found = inverse @ (self._products + held * self._before)
        kept = torch.ones(count, dtype=torch.bool, device=held.device)
        lost, losses = 0.0, {count: 0.0}
        for left_out in range(0, count - width, AT_ONCE):
            errors = self.errors(found[:count]) / inverse.diagonal()[:count]
            least = (
                errors.masked_fill(~kept, torch.inf).topk(min(AT_ONCE, count - width - left_out), largest=False).indices
            )
            columns = inverse[:, least]
            change = torch.linalg.solve(columns[least], columns.T).T
            added = (found[least] * torch.linalg.solve(columns[least], found[least])).sum(0)
            lost += float((added * self._scale).sum() / self._scale.sum())
            found -= change @ found[least]
            inverse -= change @ columns.T
            kept[least] = False
            losses[int(kept.sum())] = lost
        units = kept.nonzero()[:, 0]
        return Solution(found[units].float(), found[count].float(), units, losses)


class Solution(NamedTuple):
    """The weights of the inputs that are kept, the bias, which they are, and the squared error by their number."""

    weight: Tensor
    bias: Tensor
    kept: Tensor
    losses: dict[int, float]


def widths(losses: Sequence[dict[int, float]], *, mean: int, least: int, most: int) -> list[int]:
    """The width of each layer: as many units as `mean` for each, given where 64 more save most."""
    found = [least] * len(losses)
    for _ in range((mean - least) * len(losses) // STEP):
        saved = [
            lost[width] - lost[width + STEP] if width < most else -1.0
            for width, lost in zip(found, losses, strict=True)
        ]
        found[saved.index(max(saved))] += STEP
    return found


class Narrower:
    """The whole model, the narrower one as far as it is made, and the states of a sample of texts by both."""

    def __init__(self, weights: Weights, data: Data, recipe: Recipe, unlabelled: Path) -> None:
        self.recipe, device = recipe, data.device
        self.whole, self.narrow = (
            Bert(weights).eval().requires_grad_(requires_grad=False).to(device) for _ in range(2)
        )
        more = load(unlabelled)
        self.pool = torch.cat([data.pool, torch.from_numpy(more["tokens"].astype(np.int32)).to(device)])
        texts = Texts(more["texts"] + np.array([len(data.pool), 0], more["texts"].dtype), device)
        self.batches = [self._batch(pieces, chosen) for pieces, chosen in _sample(data, texts, recipe)]

    def _batch(self, pieces: Pieces, chosen: Tensor) -> Batch:
        ids, sizes = pieces.batch(self.pool, chosen)[:2]
        inside = torch.arange(ids.shape[1], device=ids.device)[None] < sizes[:, None]
        states = self.whole.embed(ids).detach().float()
        weights, scales = self._sensitivity(states.clone(), inside)
        return Batch(inside[:, None, None, :], inside, weights, scales, [states], [states])

    @torch.enable_grad()
    def _sensitivity(self, states: Tensor, inside: Tensor) -> tuple[dict[tuple[int, str], Tensor], ...]:
        mask, read = inside[:, None, None, :], {}
        states.requires_grad_(True)
        for number, layer in enumerate(self.whole.layers):
            for name, norm in NORM.items():
                states = read[number, name] = states + layer.linear(name, _inputs(layer, name, states, mask))
                states.retain_grad()
                states = layer.normalise(norm, states)
        vectors = functional.normalize(states[:, 0], dim=-1)
        (vectors * torch.randn_like(vectors)).sum().backward()
        squares = {place: one.grad[inside] ** 2 for place, one in read.items() if one.grad is not None}
        # Of the last product only the first token counts; a little of all others keeps the fit stable.
        weights = {place: one.sum(-1) for place, one in squares.items()}
        return (
            {place: one + 1e-3 * one.mean() for place, one in weights.items()},
            {place: one.sum(0) for place, one in squares.items()},
        )

    def run(self) -> None:
        """Make one layer after the other."""
        chosen = [*self._widths(), len(self.whole.layers[-1].down_weight)]
        for number, (whole, narrow) in enumerate(zip(self.whole.layers, self.narrow.layers, strict=True)):
            self._fit(number, "out", whole, narrow, width=len(narrow.out_weight))
            self._fit(number, "down", whole, narrow, width=chosen[number])

    def _widths(self) -> list[int]:
        """The widths of all layers but the last, by what each would lose if the others stayed whole."""
        losses, states = [], [batch.wanted[0] for batch in self.batches]
        for number, layer in enumerate(self.whole.layers[:-1]):
            fit = Fit(layer, "down", self.batches, (number, "down"))
            for at, batch in enumerate(self.batches):
                added = layer.linear("out", _inputs(layer, "out", states[at], batch.mask))
                between = layer.normalise("between", states[at] + added)
                inputs = _inputs(layer, "down", between, batch.mask)
                added = layer.linear("down", inputs)
                fit.add(batch, inputs, added, between + added)
                states[at] = layer.normalise("after", between + added)
            losses.append(fit.solve(width=self.recipe.least, ridge=self.recipe.ridge).losses)
        most = len(self.whole.layers[0].down_weight)
        found = widths(losses, mean=self.recipe.width, least=self.recipe.least, most=most)
        print(f"widths: {found}", flush=True)
        return found

    def _fit(self, number: int, name: str, whole: Layer, narrow: Layer, *, width: int) -> None:
        """Fit the product that ends attention (`out`) or the feed-forward network (`down`), and pass it."""
        place = (number, name)
        fit, read, norm = Fit(narrow, name, self.batches, place), [], NORM[name]
        for batch in self.batches:
            before, now = batch.wanted[0], batch.now[0]
            wanted = before + whole.linear(name, _inputs(whole, name, before, batch.mask))
            inputs = _inputs(narrow, name, now, batch.mask)
            fit.add(batch, inputs, wanted - now, wanted)
            read.append((wanted, inputs))
        solved = fit.solve(width=width, ridge=self.recipe.ridge)
        if name == "down":
            narrow.up_weight.data = narrow.up_weight.data[:, solved.kept].contiguous()
            narrow.up_bias.data = narrow.up_bias.data[solved.kept].contiguous()
        setattr(narrow, f"{name}_weight", torch.nn.Parameter(solved.weight))
        setattr(narrow, f"{name}_bias", torch.nn.Parameter(solved.bias))
        error = 0.0
        for batch, (wanted, inputs) in zip(self.batches, read, strict=True):
            now = batch.now[0] + narrow.linear(name, inputs[..., solved.kept])
            inside = batch.inside
            error += float((fit.errors((now - wanted)[inside]) * batch.weights[place]).sum())
            batch.wanted[0], batch.now[0] = whole.normalise(norm, wanted), narrow.normalise(norm, now)
        print(f"layer {number} {name}: {width} inputs, error {(error / fit.energy) ** 0.5:.4f}", flush=True)

    def closeness(self) -> tuple[float, float]:
        """The mean and the 5th percentile of the cosines of vectors by both models."""
        cosines = torch.cat(
            [functional.cosine_similarity(one.wanted[0][:, 0], one.now[0][:, 0], dim=-1) for one in self.batches]
        )
        return float(cosines.mean()), float(cosines.quantile(0.05))


def _inputs(layer: Layer, name: str, states: Tensor, mask: Tensor) -> Tensor:
    """The inputs of the product of a layer, given what the layer or its feed-forward network reads."""
    return layer.attend(states, mask) if name == "out" else functional.gelu(layer.linear("up", states))


def _sample(data: Data, texts: Texts, recipe: Recipe) -> list[tuple[Pieces, Tensor]]:
    """Batches of turns, with the turn before and alone, of queries, passages and other texts."""
    chance = torch.Generator().manual_seed(recipe.seed)
    forms = [
        (data.turns, True, 3_000), (data.turns, False, 1_500), (data.queries, False, 4_000),
        (data.passages, False, 1_500), (data.passage_queries, False, 2_000), (data.texts, False, 1_500),
        (texts, False, 4_000),
    ]  # fmt: skip
    found = []
    for read, context, count in forms:
        chosen = torch.randperm(len(read), generator=chance)[: int(recipe.texts * count)].to(data.device)
        pieces = read.with_context(chosen) if context else read.alone(chosen)
        order = torch.argsort(pieces.total)
        first = 0
        for size in batch_sizes(pieces.total[order].cpu().numpy(), BUDGET, 1 << 30):
            found.append((pieces, order[first : first + size]))
            first += size
    return found


@torch.no_grad()
def main() -> None:
    """Narrow the model, measure and save."""
    folder, out, recipe = read_options(__doc__, Recipe)
    data = Data(folder / "data.npz.xz", "cuda" if torch.cuda.is_available() else "cpu")
    with unpack(folder / "teacher.onnx.xz") as path:
        narrower = Narrower(read_exported(path), data, recipe, folder / "unlabelled.npz.xz")
    narrower.run()
    mean, low = narrower.closeness()
    count = sum(len(batch.mask) for batch in narrower.batches)
    print(f"n: {count:,} texts; cosine with the whole model {mean:.4f}, 5th percentile {low:.4f}")
    out.mkdir(parents=True, exist_ok=True)
    save_weights(out, "embedder", narrower.narrow.weights(), limit=SAVED_LIMIT)
    (out / "embedder.json").write_text(json.dumps({"recipe": asdict(recipe)}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
