"""Distil the trained embedder into one with fewer layers: `python -m training.distil WORK OUT`.

WORK has `data.npz.xz` and `unlabelled.npz.xz` (both of `training.prepare`), and the trained embedder
(`teacher.onnx.xz`, as exported). The student begins with some of its layers. It learns the vectors of the trained one,
the states after its layers, and the order of its scores; labels are not used.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as functional
from torch import Tensor

from training import measure
from training.bert import Bert, Pieces, batch_sizes, run
from training.device_data import Data, Texts, unpack
from training.prepare import load
from training.recipe import read_options
from training.sampling import SOURCE_WEIGHT, QuerySampler, weights_of
from training.weight_files import SAVED_LIMIT, load_weights, save_weights
from training.weights import keep_layers, read_exported

BUDGET = 64_000
"""Tokens in one batch of a step."""

WINDOW = 24
"""Consecutive turns of a chat that are in a step together."""

SAVED_EVERY = 240.0
"""Seconds after which the weights are saved again, because a machine may be lost."""


@dataclass
class Recipe:
    """What can be changed on the command line."""

    seconds: float = 1000.0
    seed: int = 20
    layers: str = "1,2,4,5,7,8,10,11"
    """The layers of the trained embedder that the student begins with and whose states it learns, counted from 0."""
    start: str = ""
    """The folder of an earlier run, whose student is trained further."""
    rate: float = 4e-4
    embedding_rate: float = 0.3
    warm_up: int = 200
    queries: int = 96
    read: int = 14
    """How many turns of its conversation are in a step for each query."""
    windows: int = 24
    """How many runs of consecutive turns of chats are in a step."""
    spans: int = 640
    """How many texts are in a step whose states are learned."""
    passages: int = 48
    read_passages: int = 8
    temperature: float = 0.03
    long_share: float = 0.2
    """Which part of the turns that are never read with a context is in a step."""
    follow: float = 5.0
    order: float = 1.0
    states: float = 1.0
    states_share: float = 0.7
    """The first part of the training, in which the states are learned, with less and less weight."""


class Distiller:
    """The teacher, the student and the data."""

    def __init__(self, folder: Path, recipe: Recipe, device: str) -> None:
        self.recipe, self.device = recipe, device
        self.data = data = Data(folder / "data.npz.xz", device)
        more = load(folder / "unlabelled.npz.xz")
        self.pool = torch.cat([data.pool, torch.from_numpy(more["tokens"].astype(np.int32)).to(device)])
        texts = Texts(_moved(more["texts"], len(data.pool)), device)
        turns = _moved(more["turns"], len(data.pool))
        self.chats = Texts(turns, device, more["turns_before"], more["turns_context"])
        self.spans = _Spans(
            [(data.turns, 2.0), (data.passages, 1.5), (data.texts, 1.0), (texts, 9.0), (self.chats, 2.0)],
            len(self.pool),
        )
        with unpack(folder / "teacher.onnx.xz") as path:
            trained = read_exported(path)
        self.teacher = Bert(trained).to(device).eval()
        self.kept = [int(at) for at in recipe.layers.split(",")]
        begun = load_weights(Path(recipe.start), "embedder") if recipe.start else keep_layers(trained, self.kept)
        self.student = Bert(begun).to(device).train()
        pool = data.pool
        self.turns = measure.vectors(self.teacher, pool, data.turns)
        self.contexts = measure.vectors(self.teacher, pool, data.turns, context=True)
        self.queries = measure.vectors(self.teacher, pool, data.queries)
        self.passages = measure.vectors(self.teacher, pool, data.passages)
        self.passage_queries = measure.vectors(self.teacher, pool, data.passage_queries)
        self.chat_turns = measure.vectors(self.teacher, self.pool, self.chats).half()
        self.chat_contexts = measure.vectors(self.teacher, self.pool, self.chats, context=True).half()
        self.near = self._near_turns()
        self.near_passages = torch.cat(
            [(part @ self.passages.T).topk(32, dim=1).indices for part in self.passage_queries.split(4096)]
        )
        arrays = data.arrays
        often = weights_of(arrays["sources"], arrays["query_source"], SOURCE_WEIGHT)
        self.sampler = QuerySampler(arrays["query_conversation"], often, seed=recipe.seed)
        self.shown: dict[str, list[Tensor]] = {}
        self.states_weight = recipe.states

    def _near_turns(self) -> Tensor:
        """For each query the 32 nearest turns of its conversation, then 32 random ones of it."""
        data = self.data
        bounds = torch.from_numpy(data.arrays["conversations"]).long().to(self.device)
        owner = torch.from_numpy(data.arrays["query_conversation"]).long().to(self.device)
        near = torch.zeros(len(owner), 64, dtype=torch.long, device=self.device)
        for conversation in owner.unique().tolist():
            asked = (owner == conversation).nonzero()[:, 0]
            first, last = int(bounds[conversation]), int(bounds[conversation + 1])
            score = torch.maximum(
                self.queries[asked] @ self.turns[first:last].T, self.queries[asked] @ self.contexts[first:last].T
            )
            best = score.topk(min(32, last - first), dim=1).indices
            chance = torch.randint(last - first, (len(asked), 64 - best.shape[1]), device=self.device)
            near[asked] = first + torch.cat([best, chance], dim=1)
        return near

    def vectors(self, pieces: Pieces, *, more: bool = False) -> Tensor:
        """The student's unit vectors, with gradients; `more`: of texts that may be without labels."""
        return run(self.student.vector, self.pool if more else self.data.pool, pieces, budget=BUDGET)

    def conversations(self) -> None:
        """A part of the step: queries, and turns alone and with the turn before."""
        recipe, data = self.recipe, self.data
        asked = torch.from_numpy(self.sampler.draw(recipe.queries)).to(self.device)
        columns = torch.rand(len(asked), 64, device=self.device)
        columns[:, :32] *= 0.5
        columns = columns.topk(recipe.read, dim=1, largest=False).indices
        unique = torch.unique(self.near[asked].gather(1, columns))
        has = data.turns.before[unique] >= 0
        unique = unique[has | (torch.rand(len(unique), device=self.device) < recipe.long_share)]
        query = self.vectors(data.queries.alone(asked))
        alone = self.vectors(data.turns.alone(unique))
        context = self.vectors(data.turns.with_context(unique))
        was = self.queries[asked]
        far = _distance(query, was) + _distance(alone, self.turns[unique])
        beside = _distance(context, self.contexts[unique])
        pairs = [(query @ alone.T, was @ self.turns[unique].T), (query @ context.T, was @ self.contexts[unique].T)]
        pairs.append((torch.maximum(pairs[0][0], pairs[1][0]), torch.maximum(pairs[0][1], pairs[1][1])))
        order = torch.stack([self._order(now, then) for now, then in pairs]).sum()
        self._add("turns", recipe.follow * (far + beside) + recipe.order * order, far / 2, beside, order / 3)

    def chats_part(self) -> None:
        """A part of the step: consecutive turns of chats. The turns alone are the queries."""
        recipe = self.recipe
        start = torch.randint(len(self.chats) - WINDOW, (recipe.windows, 1), device=self.device)
        chosen = torch.unique(start + torch.arange(WINDOW, device=self.device))
        alone = self.vectors(self.chats.alone(chosen), more=True)
        context = self.vectors(self.chats.with_context(chosen), more=True)
        was_alone, was_context = self.chat_turns[chosen].float(), self.chat_contexts[chosen].float()
        far, beside = _distance(alone, was_alone), _distance(context, was_context)
        order = self._order(alone @ context.T, was_alone @ was_context.T)
        self._add("chats", recipe.follow * (far + beside) + recipe.order * order, far, beside, order)

    def passages_part(self) -> None:
        """A part of the step: questions and passages."""
        recipe, data = self.recipe, self.data
        asked = torch.randint(len(data.passage_queries), (recipe.passages,), device=self.device)
        columns = torch.rand(len(asked), 32, device=self.device).topk(recipe.read_passages, dim=1).indices
        unique = torch.unique(self.near_passages[asked].gather(1, columns))
        query = self.vectors(data.passage_queries.alone(asked))
        texts = self.vectors(data.passages.alone(unique))
        far = _distance(query, self.passage_queries[asked]) + _distance(texts, self.passages[unique])
        order = self._order(query @ texts.T, self.passage_queries[asked] @ self.passages[unique].T)
        self._add("passages", recipe.follow * far + recipe.order * order, far / 2, order)

    def spans_part(self) -> None:
        """A part of the step: parts of all kinds of texts and turns with a context, with the states after layers."""
        recipe = self.recipe
        chosen = torch.randint(len(self.chats), (recipe.spans // 4,), device=self.device)
        found = [self._read(self.spans.draw(recipe.spans)), self._read(self.chats.with_context(chosen))]
        vectors, targets = (torch.cat([one[at] for one in found]) for at in (0, 1))
        states = (found[0][2] + found[1][2]) / 2
        far = _distance(vectors, targets)
        itself = torch.eye(len(vectors), dtype=torch.bool, device=self.device)
        order = self._order(
            (vectors @ vectors.T).masked_fill(itself, -1), (targets @ targets.T).masked_fill(itself, -1)
        )
        self._add("spans", recipe.follow * far + recipe.order * order + self.states_weight * states, far, order, states)

    def _read(self, pieces: Pieces) -> tuple[Tensor, Tensor, Tensor]:
        """The unit vectors by the student and by the teacher, and how far the states are from the teacher's."""
        order = torch.argsort(pieces.total)
        lengths = pieces.total[order].cpu().numpy()
        now, then, apart, first = [], [], [], 0
        for size in batch_sizes(lengths, BUDGET, 1 << 30):
            ids, sizes = pieces.batch(self.pool, order[first : first + size])[:2]
            first += size
            with torch.no_grad():
                wanted = self.teacher.states(ids, sizes)
            states = self.student.states(ids, sizes)
            now.append(functional.normalize(states[-1][:, 0].float(), dim=-1))
            then.append(functional.normalize(wanted[-1][:, 0].float(), dim=-1))
            if self.states_weight > 0:
                inside = (torch.arange(ids.shape[1], device=self.device)[None] < sizes[:, None]).unsqueeze(-1)
                # Of the last layer only the first token is ever read.
                pairs = zip(self.kept[:-1], states, strict=False)
                errors = [_states_error(one * inside, wanted[at] * inside) for at, one in pairs]
                apart.append(torch.stack(errors).mean() * (size / len(lengths)))
        none = torch.zeros((), device=self.device)
        return torch.cat(now), torch.cat(then), torch.stack(apart).sum() if apart else none

    def _order(self, now: Tensor, then: Tensor) -> Tensor:
        heat = self.recipe.temperature
        target = functional.softmax(then / heat, dim=1)
        return functional.kl_div(functional.log_softmax(now / heat, dim=1), target, reduction="batchmean")

    def _add(self, name: str, loss: Tensor, *parts: Tensor) -> None:
        """Add the gradients of a part of the step."""
        loss.backward()
        self.shown[name] = [part.detach() for part in parts]

    def train(self, out: Path) -> int:
        """Train for the given time; return the number of steps. The weights are saved now and then."""
        recipe, student = self.recipe, self.student
        embeddings = [student.words, student.positions, student.types]
        rest = [one for one in student.parameters() if all(one is not other for other in embeddings)]
        groups = [{"params": embeddings}, {"params": rest}]
        optimiser = torch.optim.AdamW(groups, lr=1e-9, weight_decay=0.01, fused=self.device == "cuda")
        began = shown_at = saved_at = time.monotonic()
        step = 0
        while (share := (time.monotonic() - began) / recipe.seconds) < 1:
            rate = recipe.rate * min(1.0, (step + 1) / recipe.warm_up) * (1 - share)
            optimiser.param_groups[0]["lr"] = rate * recipe.embedding_rate
            optimiser.param_groups[1]["lr"] = rate
            self.states_weight = recipe.states * max(0.0, 1 - share / recipe.states_share)
            optimiser.zero_grad(set_to_none=True)
            if step % 2:
                self.chats_part()
                self.passages_part()
            else:
                self.conversations()
            self.spans_part()
            torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
            optimiser.step()
            step += 1
            if time.monotonic() - shown_at > 20 or step == 1:
                shown_at = time.monotonic()
                parts = "  ".join(
                    f"{name} {' '.join(f'{one.item():.4f}' for one in values)}" for name, values in self.shown.items()
                )
                print(f"step {step} at {shown_at - began:.0f} s  rate {rate:.1e}  {parts}", flush=True)
            if time.monotonic() - saved_at > SAVED_EVERY:
                saved_at = time.monotonic()
                self.save(out)
        self.save(out)
        return step

    def save(self, out: Path) -> None:
        """Write the student's weights."""
        out.mkdir(parents=True, exist_ok=True)
        save_weights(out, "embedder", self.student.weights(), limit=SAVED_LIMIT)

    @torch.no_grad()
    def measure(self) -> dict[str, dict[str, dict[str, float]]]:
        """Search by vectors alone on the development sets, by the teacher and by the student."""
        self.student.eval()
        found = {}
        for name, one in self.data.development.items():
            before = measure.dense(self.teacher, self.data.pool, one)
            found[name] = measure.dense(self.student, self.data.pool, one)
            for form, values in found[name].items():
                print(f"{name} {form}: {measure.show(values)}  (teacher {measure.show(before[form])})", flush=True)
        return found


class _Spans:
    """Draws parts of texts: whole ones, random parts of one, and long parts that go over several."""

    def __init__(self, tables: list[tuple[Texts, float]], end: int) -> None:
        self.tables, self.end = tables, end
        self.shares = torch.tensor([share for _, share in tables])

    def draw(self, count: int) -> Pieces:
        """[CLS] part [SEP]."""
        sizes = (self.shares / self.shares.sum() * count).round().long().tolist()
        starts, lengths = [], []
        for (texts, _), size in zip(self.tables, sizes, strict=True):
            chosen = torch.randint(len(texts), (size,), device=texts.start.device)
            starts.append(texts.start[chosen])
            lengths.append(texts.length[chosen])
        start, length = torch.cat(starts), torch.cat(lengths)
        chance = torch.rand(len(start), device=start.device)
        size = torch.rand(len(start), device=start.device)
        # Half of the texts whole, two in five cut, one in sixteen over several texts.
        least = length.clamp(max=6)
        cut = least + ((length - least) * size).long()
        shift = (torch.rand(len(start), device=start.device) * (length - cut + 1)).long()
        is_cut, is_long = chance < 0.4, chance > 0.94
        start = torch.where(is_cut, start + shift, start)
        length = torch.where(is_cut, cut, length)
        long = (100 + 400 * size).long()
        length = torch.where(is_long, torch.minimum(long, self.end - start), length)
        one = torch.ones_like(start)
        return Pieces([one * 0, start, one], [one, length, one])


def _moved(rows: np.ndarray, by: int) -> np.ndarray:
    """Starts and lengths of texts in a pool that follows another one."""
    return np.asarray(rows + np.array([by, 0], rows.dtype))


def _distance(now: Tensor, then: Tensor) -> Tensor:
    """How far unit vectors are from others, on average: 1 - cosine."""
    return (1 - (now * then).sum(-1)).mean()


def _states_error(now: Tensor, then: Tensor) -> Tensor:
    """The squared distance of states from others, as a share of the squares of the others."""
    return ((now - then).float() ** 2).sum() / (then.float() ** 2).sum()


def main() -> None:
    """Train, measure and save."""
    folder, out, recipe = read_options(__doc__, Recipe)
    torch.manual_seed(recipe.seed)
    distiller = Distiller(folder, recipe, "cuda" if torch.cuda.is_available() else "cpu")
    print(f"n: {len(distiller.data.turns):,} turns, {len(distiller.pool):,} tokens; {recipe}", flush=True)
    steps = distiller.train(out)
    found = distiller.measure()
    written = json.dumps({"recipe": asdict(recipe) | {"steps": steps}, "dense": found}, indent=1)
    (out / "embedder.json").write_text(written, encoding="utf-8")


if __name__ == "__main__":
    main()
