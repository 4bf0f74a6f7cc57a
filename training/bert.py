"""BERT in PyTorch, for texts of very different lengths.

All tokens of all texts are in one tensor on the device. A text is given as pieces of it, each with a start and a
length; batches are made on the device, of texts of about the same length, so that little is padded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from training.weights import Weights, layers

HEADS = 12

# cuDNN's attention plans anew for every shape, which takes ten times as long as computing.
torch.backends.cuda.enable_cudnn_sdp(False)


class Layer(nn.Module):
    """One layer: attention and a feed-forward network, each added to its input and normalised."""

    def __init__(self, weights: Weights, prefix: str) -> None:
        super().__init__()
        parts = [f"{prefix}.attention.self.{name}" for name in ("query", "key", "value")]
        self.qkv = _parameter(np.concatenate([weights[f"{part}.weight"] for part in parts], axis=1))
        self.qkv_bias = _parameter(np.concatenate([weights[f"{part}.bias"] for part in parts]))
        for name, module in _MODULES.items():
            setattr(self, f"{name}_weight", _parameter(weights[f"{prefix}.{module}.weight"]))
            setattr(self, f"{name}_bias", _parameter(weights[f"{prefix}.{module}.bias"]))

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        states = self.normalise("between", states + self.linear("out", self.attend(states, mask)))
        grown = functional.gelu(self.linear("up", states))
        return self.normalise("after", states + self.linear("down", grown))

    def attend(self, states: Tensor, mask: Tensor) -> Tensor:
        """The values that each token attends to, of all heads."""
        rows, length, width = states.shape
        qkv = states @ self.qkv.to(states.dtype) + self.qkv_bias.to(states.dtype)
        q, k, v = qkv.view(rows, length, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return seen.transpose(1, 2).reshape(rows, length, width)

    def linear(self, name: str, states: Tensor) -> Tensor:
        """The product of states with a weight of the layer."""
        weight, bias = getattr(self, f"{name}_weight"), getattr(self, f"{name}_bias")
        return states @ weight.to(states.dtype) + bias.to(states.dtype)

    def normalise(self, name: str, states: Tensor) -> Tensor:
        """The states after a normalisation of the layer."""
        weight, bias = getattr(self, f"{name}_weight"), getattr(self, f"{name}_bias")
        return _layer_norm(states, weight, bias)


_MODULES = {
    "out": "attention.output.dense",
    "between": "attention.output.LayerNorm",
    "up": "intermediate.dense",
    "down": "output.dense",
    "after": "output.LayerNorm",
}


class Bert(nn.Module):
    """The encoder, with the head of a cross-encoder if the weights have one."""

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        self.words = _parameter(weights["embeddings.word_embeddings.weight"])
        self.positions = _parameter(weights["embeddings.position_embeddings.weight"])
        self.types = _parameter(weights["embeddings.token_type_embeddings.weight"])
        self.norm_weight = _parameter(weights["embeddings.LayerNorm.weight"])
        self.norm_bias = _parameter(weights["embeddings.LayerNorm.bias"])
        self.layers = nn.ModuleList(Layer(weights, f"encoder.layer.{at}") for at in range(layers(weights)))
        self.has_head = "classifier.weight" in weights
        if self.has_head:
            for name in ("pooler.dense", "classifier"):
                setattr(self, f"{name.split('.')[0]}_weight", _parameter(weights[f"{name}.weight"]))
                setattr(self, f"{name.split('.')[0]}_bias", _parameter(weights[f"{name}.bias"]))

    def forward(self, ids: Tensor, lengths: Tensor, second: Tensor | None = None) -> Tensor:
        """The last state of each text's first token; `second` is where the second text of each pair starts."""
        return self.states(ids, lengths, second)[-1][:, 0].float()

    def states(self, ids: Tensor, lengths: Tensor, second: Tensor | None = None) -> list[Tensor]:
        """The states of all tokens after each layer."""
        at = torch.arange(ids.shape[1], device=ids.device)
        states = self.embed(ids, second)
        mask = (at[None] < lengths[:, None])[:, None, None, :]
        after = []
        for layer in self.layers:
            states = layer(states, mask)
            after.append(states)
        return after

    def embed(self, ids: Tensor, second: Tensor | None = None) -> Tensor:
        """The states of all tokens before the first layer."""
        # Not by indexing: the gradient of an index with many repeats, such as the two types, is very slow.
        states = functional.embedding(ids, self.words) + self.positions[: ids.shape[1]] + self.types[0]
        if second is not None:
            at = torch.arange(ids.shape[1], device=ids.device)
            states = states + (at[None] >= second[:, None]).unsqueeze(-1) * (self.types[1] - self.types[0])
        states = _layer_norm(states, self.norm_weight, self.norm_bias)
        return states.bfloat16() if ids.is_cuda else states

    def vector(self, *batch: Tensor) -> Tensor:
        """The unit vector of each text."""
        return functional.normalize(self(*batch), dim=-1)

    def relevance(self, *batch: Tensor) -> Tensor:
        """The logit of each pair."""
        return self.outputs(*batch)[:, 0]

    def outputs(self, *batch: Tensor) -> Tensor:
        """All outputs of the head for each pair: the logit first."""
        pooled = torch.tanh(self(*batch) @ self.pooler_weight + self.pooler_bias)
        return pooled @ self.classifier_weight + self.classifier_bias

    def weights(self) -> Weights:
        """The weights under their names in the original checkpoint."""
        named = {name: value.detach().float().cpu().numpy() for name, value in self.named_parameters()}
        found = {
            "embeddings.word_embeddings.weight": named["words"],
            "embeddings.position_embeddings.weight": named["positions"],
            "embeddings.token_type_embeddings.weight": named["types"],
            "embeddings.LayerNorm.weight": named["norm_weight"],
            "embeddings.LayerNorm.bias": named["norm_bias"],
        }
        for at in range(len(self.layers)):
            old, new = f"layers.{at}", f"encoder.layer.{at}"
            for kind, joined in (("weight", named[f"{old}.qkv"]), ("bias", named[f"{old}.qkv_bias"])):
                for name, part in zip(("query", "key", "value"), np.split(joined, 3, axis=-1), strict=True):
                    found[f"{new}.attention.self.{name}.{kind}"] = np.ascontiguousarray(part)
            for name, module in _MODULES.items():
                for kind in ("weight", "bias"):
                    found[f"{new}.{module}.{kind}"] = named[f"{old}.{name}_{kind}"]
        if self.has_head:
            for name in ("pooler.dense", "classifier"):
                for kind in ("weight", "bias"):
                    found[f"{name}.{kind}"] = named[f"{name.split('.')[0]}_{kind}"]
        return found


