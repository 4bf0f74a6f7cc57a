"""BERT that reads a turn once and gives two vectors: of the turn alone, and of the turn with the one before it.

Each text is a row that reads only itself. A row may have one more token, the context token: in every layer it reads
the tokens of its own row and those of the row before. Nothing reads the context token, so the vector of a turn alone
does not depend on it. A turn that is the context of the next one is therefore read once for both.

The products can be computed as the exported graph computes them: inputs as 8-bit integers with one fixed range for
each product, weights as integers with a scale for each column.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from training.bert import HEADS, batch_sizes
from training.device_data import Texts
from training.weights import WEIGHT_LIMIT, Weights, layers

SITES = {
    "qkv": "attention.self",
    "out": "attention.output.dense",
    "up": "intermediate.dense",
    "down": "output.dense",
}
"""The four products of a layer."""

CONTEXT_TOKENS = 4
"""How many context tokens a turn has; the first one's last state is the vector."""

SHARE = {"qkv": 0.6, "out": 0.0, "up": 0.6, "down": 0.8}
"""How much of the range of a product's columns moves into its weights (`training.smoothing`)."""


class Read(NamedTuple):
    """What the model made of some rows."""

    first: Tensor
    """The last state of each row's first token."""
    context: Tensor | None
    """The last state of each context token."""
    states: list[Tensor]
    """The states of all tokens after each layer, if asked for."""


class Product(nn.Module):
    """A matrix product; after `fix_range` its input and its weights are rounded."""

    def __init__(self, weight: np.ndarray, bias: np.ndarray, share: float) -> None:
        super().__init__()
        self.weight, self.bias = _parameter(weight), _parameter(bias)
        self.share = share
        self.rounded = False
        self.watching = False
        self.register_buffer("factor", torch.ones(len(weight)))
        self.register_buffer("largest", torch.zeros(len(weight)))
        self.register_buffer("low", torch.zeros(()))
        self.register_buffer("high", torch.zeros(()))
        self.low_column: Tensor | None = None

    def forward(self, states: Tensor) -> Tensor:
        if self.watching:
            self._watch(states)
        weight = self.weight
        if self.rounded:
            weight = _rounded_weight(weight * self.factor[:, None])
            states = _rounded_input(states, self.factor, self.low, self.high)
        return functional.linear(states, weight.to(states.dtype).T, self.bias.to(states.dtype))

    @torch.no_grad()
    def _watch(self, states: Tensor) -> None:
        flat = states.reshape(-1, states.shape[-1]).float()
        low, high = flat.amin(0), flat.amax(0)
        self.low_column = low if self.low_column is None else torch.minimum(self.low_column, low)
        self.largest = torch.maximum(self.largest, high)

    @torch.no_grad()
    def fix_range(self) -> None:
        """Choose the factors of the columns and the range of the input by what was watched; round from now on."""
        assert self.low_column is not None
        seen = torch.maximum(self.largest, -self.low_column).clamp(min=1e-5)
        if self.share:
            rows = self.weight.abs().amax(1).clamp(min=1e-5)
            factor = seen**self.share / rows ** (1 - self.share)
            self.factor = factor / factor.log().mean().exp()
        self.low = (self.low_column / self.factor).amin().clamp(max=0)
        self.high = (self.largest / self.factor).amax()
        self.rounded, self.watching, self.low_column = True, False, None
        self.largest.zero_()


