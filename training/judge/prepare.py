"""Tokenise everything that the judge is trained on: `python -m training.judge.prepare DATA MODEL OUT`.

DATA is the folder of the packed files, MODEL a folder with `tokenizer.json`, OUT one compressed file for the trainer.
A turn is stored without its speaker, whose name is a text of its own, so that the trainer can put another name before
it.
"""

from __future__ import annotations

import argparse
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tokenizers

from training.judge.changes import Pair, of_another_person, of_pieces, written_pairs
from training.judge.pieces import FOLDER, Piece, Query, Turn, pieces
from training.packed import Conversation, read, read_conversations, split_held_out
from training.prepare import Pool, save
from training.questions import RENAMED, rename_speakers

SEED = 5
TURN_TOKENS = 250
QUERY_TOKENS = (96, 64)
"""Of a longer query, the judge reads this many tokens at the beginning and at the end."""

CONTEXT_TOKENS = 44
"""How much of the turn before is read."""

RULE_QUERY = "[rule]"
"""With this query, the judge says whether a memory states a standing rule or preference."""

CHANGE_QUERY = "[change]"
"""Before an older statement, this asks what a newer one does to it."""

INSIDE, OUTSIDE = "at that time", "at another time"
"""What stands before a memory if the query names a period."""

SOURCES = (
    "friendsqa", "realmem", "qmsum", "vehiclemem", "ikat-ptkb", "madial", "molweni", "recall-bench", "proactivemem",
    "precisionmem",
)  # fmt: skip
"""The labelled sources that are trained on beside the pieces."""

PASSAGES = ("squad", "xquad", "realmem", "wow")
ASKED_OF = 3
"""Of how many pieces a prompt that needs no memory is asked."""

NEAREST = 12
CANDIDATES = 40
"""How many turns of a conversation are candidates of a query; of a longer one, half share most words with it."""

PERIODS = (
    "yesterday", "last week", "on Monday", "last Tuesday", "in May", "on 8 May 2023", "in 2022", "last month",
    "three weeks ago", "over the weekend", "last spring", "on March 3rd", "this morning", "two days ago", "last year",
    "in the first week of June", "on 2024-11-05", "last Friday evening", "around Christmas", "at the beginning of July",
)  # fmt: skip
OF_A_PERIOD = (
    "what did we talk about {}?", "What happened {}?", "what did I do {}?", "Summarise what was said {}.",
    "what was discussed {}", "{} notes", "What were we working on {}?", "Was there anything important {}?",
)  # fmt: skip


class Row(NamedTuple):
    """A query of the trainer.

    `speaker` is the name before the gold turns instead of their own, which makes them no answer; `period` the first
    and last turn of the time that the query names.
    """

    text: str
    group: int
    kind: str
    source: str
    gold: tuple[int, ...]
    weak: tuple[int, ...]
    speaker: str = ""
    period: tuple[int, int] | None = None


def _names(turns: Iterable[Turn]) -> list[str]:
    return sorted({turn.speaker for turn in turns} - {"User", "Assistant", "user", "assistant", ""})


def _swaps(row: Row, turns: Sequence[Turn], chance: random.Random) -> list[Row]:
    """The query with another person's name, and the query with its evidence under another person's name."""
    names = _names(turns)
    named = [name for name in names if re.search(rf"\b{re.escape(name.split()[0])}\b", row.text)]
    if len(named) != 1 or len(names) < 2 or not all(turns[at].speaker == named[0] for at in row.gold):
        return []
    other = chance.choice([name for name in names if name != named[0]])
    text = re.sub(rf"\b{re.escape(named[0].split()[0])}\b", other.split()[0], row.text)
    looks = tuple(dict.fromkeys(row.gold + row.weak))
    swapped = row._replace(kind="swap", gold=(), weak=looks)
    return [swapped._replace(text=text), swapped._replace(speaker=other)]


def _timed(row: Row, count: int, chance: random.Random) -> list[Row]:
    """The query with a period that its evidence is in, and with one that it is not in."""
    first, last = min(row.gold), max(row.gold)
    start, end = max(0, first - chance.randint(0, 6)), min(count - 1, last + chance.randint(0, 6))
    text = row.text.rstrip("?. ") + f" {chance.choice(PERIODS)}?"
    found = [row._replace(text=text, kind="timed", period=(start, end))]
    sides = [(0, first - 1), (last + 1, count - 1)]
    side = max(sides, key=lambda one: one[1] - one[0])
    if side[1] - side[0] >= 3:
        found.append(row._replace(text=text, kind="timed", gold=(), weak=row.gold, period=side))
    return found


