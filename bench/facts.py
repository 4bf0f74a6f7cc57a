"""Facts that change: `python -m bench.facts --longmemeval DIR --conversations FILE`

Questions about facts that have changed have a current evidence and stale ones. Each set is stored three times: with
nothing, so that both are memories like any other; with the pairs confirmed that the review queue raised by itself; and
under keys. Then it is counted how often the first evidence of a recall is the current one ("current above stale"), and
whether the first hit of all is the current or a stale one.

A thousand generated pairs of facts that are both true are remembered one by one: none may be retired. And the time of a
recall is measured with 30 % of the memories retired and with none, in turns in one run.
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from bench.machine import machine, versions
from bench.timing import milliseconds, spread
from retentive.engine import Engine
from retentive.evaluation.run import all_memories, open_evaluation_embedder
from retentive.inference.embedders import Embedder, Matrix
from retentive.inference.embedders.disk_cache import default_cache
from retentive.models import Model
from retentive.settings import EmbedderSettings
from retentive.stores import open_store

START = datetime(2024, 1, 1, tzinfo=UTC)
LIMIT = 50
DISTRACTORS = 1500


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a changed fact, with its current and its stale evidence, by the numbers of drafts."""

    text: str
    project: str
    current: frozenset[int]
    stale: frozenset[int]


@dataclass(slots=True)
class ChangedFacts:
    """Memories to store, and questions about them."""

    name: str
    drafts: list[dict[str, Any]] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)


