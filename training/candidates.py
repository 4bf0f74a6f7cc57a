"""Candidates for each query: which turns of its conversation, or which passages, the teacher scores."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from training.device_data import Data

PER_QUERY = 32
NEAREST = 18
"""Of a long conversation's candidates, how many are the nearest by the untrained model; the rest are random."""

PER_PASSAGE = 10


class Candidates:
    """For each query: the numbers of its candidates (-1 where there is none), and which are evidence or next to it."""

    def __init__(self, number: Tensor, gold: Tensor, beside: Tensor) -> None:
        self.number, self.gold, self.beside = number, gold, beside
        self.alone = torch.zeros(number.shape, device=number.device)
        self.context = torch.zeros(number.shape, device=number.device)


def choose(
    near: np.ndarray, gold: list[int], without: list[int], first: int, size: int, chance: np.random.Generator
) -> np.ndarray:
    """Candidates of one query: its evidence and the turns beside it, the nearest, then random ones.

    `near` is the order of the conversation's turns by the untrained model; numbers are counted from its first turn.
    """
    count = len(near)
    beside = [turn + step for turn in gold for step in (-1, 1) if 0 <= turn + step < count]
    rest = chance.permutation(count)
    ordered = list(dict.fromkeys([*gold[:4], *beside[:4], *near[:NEAREST].tolist(), *rest.tolist()]))
    kept = [turn for turn in ordered if turn not in without][:size]
    found = np.full(size, -1, np.int64)
    found[: len(kept)] = np.array(kept, np.int64) + first
    return found


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