def _parameter(array: np.ndarray) -> nn.Parameter:
    return nn.Parameter(torch.from_numpy(np.array(array, np.float32)))


def _layer_norm(states: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return functional.layer_norm(states, states.shape[-1:], weight.to(states.dtype), bias.to(states.dtype), 1e-12)


class Pieces:
    """Texts made of pieces of the token pool: for each text, the start and the length of each piece."""

    def __init__(self, starts: Sequence[Tensor], lengths: Sequence[Tensor], *, second: int | None = None) -> None:
        self.starts = torch.stack(list(starts), dim=1)
        self.ends = torch.stack(list(lengths), dim=1).cumsum(1)
        self.total = self.ends[:, -1]
        self.second = None if second is None else self.ends[:, second - 1]

    def batch(self, pool: Tensor, chosen: Tensor) -> tuple[Tensor, ...]:
        """The token ids of some texts, padded, with their lengths and where the second text of a pair starts."""
        ends, starts = self.ends[chosen], self.starts[chosen]
        width = -(-int(self.total[chosen].max()) // 8) * 8  # aligned, as fast attention needs it
        at = torch.arange(width, device=pool.device).expand(len(chosen), width).contiguous()
        piece = torch.searchsorted(ends, at, right=True).clamp(max=ends.shape[1] - 1)
        before = functional.pad(ends[:, :-1], (1, 0)).gather(1, piece)
        where = starts.gather(1, piece) + at - before
        ids = pool[where.clamp(max=len(pool) - 1)].long()
        ids = torch.where(at < self.total[chosen][:, None], ids, 0)
        rest = () if self.second is None else (self.second[chosen],)
        return (ids, self.total[chosen], *rest)


def run(compute: Callable[..., Tensor], pool: Tensor, pieces: Pieces, *, budget: int, most: int = 1 << 30) -> Tensor:
    """Apply the model to all texts, in batches of at most `budget` tokens, shortest first; results in given order."""
    order = torch.argsort(pieces.total)
    lengths = pieces.total[order].cpu().numpy()
    found, first = [], 0
    for size in batch_sizes(lengths, budget, most):
        chosen = order[first : first + size]
        found.append(compute(*pieces.batch(pool, chosen)))
        first += size
    joined = torch.cat(found)
    return torch.empty_like(joined).index_copy(0, order, joined)


def batch_sizes(lengths: np.ndarray, budget: int, most: int) -> list[int]:
    """How many texts each batch has. The lengths rise, so the last text of a batch decides its width."""
    sizes, first = [], 0
    while first < len(lengths):
        low, high = 1, min(len(lengths) - first, most)
        while low < high:
            middle = (low + high + 1) // 2
            if lengths[first + middle - 1] * middle <= budget:
                low = middle
            else:
                high = middle - 1
        sizes.append(low)
        first += low
    return sizes