def longmemeval(folder: Path, seed: int) -> ChangedFacts:
    """The questions of the category knowledge-update, with the sessions of their evidence and some others."""
    found = ChangedFacts("LongMemEval, knowledge-update")
    lines = [json.loads(line) for line in (folder / "corpus.jsonl").open(encoding="utf-8")]
    evidence: dict[str, list[str]] = {}
    for line in (folder / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query, document, relevance = line.split("\t")
        if relevance != "0":
            evidence.setdefault(query, []).append(document)
    queries = [json.loads(line) for line in (folder / "queries.jsonl").open(encoding="utf-8")]
    queries = [one for one in queries if one["metadata"]["category"] == "knowledge-update"]
    sessions = {document.split("/")[0] for one in queries for document in evidence.get(one["_id"], ())}
    others = [one["_id"] for one in lines if one["_id"].split("/")[0] not in sessions]
    kept = set(random.Random(seed).sample(others, min(DISTRACTORS, len(others))))
    number_of = {}
    for one in lines:
        if one["_id"].split("/")[0] in sessions or one["_id"] in kept:
            number_of[one["_id"]] = len(found.drafts)
            about = one["metadata"]
            speaker = about["speaker"]
            found.drafts.append(
                {
                    "text": one["text"].removeprefix(f"{speaker}: "),
                    "speaker": speaker,
                    "project": "pool",
                    "session": about["session"],
                    "occurred": about["occurred_at"],
                }
            )
    for query in queries:
        numbers = sorted((number_of[one] for one in evidence.get(query["_id"], ())), key=lambda n: _time(found, n))
        if numbers:
            _add_question(found, query["text"], "pool", numbers, last=_session(found, numbers[-1]))
    return found


def vehiclemem(file: Path, conversations: int) -> ChangedFacts:
    """The questions with evidence of one speaker at two times: of a preference that has changed, the last counts."""
    found = ChangedFacts("vehiclemem, one speaker's evidence")
    with lzma.open(file, "rt", encoding="utf-8") as lines:
        chosen = (one for line in lines if (one := json.loads(line))["source"] == "vehiclemem")
        for number, conversation in zip(range(conversations), chosen, strict=False):
            first, project = len(found.drafts), f"car {number}"
            for at, turn in enumerate(conversation["turns"]):
                occurred = START + timedelta(hours=at)
                found.drafts.append({**turn, "project": project, "session": project, "occurred": occurred})
            for question in conversation["questions"]:
                last = max(question["gold"])
                speaker = conversation["turns"][last]["speaker"]
                same = [one for one in sorted(question["gold"]) if conversation["turns"][one]["speaker"] == speaker]
                if len(same) > 1:
                    _add_question(found, question["text"], project, [first + one for one in same], last=None)
    return found


def _add_question(found: ChangedFacts, text: str, project: str, numbers: list[int], *, last: str | None) -> None:
    current = {one for one in numbers if last is not None and _session(found, one) == last} or {numbers[-1]}
    stale = set(numbers) - current
    if stale:
        found.questions.append(Question(text, project, frozenset(current), frozenset(stale)))


def _time(found: ChangedFacts, number: int) -> str:
    return str(found.drafts[number]["occurred"])


def _session(found: ChangedFacts, number: int) -> str:
    return str(found.drafts[number]["session"])


def keyed(found: ChangedFacts) -> list[dict[str, Any]]:
    """The drafts with a key for each question: of the current evidence, the last, and of every stale one."""
    drafts = [dict(one) for one in found.drafts]
    for number, question in enumerate(found.questions):
        for one in (max(question.current), *question.stale):
            drafts[one].setdefault("key", f"question/{number}")
    return drafts


def measure(found: ChangedFacts, embedder: Embedder, folder: Path, how: str) -> str:
    """Store the memories in one way, ask all questions, and return a row of the table."""
    with Engine(open_store(str(folder / f"{how}.db")), embedder) as engine:
        drafts = keyed(found) if how == "keys" else found.drafts
        stored = [memory for at in range(0, len(drafts), 500) for memory in engine.remember_many(drafts[at : at + 500])]
        number_of = {memory.id: number for number, memory in enumerate(stored)}
        raised = ""
        if how == "confirmed":
            raised = confirm_right_ones(engine, found, stored)
        above = first_current = first_stale = 0
        for question in found.questions:
            ranked = [
                number_of[hit.id]
                for hit in engine.recall(question.text, project=question.project, limit=LIMIT, record_use=False)
            ]
            evidence = next((one for one in ranked if one in question.current | question.stale), None)
            above += evidence in question.current
            first_current += ranked[:1] != [] and ranked[0] in question.current
            first_stale += ranked[:1] != [] and ranked[0] in question.stale
    count = len(found.questions)
    figures = " | ".join(f"{100 * one / count:.1f} %" for one in (above, first_current, first_stale))
    return f"| {found.name} ({count}) | {how}{raised} | {figures} |"


def confirm_right_ones(engine: Engine, found: ChangedFacts, stored: Sequence[Any]) -> str:
    """Let the queue raise suggestions for each evidence, and confirm those that are right, as a person would."""
    right, raised, confirmed = set(), 0, set()
    for number, question in enumerate(found.questions):
        right |= {(stored[old].id, stored[new].id, number) for old in question.stale for new in question.current}
    pairs = {(old, new): number for old, new, number in right}
    for new in sorted({one for question in found.questions for one in question.current}):
        for suggestion in engine.reviews.suggest(stored[new]):
            raised += 1
            if (suggestion.old, suggestion.new) in pairs:
                confirmed.add(pairs[suggestion.old, suggestion.new])
                if engine.get(suggestion.old).valid_to is None:
                    engine.reviews.confirm(suggestion.id, actor="bench")
    return f" ({len(confirmed)} questions of {raised} suggestions)"


SUBJECTS = ("Ana", "Bo", "Cleo", "Dan", "Eva")
TOPICS = {
    "drinks": ("green tea", "black coffee", "oat milk", "apple juice"),
    "plays": ("the cello", "chess on Sundays", "tennis with Bo", "the piano"),
    "visited": ("Paris in May", "Rome in June", "Lisbon for work", "Oslo with her sister"),
    "owns": ("a blue bicycle", "a red car", "two cats", "an old boat"),
    "speaks": ("French", "some Spanish", "German at work", "a little Greek"),
}


def coexisting(pairs: int, seed: int) -> Iterator[tuple[str, str]]:
    """Pairs of facts about one subject that are both true."""
    dice = random.Random(seed)
    for number in range(pairs):
        subject, verb = f"{dice.choice(SUBJECTS)} {number}", dice.choice(list(TOPICS))
        first, second = dice.sample(TOPICS[verb], 2)
        yield f"{subject} {verb} {first}", f"{subject} also {verb} {second}"


def measure_coexisting(folder: Path, embedder: Embedder, pairs: int, seed: int) -> str:
    """Remember facts that are both true, one by one, and count what was retired."""
    with Engine(open_store(str(folder / "coexisting.db")), embedder) as engine:
        for first, second in coexisting(pairs, seed):
            engine.remember(first)
            engine.remember(second)
        total = engine.stats().memories
        current = sum(1 for _ in all_memories(engine))
        suggested = len(engine.reviews.list())
    return f"coexisting pairs: {pairs:,}; wrongly retired: {total - current}; suggestions raised: {suggested}"


class RandomVectors(Embedder):
    """Vectors that depend on the text alone: the time of a model would only hide that of the search."""

    def __init__(self) -> None:
        self.model = Model("random", "1", 384, "fingerprint of random vectors")

    def embed(self, texts: Sequence[str]) -> Matrix:
        rows = np.stack([np.random.default_rng(abs(hash(text))).standard_normal(384) for text in texts])
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def measure_times(folder: Path, memories: int, share: float, seed: int) -> str:
    """Return the times of recalls with and without retired memories, in turns."""
    dice = np.random.default_rng(seed)
    words = [f"word{number}" for number in range(5000)]
    weights = 1 / np.arange(1, len(words) + 1)
    weights /= weights.sum()

    def text() -> str:
        return " ".join(dice.choice(words, size=20, p=weights))

    texts = [text() for _ in range(memories)]
    queries = [" ".join(dice.choice(words, size=6, p=weights)) for _ in range(100)]
    engines = {}
    for name in ("none retired", f"{share:.0%} retired"):
        engine = Engine(open_store(str(folder / f"{name[:4].strip()}.db")), RandomVectors())
        for at in range(0, memories, 1000):
            batch = [
                {"text": one, "session": f"s{number % 50}", "valid_to": START if retired else None}
                for number, one in enumerate(texts[at : at + 1000])
                for retired in [name != "none retired" and dice.random() < share]
            ]
            engine.remember_many(batch)
        engines[name] = engine
    times: dict[str, list[float]] = {name: [] for name in engines}
    for turn in range(6):
        for query in queries:
            for name, engine in engines.items():
                took = milliseconds(lambda engine=engine, query=query: engine.recall(query, record_use=False))
                if turn:
                    times[name].append(took)
    spreads = {name: spread(of_engine) for name, of_engine in times.items()}
    for engine in engines.values():
        engine.close()
    (_, without), (_, retired) = spreads.items()
    shown = "; ".join(f"{name}: p50 {one.p50:.2f} ms, p95 {one.p95:.2f} ms" for name, one in spreads.items())
    return f"{memories:,} memories: {shown}; ratio of p50: {retired.p50 / without.p50:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.facts", description=__doc__)
    parser.add_argument("--longmemeval", type=Path, metavar="DIR", help="an evaluation set with its categories")
    parser.add_argument("--conversations", type=Path, metavar="FILE", help="conversations.jsonl.xz with vehiclemem")
    parser.add_argument("--cars", type=int, default=8, metavar="N", help="conversations of vehiclemem")
    parser.add_argument("--pairs", type=int, default=1000, metavar="N", help="pairs of facts that are both true")
    parser.add_argument("--memories", type=int, default=20_000, metavar="N", help="memories for the time of a recall")
    parser.add_argument("--seed", type=int, default=7, metavar="N")
    options = parser.parse_args()
    print(f"{machine()}; {versions()}\n")
    with open_evaluation_embedder(EmbedderSettings(), cache=default_cache()) as embedder:
        if embedder is None:
            raise SystemExit("this needs the embedder")
        run(embedder, options)


def run(embedder: Embedder, options: argparse.Namespace) -> None:
    """Measure everything that is asked for, and print it."""
    sets = [longmemeval(options.longmemeval, options.seed)] if options.longmemeval else []
    sets += [vehiclemem(options.conversations, options.cars)] if options.conversations else []
    if sets:
        print("| questions | memories | current above stale | first hit is current | first hit is stale |")
        print("|---|---|---|---|---|")
    for found in sets:
        for how in ("nothing", "confirmed", "keys"):
            with tempfile.TemporaryDirectory(prefix="retentive-facts-") as folder:
                print(measure(found, embedder, Path(folder), how), flush=True)
    with tempfile.TemporaryDirectory(prefix="retentive-facts-") as folder:
        if options.pairs:
            print(f"\n{measure_coexisting(Path(folder), embedder, options.pairs, options.seed)}", flush=True)
        if options.memories:
            print(measure_times(Path(folder), options.memories, 0.3, options.seed))


if __name__ == "__main__":
    main()
