"""Candidates for each query: which turns of its conversation, or which passages, the teacher scores, and the scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from training.device_data import Data
from training.sampling import PER_QUERY, choose

PER_PASSAGE = 10


class Candidates:
    """For each query: the numbers of its candidates (-1 where there is none), and which are evidence or next to it."""

    def __init__(self, number: Tensor, gold: Tensor, beside: Tensor) -> None:
        self.number, self.gold, self.beside = number, gold, beside
        self.alone = torch.zeros(number.shape, device=number.device)
        self.context = torch.zeros(number.shape, device=number.device)


def of_queries(data: Data, queries: Tensor, turns: Tensor, seed: int) -> Candidates:
    """The candidates of all queries, by vectors of the untrained model."""
    chance = np.random.default_rng(seed)
    arrays = data.arrays
    gold: list[list[int]] = [[] for _ in range(len(arrays["queries"]))]
    for query, turn in arrays["query_gold"].tolist():
        gold[query].append(turn)
    bounds = arrays["conversations"]
    numbers = np.full((len(gold), PER_QUERY), -1, np.int64)
    by_conversation = np.argsort(arrays["query_conversation"], kind="stable")
    owners = arrays["query_conversation"][by_conversation]
    for at in np.unique(owners):
        first, last = int(bounds[at]), int(bounds[at + 1])
        asked = by_conversation[np.searchsorted(owners, at) : np.searchsorted(owners, at, side="right")]
        near = (queries[torch.from_numpy(asked).to(data.device)] @ turns[first:last].T).argsort(1, descending=True)
        for query, order in zip(asked.tolist(), near.cpu().numpy(), strict=True):
            evidence = [turn - first for turn in gold[query] if turn >= 0]
            without = [-1 - turn - first for turn in gold[query] if turn < 0]
            numbers[query] = choose(order, evidence, without, first, PER_QUERY, chance)
    number = torch.from_numpy(numbers).to(data.device)
    is_gold = torch.zeros(number.shape, dtype=torch.bool, device=data.device)
    beside = torch.zeros_like(is_gold)
    pairs = torch.from_numpy(arrays["query_gold"].astype(np.int64)).to(data.device)
    pairs = pairs[pairs[:, 1] >= 0]
    for step, mask in ((0, is_gold), (-1, beside), (1, beside)):
        for part in pairs.split(4096):
            same = number[part[:, 0]] == (part[:, 1] + step)[:, None]
            rows, columns = same.nonzero(as_tuple=True)
            mask[part[rows, 0], columns] = True
    return Candidates(number, is_gold, beside & ~is_gold)


def of_passages(data: Data, queries: Tensor, passages: Tensor, seed: int) -> Candidates:
    """For each question its passage, the nearest others and random ones."""
    generator = torch.Generator(device="cpu").manual_seed(seed)
    gold = torch.from_numpy(data.arrays["passage_pairs"].astype(np.int64)).to(data.device)
    found = []
    for part, own in zip(queries.split(2048), gold.split(2048), strict=True):
        scores = part @ passages.T
        scores.scatter_(1, own[:, None], -torch.inf)
        near = scores.topk(PER_PASSAGE - 4, dim=1).indices
        rest = torch.randint(len(passages), (len(part), 3), generator=generator).to(data.device)
        found.append(torch.cat([own[:, None], near, rest], dim=1))
    number = torch.cat(found)
    is_gold = number == gold[:, None]
    return Candidates(number, is_gold, torch.zeros_like(is_gold))


def save_candidates(path: Path, queries: Candidates, passages: Candidates) -> None:
    """Write the candidates and the teacher's scores."""
    arrays = {}
    for name, one in (("queries", queries), ("passages", passages)):
        arrays[f"{name}_number"] = one.number.cpu().numpy().astype(np.int32)
        arrays[f"{name}_gold"] = np.packbits(one.gold.cpu().numpy())
        arrays[f"{name}_beside"] = np.packbits(one.beside.cpu().numpy())
        arrays[f"{name}_alone"] = one.alone.cpu().numpy().astype(np.float16)
        arrays[f"{name}_context"] = one.context.cpu().numpy().astype(np.float16)
    np.savez_compressed(path, **arrays)


def load_candidates(path: Path, device: str) -> tuple[Candidates, Candidates]:
    """Read the candidates of queries and of passages."""
    found = []
    with np.load(path) as arrays:
        for name in ("queries", "passages"):
            number = torch.from_numpy(arrays[f"{name}_number"].astype(np.int64)).to(device)

            def mask(kind: str, name: str = name, number: torch.Tensor = number) -> torch.Tensor:
                bits = np.unpackbits(arrays[f"{name}_{kind}"])[: number.numel()].astype(bool)
                return torch.from_numpy(bits.reshape(number.shape)).to(device)

            one = Candidates(number, mask("gold"), mask("beside"))
            one.alone = torch.from_numpy(arrays[f"{name}_alone"].astype(np.float32)).to(device)
            one.context = torch.from_numpy(arrays[f"{name}_context"].astype(np.float32)).to(device)
            found.append(one)
    return found[0], found[1]