def _of_period(group: int, source: str, turns: Sequence[Turn], chance: random.Random) -> Row | None:
    """A query about a period and nothing else: every turn of it with some content answers."""
    if len(turns) < 8:
        return None
    start = chance.randrange(len(turns) - 3)
    end = min(len(turns) - 1, start + chance.randint(2, 7))
    gold = tuple(at for at in range(start, end + 1) if len(turns[at].text.split()) >= 5)
    weak = tuple(at for at in range(start, end + 1) if at not in gold)
    text = chance.choice(OF_A_PERIOD).format(chance.choice(PERIODS))
    return Row(text, group, "timed", source, gold, weak, period=(start, end)) if gold else None


def training_rows(data: Path) -> tuple[list[list[Turn]], list[Row]]:
    """The groups of turns, and the queries about them."""
    chance = random.Random(SEED)
    groups: list[list[Turn]] = []
    rows: list[Row] = []
    conversations, _ = split_held_out(read_conversations(data))
    for one in conversations:
        if one.source in SOURCES:
            rows += _of_conversation(rename_speakers(one, chance) if one.source in RENAMED else one, groups, chance)
    for piece in pieces(data):
        if piece.split == "train":
            rows += _of_piece(piece, groups, chance)
    first = next(row.group for row in rows if row.source == "written")
    rows += _everyday(groups, range(first, len(groups)), chance)
    return groups, rows


def _everyday(groups: list[list[Turn]], places: Sequence[int], chance: random.Random) -> list[Row]:
    """Prompts that need no memory, and prompts with the one note that they need, each asked of several pieces.

    `places` are the groups that are pieces. A note that is needed becomes a turn of one of them.
    """
    rows = []
    for line in read(FOLDER / "everyday.jsonl.xz"):
        if line["split"] != "train":
            continue
        if not line.get("needs"):
            chosen = chance.sample(places, ASKED_OF)
            rows += [Row(line["text"], group, "everyday", "written", (), ()) for group in chosen]
        else:
            for group in chance.sample(places, ASKED_OF):
                groups[group] = [*groups[group], Turn(chance.choice(("", "User")), line["needs"])]
                rows.append(Row(line["text"], group, "prompt", "written", (len(groups[group]) - 1,), ()))
    return rows


def _of_conversation(one: Conversation, groups: list[list[Turn]], chance: random.Random) -> list[Row]:
    turns = [Turn(*turn) for turn in one.turns]
    asked = [question for question in one.questions if question.gold and max(question.gold) < len(turns)]
    rows = [Row(q.text, len(groups), "answer", one.source, tuple(q.gold), ()) for q in asked]
    swapped = [swap for row in rows for swap in _swaps(row, turns, chance)]
    if rows:
        groups.append(turns)
    return rows + swapped


def _needs_date(query: Query, turns: Sequence[Turn]) -> bool:
    """Whether a query was called unanswerable because no date was shown: a memory has a date, which answers it."""
    asks_when = re.match(r"(when|how long ago) (did|was|were|has|have)\b", query.text.lower())
    return query.kind == "never" and asks_when is not None and not any(turn.date for turn in turns)


def _of_piece(piece: Piece, groups: list[list[Turn]], chance: random.Random) -> list[Row]:
    group, turns, source = len(groups), piece.turns, "written"
    groups.append(list(turns))
    rows = [Row(q.text, group, q.kind, source, q.gold, q.weak) for q in piece.queries if not _needs_date(q, turns)]
    answers = [row for row in rows if row.kind in ("answer", "change")]
    swapped = [swap for row in answers for swap in _swaps(row, turns, chance)]
    timed = [timed for row in answers if chance.random() < 0.3 for timed in _timed(row, len(turns), chance)]
    of_period = _of_period(group, source, turns, chance)
    # Only of the written pieces it is known that no other turn states a rule.
    has_rules = bool(piece.rules) or piece.source.startswith("own-")
    rules = [Row(RULE_QUERY, group, "rule", source, piece.rules, ())] if has_rules else []
    return [*rows, *swapped, *timed, *([of_period] if of_period else []), *rules]


