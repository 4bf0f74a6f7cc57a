"""Distil the trained embedder into one that is faster: `python -m training.distil FOLDER OUT`.

FOLDER has `data.npz.xz` and `unlabelled.npz.xz` (both of `training.prepare`), and the trained embedder
(`teacher.onnx`, as exported). The student reads a turn once for both of its vectors (`training.context_bert`) and may
have fewer layers. It learns the teacher's vectors, the states after its layers and the order of its scores; no labels
are used. In the last part of the training its products are rounded as in the exported graph.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as functional
from torch import Tensor

from training import measure
from training.bert import Pieces, batch_sizes, run
from training.context_bert import ContextBert, run_pairs
from training.device_data import Data, DevelopmentSet, Texts
from training.prepare import load
from training.sampling import SOURCE_WEIGHT, QuerySampler, weights_of
from training.weight_files import load_products, save_products
from training.weights import keep_layers, read_exported

BUDGET = 64_000
"""Tokens in one batch of a step."""

WINDOW = 24
"""Consecutive turns of a chat that are in a step together."""


@dataclass
class Recipe:
    """What can be changed on the command line."""

    seconds: float = 1000.0
    seed: int = 20
    layers: str = "1,3,5,7,9,11"
    relu: int = 0
    rate: float = 5e-4
    embedding_rate: float = 0.3
    queries: int = 96
    read: int = 14
    windows: int = 32
    """How many runs of consecutive turns of chats are in a step."""
    spans: int = 512
    passages: int = 48
    read_passages: int = 8
    temperature: float = 0.03
    long_share: float = 0.2
    """Which part of the turns that are never read with a context is in a step."""
    context: float = 1.0
    context_rate: float = 1.0
    follow: float = 5.0
    order: float = 1.0
    states: float = 1.0
    rounded_share: float = 0.35
    """The last part of the training, in which products are rounded."""


class Distiller:
    """The teacher, the student and the data."""

    def __init__(self, folder: Path, recipe: Recipe, device: str, start: Path | None = None) -> None:
        self.recipe, self.device = recipe, device
        self.data = data = Data(folder / "data.npz.xz", device)
        more = load(folder / "unlabelled.npz.xz")
        self.pool = torch.cat([data.pool, torch.from_numpy(more["tokens"].astype(np.int32)).to(device)])
        texts = Texts(_moved(more["texts"], len(data.pool)), device)
        moved = _moved(more["turns"], len(data.pool))
        self.chats = Texts(moved, device, more["turns_before"], more["turns_context"])
        self.spans = _Spans(
            [(data.turns, 2.0), (data.passages, 1.0), (data.texts, 1.0), (texts, 4.0), (self.chats, 2.0)],
            len(self.pool),
        )
        trained = read_exported(folder / "teacher.onnx")
        self.teacher = ContextBert(trained).to(device).eval()
        self.kept = [int(at) for at in recipe.layers.split(",")]
        begun = load_products(start, "embedder") if start else keep_layers(trained, self.kept)
        self.student = ContextBert(begun, relu=bool(recipe.relu)).to(device).train()
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

    def conversations(self) -> None:
        """A part of the step: queries, and turns alone and with the turn before."""
        recipe, data = self.recipe, self.data
        asked = torch.from_numpy(self.sampler.draw(recipe.queries)).to(self.device)
        columns = torch.rand(len(asked), 64, device=self.device)
        columns[:, :32] *= 0.5
        columns = columns.topk(recipe.read, dim=1, largest=False).indices
        numbers = self.near[asked].gather(1, columns)
        unique = torch.unique(numbers)
        has = data.turns.before[unique] >= 0
        unique = unique[has | (torch.rand(len(unique), device=self.device) < recipe.long_share)]
        query = run(self.student.vector, data.pool, data.queries.alone(asked), budget=BUDGET)
        alone, context = run_pairs(self.student, data.pool, data.turns, unique, budget=BUDGET)
        has = data.turns.before[unique] >= 0
        far = _distance(query, self.queries[asked]) + _distance(alone, self.turns[unique])
        beside = _distance(context[has], self.contexts[unique][has])
        order = torch.zeros((), device=self.device)
        was = self.queries[asked]
        pairs = ((query @ alone.T, was @ self.turns[unique].T), (query @ context.T, was @ self.contexts[unique].T))
        for now, then in (*pairs, (torch.maximum(pairs[0][0], pairs[1][0]), torch.maximum(pairs[0][1], pairs[1][1]))):
            order = order + self._order(now, then)
        loss = recipe.follow * (far + recipe.context * beside) + recipe.order * order
        self.add("turns", loss, far / 2, beside, order / 3)

    def chats_part(self) -> None:
        """A part of the step: consecutive turns of chats. The turns alone are the queries."""
        recipe = self.recipe
        start = torch.randint(len(self.chats) - WINDOW, (recipe.windows, 1), device=self.device)
        chosen = torch.unique(start + torch.arange(WINDOW, device=self.device))
        alone, context = run_pairs(self.student, self.pool, self.chats, chosen, budget=BUDGET)
        was_alone, was_context = self.chat_turns[chosen].float(), self.chat_contexts[chosen].float()
        has = self.chats.before[chosen] >= 0
        far = _distance(alone, was_alone)
        beside = _distance(context[has], was_context[has])
        order = self._order(alone @ context[has].T, was_alone @ was_context[has].T)
        loss = recipe.follow * (far + recipe.context * beside) + recipe.order * order
        self.add("chats", loss, far, beside, order)

    def passages_part(self) -> None:
        """A part of the step: questions and passages."""
        recipe, data = self.recipe, self.data
        asked = torch.randint(len(data.passage_queries), (recipe.passages,), device=self.device)
        columns = torch.rand(len(asked), 32, device=self.device).topk(recipe.read_passages, dim=1).indices
        unique = torch.unique(self.near_passages[asked].gather(1, columns))
        query = run(self.student.vector, data.pool, data.passage_queries.alone(asked), budget=BUDGET)
        texts = run(self.student.vector, data.pool, data.passages.alone(unique), budget=BUDGET)
        far = _distance(query, self.passage_queries[asked]) + _distance(texts, self.passages[unique])
        order = self._order(query @ texts.T, self.passage_queries[asked] @ self.passages[unique].T)
        self.add("passages", recipe.follow * far + recipe.order * order, far / 2, order)

    def spans_part(self) -> None:
        """A part of the step: parts of all kinds of texts, with the states after each layer."""
        recipe = self.recipe
        pieces = self.spans.draw(recipe.spans)
        order = torch.argsort(pieces.total)
        lengths = pieces.total[order].cpu().numpy()
        now, then, first = [], [], 0
        beside = torch.zeros((), device=self.device)
        for size in batch_sizes(lengths, BUDGET, 1 << 30):
            ids, sizes = pieces.batch(self.pool, order[first : first + size])[:2]
            first += size
            with torch.no_grad():
                wanted = self.teacher(ids, sizes, keep=self.states_weight > 0)
            read = self.student(ids, sizes, keep=self.states_weight > 0)
            now.append(functional.normalize(read.first, dim=-1))
            then.append(functional.normalize(wanted.first, dim=-1))
            if self.states_weight > 0:
                inside = (torch.arange(ids.shape[1], device=self.device)[None] < sizes[:, None]).unsqueeze(-1)
                for at, one in zip(self.kept, read.states, strict=True):
                    error = ((one - wanted.states[at]).float() ** 2).masked_fill(~inside, 0.0)
                    beside = beside + error.sum() / (wanted.states[at].float() ** 2).masked_fill(~inside, 0.0).sum()
        vectors, targets = torch.cat(now), torch.cat(then)
        far = _distance(vectors, targets)
        self_score = torch.eye(len(vectors), dtype=torch.bool, device=self.device)
        order_loss = self._order(
            (vectors @ vectors.T).masked_fill(self_score, -1), (targets @ targets.T).masked_fill(self_score, -1)
        )
        loss = recipe.follow * far + recipe.order * order_loss + self.states_weight * beside / len(self.kept)
        self.add("spans", loss, far, order_loss, beside / len(self.kept))

    def _order(self, now: Tensor, then: Tensor) -> Tensor:
        heat = self.recipe.temperature
        target = functional.softmax(then / heat, dim=1)
        return functional.kl_div(functional.log_softmax(now / heat, dim=1), target, reduction="batchmean")

    def add(self, name: str, loss: Tensor, *parts: Tensor) -> None:
        """Add the gradients of a part of the step."""
        loss.backward()
        self.shown[name] = [part.detach() for part in parts]

    def train(self) -> int:
        """Train for the given time; return the number of steps."""
        recipe, student = self.recipe, self.student
        embeddings = [student.words, student.positions, student.types]
        context = [student.tokens]
        context += [one for name, one in student.named_parameters() if name.endswith("_shift")]
        apart = {id(one) for one in (*embeddings, *context)}
        rest = [one for one in student.parameters() if id(one) not in apart]
        groups = [{"params": embeddings}, {"params": rest}, {"params": context, "weight_decay": 0.0}]
        optimiser = torch.optim.AdamW(groups, lr=1e-9, weight_decay=0.01, fused=self.device == "cuda")
        self.shown: dict[str, list[Tensor]] = {}
        began = shown_at = time.monotonic()
        step, rounding = 0, False
        while (share := (time.monotonic() - began) / recipe.seconds) < 1:
            rate = recipe.rate * min(1.0, step / 100) * (1 - share)
            optimiser.param_groups[0]["lr"] = rate * recipe.embedding_rate
            optimiser.param_groups[1]["lr"] = rate
            optimiser.param_groups[2]["lr"] = rate * recipe.context_rate
            self.states_weight = recipe.states * max(0.0, 1 - share / 0.6)
            if share > 1 - recipe.rounded_share and not rounding:
                self._start_rounding()
                rounding = True
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
        return step

    @torch.no_grad()
    def _start_rounding(self) -> None:
        """Watch the inputs of all products on some texts, then round them."""
        for product in self.student.products():
            product.watching = True
        data = self.data
        for _ in range(4):
            chosen = torch.randint(len(data.turns), (512,), device=self.device)
            run_pairs(self.student, data.pool, data.turns, chosen, budget=BUDGET)
            run(self.student.vector, self.pool, self.spans.draw(256), budget=BUDGET)
        for product in self.student.products():
            product.fix_range()

    @torch.no_grad()
    def measure(self) -> dict[str, dict[str, dict[str, float]]]:
        """Search by vectors alone on the development sets, by the teacher and by the student."""
        self.student.eval()
        found = {}
        for name, one in self.data.development.items():
            before = measure.dense(self.teacher, self.data.pool, one)
            found[name] = dense(self.student, self.data.pool, one)
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


@torch.no_grad()
def dense(model: ContextBert, pool: Tensor, one: DevelopmentSet) -> dict[str, dict[str, float]]:
    """Exact search by vectors of the memories alone, with their context, and by the better of the two."""
    chosen = torch.arange(len(one.texts), device=pool.device)
    queries = measure.vectors(model, pool, one.queries)
    alone, context = run_pairs(model, pool, one.texts, chosen, budget=measure.BUDGET)
    forms = {"alone": (queries @ alone.T).masked_fill(~one.inside, -torch.inf)}
    if bool((one.texts.before >= 0).any()):
        forms["context"] = (queries @ context.T).masked_fill(~one.inside, -torch.inf)
        forms["both"] = torch.maximum(forms["alone"], forms["context"])
    return {name: measure.metrics(scores, one.relevant) for name, scores in forms.items()}


def _distance(now: Tensor, then: Tensor) -> Tensor:
    """How far unit vectors are from others, on average: 1 - cosine."""
    return (1 - (now * then).sum(-1)).mean()


def main() -> None:
    """Train, measure and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--start", type=Path, help="go on from what an earlier run wrote to this folder")
    for name, value in asdict(Recipe()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    options = vars(parser.parse_args())
    folder, out, start = options.pop("folder"), options.pop("out"), options.pop("start")
    recipe = Recipe(**options)
    torch.manual_seed(recipe.seed)
    distiller = Distiller(folder, recipe, "cuda" if torch.cuda.is_available() else "cpu", start)
    print(f"n: {len(distiller.data.turns):,} turns, {len(distiller.pool):,} tokens; {recipe}", flush=True)
    steps = distiller.train()
    found = distiller.measure()
    out.mkdir(parents=True, exist_ok=True)
    save_products(out, "embedder", distiller.student.weights())
    written = json.dumps({"recipe": asdict(recipe) | {"steps": steps}, "dense": found}, indent=1)
    (out / "embedder.json").write_text(written, encoding="utf-8")


if __name__ == "__main__":
    main()