class ContextLayer(nn.Module):
    """One layer. `relu` replaces the activation by one that needs no time on a processor."""

    def __init__(self, weights: Weights, prefix: str, *, relu: bool) -> None:
        super().__init__()
        parts = [f"{prefix}.attention.self.{name}" for name in ("query", "key", "value")]
        joined = np.concatenate([weights[f"{part}.weight"] for part in parts], axis=1)
        bias = np.concatenate([weights[f"{part}.bias"] for part in parts])
        self.products = nn.ModuleDict({"qkv": Product(joined, bias, SHARE["qkv"])})
        for name in ("out", "up", "down"):
            module = f"{prefix}.{SITES[name]}"
            share = 0.0 if relu and name == "down" else SHARE[name]
            self.products[name] = Product(weights[f"{module}.weight"], weights[f"{module}.bias"], share)
        for name, module in (("between", "attention.output.LayerNorm"), ("after", "output.LayerNorm")):
            for kind in ("weight", "bias"):
                setattr(self, f"{name}_{kind}", _parameter(weights[f"{prefix}.{module}.{kind}"]))
        width = len(bias) // 3
        for name in ("key_shift", "value_shift"):
            setattr(self, name, _parameter(weights.get(f"{prefix}.context.{name}", np.zeros(width, np.float32))))
        self.activation: Callable[[Tensor], Tensor] = functional.relu if relu else functional.gelu

    def forward(
        self, states: Tensor, mask: Tensor, token: Tensor | None, seen: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """New states of the rows, and of the context tokens. `seen` says which tokens a context token reads."""
        q, k, v = self._heads(states)
        read = _joined(functional.scaled_dot_product_attention(q, k, v, attn_mask=mask))
        if token is None:
            return self._rest(states, read), None
        pairs = len(token)
        own_q, own_k, own_v = self._heads(token)
        key = self.key_shift.to(states.dtype).view(1, HEADS, 1, -1)
        value = self.value_shift.to(states.dtype).view(1, HEADS, 1, -1)
        keys = torch.cat([own_k, k[:pairs], k[pairs:] + key], dim=2)
        values = torch.cat([own_v, v[:pairs], v[pairs:] + value], dim=2)
        context = _joined(functional.scaled_dot_product_attention(own_q, keys, values, attn_mask=seen))
        return self._rest(states, read), self._rest(token, context)

    def _heads(self, states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        rows, length, width = states.shape
        q, k, v = self.products["qkv"](states).view(rows, length, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
        return q, k, v

    def _rest(self, states: Tensor, read: Tensor) -> Tensor:
        states = self._normalise("between", states + self.products["out"](read))
        grown = self.activation(self.products["up"](states))
        return self._normalise("after", states + self.products["down"](grown))

    def _normalise(self, name: str, states: Tensor) -> Tensor:
        return _layer_norm(states, getattr(self, f"{name}_weight"), getattr(self, f"{name}_bias"))


class ContextBert(nn.Module):
    """The encoder."""

    def __init__(self, weights: Weights, *, relu: bool = False) -> None:
        super().__init__()
        self.words = _parameter(weights["embeddings.word_embeddings.weight"])
        self.positions = _parameter(weights["embeddings.position_embeddings.weight"])
        self.types = _parameter(weights["embeddings.token_type_embeddings.weight"])
        self.norm_weight = _parameter(weights["embeddings.LayerNorm.weight"])
        self.norm_bias = _parameter(weights["embeddings.LayerNorm.bias"])
        start = weights["embeddings.word_embeddings.weight"][101] + weights["embeddings.position_embeddings.weight"][0]
        chance = np.random.default_rng(0).normal(0, 0.2 * start.std(), (CONTEXT_TOKENS, len(start)))
        self.tokens = _parameter(weights.get("embeddings.context_tokens", start + chance))
        self.layers = nn.ModuleList(
            ContextLayer(weights, f"encoder.layer.{at}", relu=relu) for at in range(layers(weights))
        )

    def forward(self, ids: Tensor, lengths: Tensor, has: Tensor | None = None, *, keep: bool = False) -> Read:
        """Read rows of tokens. With `has`, the second half are the rows before the first half, where there is one."""
        at = torch.arange(ids.shape[1], device=ids.device)
        states = functional.embedding(ids, self.words) + self.positions[: ids.shape[1]] + self.types[0]
        states = _layer_norm(states, self.norm_weight, self.norm_bias)
        inside = at[None] < lengths[:, None]
        mask = inside[:, None, None, :]
        token = seen = None
        if has is not None:
            pairs = len(has)
            token = _layer_norm(self.tokens + self.types[0], self.norm_weight, self.norm_bias).expand(pairs, -1, -1)
            own = torch.ones(pairs, token.shape[1], dtype=torch.bool, device=ids.device)
            seen = torch.cat([own, inside[:pairs], inside[pairs:] & has[:, None]], dim=1)[:, None, None, :]
        if ids.is_cuda:
            states = states.bfloat16()
            token = None if token is None else token.bfloat16()
        kept = []
        for layer in self.layers:
            states, token = layer(states, mask, token, seen)
            if keep:
                kept.append(states)
        return Read(states[:, 0].float(), None if token is None else token[:, 0].float(), kept)

    def vector(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """The unit vector of each row."""
        return functional.normalize(self(ids, lengths).first, dim=-1)

    def products(self) -> list[Product]:
        """All matrix products."""
        return [product for layer in self.layers for product in layer.products.values()]

    def weights(self) -> dict[str, np.ndarray]:
        """The weights under their names in the original checkpoint; each product also with its factors and range."""
        named = {name: value.detach().float().cpu().numpy() for name, value in self.state_dict().items()}
        found = {
            "embeddings.word_embeddings.weight": named["words"],
            "embeddings.position_embeddings.weight": named["positions"],
            "embeddings.token_type_embeddings.weight": named["types"],
            "embeddings.LayerNorm.weight": named["norm_weight"],
            "embeddings.LayerNorm.bias": named["norm_bias"],
            "embeddings.context_tokens": named["tokens"],
        }
        for at in range(len(self.layers)):
            old, new = f"layers.{at}", f"encoder.layer.{at}"
            for name, module in SITES.items():
                product = f"{old}.products.{name}"
                found[f"{new}.{module}.weight"] = named[f"{product}.weight"]
                found[f"{new}.{module}.bias"] = named[f"{product}.bias"]
                found[f"{new}.{module}.factor"] = named[f"{product}.factor"]
                found[f"{new}.{module}.range"] = np.array([named[f"{product}.low"], named[f"{product}.high"]])
            for name, module in (("between", "attention.output.LayerNorm"), ("after", "output.LayerNorm")):
                for kind in ("weight", "bias"):
                    found[f"{new}.{module}.{kind}"] = named[f"{old}.{name}_{kind}"]
            for name in ("key_shift", "value_shift"):
                found[f"{new}.context.{name}"] = named[f"{old}.{name}"]
        return found


def run_pairs(model: ContextBert, pool: Tensor, texts: Texts, chosen: Tensor, *, budget: int) -> tuple[Tensor, Tensor]:
    """The unit vectors of some turns alone, and with the turn before; where there is none, both are the same."""
    turns, before, has = texts.alone(chosen), texts.before_alone(chosen), texts.before[chosen] >= 0
    width = torch.maximum(turns.total, before.total)
    order = torch.argsort(width)
    lengths = width[order].cpu().numpy()
    alone, context, first = [], [], 0
    for size in batch_sizes(2 * lengths, budget, 1 << 30):
        part = order[first : first + size]
        first += size
        wide = -(-int(width[part].max()) // 8) * 8
        rows = [_padded(*pieces.batch(pool, part)[:2], wide) for pieces in (turns, before)]
        ids, sizes = torch.cat([rows[0][0], rows[1][0]]), torch.cat([rows[0][1], rows[1][1]])
        read = model(ids, sizes, has[part])
        assert read.context is not None
        own = functional.normalize(read.first[: len(part)], dim=-1)
        both = functional.normalize(read.context, dim=-1)
        alone.append(own)
        context.append(torch.where(has[part][:, None], both, own))
    back = torch.argsort(order)
    return torch.cat(alone)[back], torch.cat(context)[back]


def _padded(ids: Tensor, lengths: Tensor, width: int) -> tuple[Tensor, Tensor]:
    return functional.pad(ids, (0, width - ids.shape[1])), lengths


def _joined(heads: Tensor) -> Tensor:
    rows, _, length, _ = heads.shape
    return heads.transpose(1, 2).reshape(rows, length, -1)


def _rounded_weight(weight: Tensor) -> Tensor:
    """The weight in integers up to the limit with a scale for each column; gradients pass through."""
    scale = weight.detach().abs().amax(0).clamp(min=1e-8) / WEIGHT_LIMIT
    rounded = (weight.detach() / scale).round() * scale
    return weight + (rounded - weight.detach())


def _round_input(states: Tensor, factor: Tensor, low: Tensor, high: Tensor) -> Tensor:
    scale = (high - low) / 255
    zero = (-low / scale).round()
    scaled = states.float() / factor
    steps = ((scaled / scale).round() + zero).clamp(0, 255)
    rounded = (steps - zero) * scale
    # Gradients pass through where nothing is cut off.
    inside = (steps > 0) & (steps < 255)
    through = torch.where(inside, scaled, scaled.detach())
    return (through + (rounded - scaled).detach()).to(states.dtype)


_rounded_input = torch.compile(_round_input, dynamic=True) if torch.cuda.is_available() else _round_input


def _parameter(array: np.ndarray) -> nn.Parameter:
    return nn.Parameter(torch.from_numpy(np.array(array, np.float32)))


def _layer_norm(states: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return functional.layer_norm(states, states.shape[-1:], weight.to(states.dtype), bias.to(states.dtype), 1e-12)