def _candidates(row: Row, words: Sequence[set[str]], weight: Counter[str], chance: random.Random) -> list[int]:
    """The turns that a query is trained with, by their numbers in the group."""
    count = len(words)
    if count <= CANDIDATES:
        return list(range(count))
    asked = {word for word in re.findall(r"\w+", row.text.lower()) if word in weight}
    shared = [sum(1.0 / weight[word] for word in asked & found) for found in words]
    near = sorted(range(count), key=lambda at: -shared[at])[: CANDIDATES // 2]
    some = chance.sample(range(count), CANDIDATES)
    return list(dict.fromkeys([*row.gold[:6], *row.weak[:6], *near, *some]))[:CANDIDATES]


def _candidates_of_all(groups: list[list[Turn]], rows: list[Row], firsts: np.ndarray) -> np.ndarray:
    """For each query the numbers of its candidates among all turns; -1 where it has fewer."""
    chance = random.Random(SEED)
    found = np.full((len(rows), CANDIDATES), -1, np.int32)
    words: list[list[set[str]]] = [[set(re.findall(r"\w+", turn.text.lower())) for turn in group] for group in groups]
    weights = [Counter(word for one in group for word in one) for group in words]
    for at, row in enumerate(rows):
        chosen = _candidates(row, words[row.group], weights[row.group], chance)
        found[at, : len(chosen)] = np.array(chosen) + firsts[row.group]
    return found


def _passages(data: Path) -> tuple[list[tuple[str, str]], np.ndarray]:
    """Questions with their passages, and for each the other passages that share most words with the question."""
    lines = [line for line in read(data / "passages.jsonl.xz") if line["source"].startswith(PASSAGES)]
    pairs = [(line["question"], line["passage"]) for line in lines]
    words = [set(re.findall(r"[a-z0-9]{4,}", passage.lower())) for _, passage in pairs]
    having: dict[str, list[int]] = defaultdict(list)
    for at, found in enumerate(words):
        for word in found:
            having[word].append(at)
    nearest = np.zeros((len(pairs), NEAREST), np.int32)
    chance = random.Random(SEED)
    for at, (question, passage) in enumerate(pairs):
        shared: Counter[int] = Counter()
        for word in set(re.findall(r"[a-z0-9]{4,}", question.lower())):
            if len(having[word]) < 800:
                shared.update(having[word])
        near = [other for other, _ in shared.most_common(NEAREST + 4) if pairs[other][1] != passage][:NEAREST]
        near += [chance.randrange(len(pairs)) for _ in range(NEAREST - len(near))]
        nearest[at] = near
    return pairs, nearest


def query_tokens(ids: list[int]) -> list[int]:
    """The tokens of a query that the judge reads: all, or the beginning and the end."""
    head, tail = QUERY_TOKENS
    return ids if len(ids) <= head + tail else ids[:head] + ids[-tail:]


class QueryPool(Pool):
    """A pool that can also take queries, of which the middle is left out."""

    def add_queries(self, texts: list[str]) -> np.ndarray:
        """Add queries; return the start and the length of each."""
        rows = []
        for encoding in self._tokenizer.encode_batch(texts, add_special_tokens=False):
            ids = query_tokens(encoding.ids)
            rows.append((self._at, len(ids)))
            self._chunks.append(ids)
            self._at += len(ids)
        return np.array(rows, np.int32).reshape(-1, 2)


def arrays_of(groups: list[list[Turn]], rows: list[Row], pool: QueryPool) -> dict[str, np.ndarray]:
    """The turns and queries as arrays."""
    turns = [turn for group in groups for turn in group]
    firsts = np.cumsum([0, *map(len, groups)]).astype(np.int32)
    speakers = sorted({turn.speaker for turn in turns} | {row.speaker for row in rows})
    number = {name: at for at, name in enumerate(speakers)}
    kinds = sorted({row.kind for row in rows})
    sources = sorted({row.source for row in rows})
    before = np.arange(-1, len(turns) - 1, dtype=np.int32)
    before[firsts[:-1]] = -1
    labels = [(at, turn, 1.0) for at, row in enumerate(rows) for turn in row.gold]
    labels += [(at, turn, 0.0) for at, row in enumerate(rows) for turn in row.weak]
    return {
        "turns": pool.add([turn.words for turn in turns], TURN_TOKENS),
        "turn_speaker": np.array([number[turn.speaker] for turn in turns], np.int32),
        "turn_before": before,
        "speakers": pool.add([f"{name}:" if name else "" for name in speakers], 12),
        "firsts": firsts,
        "queries": pool.add_queries([row.text for row in rows]),
        "query_group": np.array([row.group for row in rows], np.int32),
        "query_kind": np.array([kinds.index(row.kind) for row in rows], np.int32),
        "query_source": np.array([sources.index(row.source) for row in rows], np.int32),
        "query_speaker": np.array([number[row.speaker] if row.speaker else -1 for row in rows], np.int32),
        "query_candidates": _candidates_of_all(groups, rows, firsts),
        "query_period": np.array([row.period or (-1, -1) for row in rows], np.int32),
        "labels": np.array(labels, np.float32),
        "kinds": np.array(kinds),
        "sources": np.array(sources),
    }


def pairs_of_statements(data: Path) -> list[Pair]:
    """All pairs of an older and a newer statement."""
    chance = random.Random(SEED)
    conversations = {(one.source, one.id): one for one in read_conversations(data)}
    written = list(written_pairs(conversations))
    names = sorted({pair.older.speaker for pair in written} - {"", "User", "Assistant"})
    swapped = [pair for pair in of_another_person(written, names, chance) if pair.split == "train"]
    return [*written, *swapped, *of_pieces(pieces(data), chance)]


def arrays_of_pairs(pairs: list[Pair], pool: QueryPool) -> dict[str, np.ndarray]:
    """The pairs as arrays."""

    def said(speaker: str) -> str:
        return f"{speaker}:" if speaker else ""

    older = [f"{CHANGE_QUERY} {said(pair.older.speaker)} {pair.older.text}" for pair in pairs]
    return {
        "pair_older": pool.add_queries(older),
        "pair_speaker": pool.add([said(pair.newer.speaker) for pair in pairs], 12),
        "pair_newer": pool.add([pair.newer.text for pair in pairs], TURN_TOKENS),
        "pair_before": pool.add([pair.newer.before for pair in pairs], CONTEXT_TOKENS),
        "pair_label": np.array([pair.label for pair in pairs], np.int32),
        "pair_attribute": np.array([pair.attribute for pair in pairs], np.int32),
        "pair_weight": np.array([pair.weight for pair in pairs], np.float32),
    }


def prepare(data: Path, tokenizer: Any) -> dict[str, np.ndarray]:
    """All arrays of the trainer, those of the pieces for development with the prefix `dev/`."""
    pool = QueryPool(tokenizer)
    groups, rows = training_rows(data)
    arrays = arrays_of(groups, rows, pool)
    held = [piece for piece in pieces(data) if piece.split == "dev"]
    asked = [
        Row(q.text, at, q.kind, piece.source, q.gold, q.weak) for at, piece in enumerate(held) for q in piece.queries
    ]
    arrays |= {f"dev/{name}": array for name, array in arrays_of([list(p.turns) for p in held], asked, pool).items()}
    pairs, nearest = _passages(data)
    arrays["passages"] = pool.add([passage for _, passage in pairs], TURN_TOKENS)
    arrays["passage_queries"] = pool.add_queries([question for question, _ in pairs])
    arrays["passage_nearest"] = nearest
    changes = pairs_of_statements(data)
    for split, prefix in (("train", ""), ("dev", "dev/")):
        chosen = [pair for pair in changes if pair.split == split]
        arrays |= {f"{prefix}{name}": array for name, array in arrays_of_pairs(chosen, pool).items()}
    arrays["marks"] = pool.add([INSIDE, OUTSIDE], 8)
    arrays["tokens"] = pool.tokens()
    print(
        f"n: {len(rows):,} queries {dict(Counter(row.kind for row in rows))}, {len(groups):,} groups, "
        f"{len(arrays['turns']):,} turns, {len(pairs):,} passages, {len(changes):,} pairs of statements, "
        f"{len(arrays['tokens']):,} tokens; dev {len(asked):,}"
    )
    return arrays


def main() -> None:
    """Write the file of the trainer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    tokenizer = tokenizers.Tokenizer.from_file(str(options.model / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    save(options.out, prepare(options.data, tokenizer))
    print(f"{options.out}: {options.out.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
