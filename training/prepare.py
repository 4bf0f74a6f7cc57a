"""Tokenise the training data and the development sets into arrays: `python -m training.prepare DATA DEV MODEL OUT`.

DATA is the folder of the packed files, DEV the folder of the development sets (which are only measured on), MODEL a
folder with `tokenizer.json`. OUT is one compressed file for the trainer, so that no text is tokenised on the GPU
machine. All tokens are in one array; a text is a start and a length.
"""

from __future__ import annotations

import argparse
import io
import json
import lzma
import random
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers

from training.packed import Conversation, read, read_conversations, split_held_out
from training.questions import RENAMED, ask_about, asked_turns, rename_speakers, word_weights

SEED = 15
TEXT_TOKENS = 250
QUERY_TOKENS = 64
CONTEXT_WORDS = 20
"""How much of the turn before is read as context."""

SHORT_WORDS = 60
"""Longer turns are never embedded with the turn before."""

SPECIAL = (101, 102, 0)  # [CLS], [SEP] and padding, at the start of the pool
HARVESTED_ASKED, HARVESTED_ABOUT = 9_000, 16_000
PASSAGES = {"disfl-qa": 1_500, "dstc11-review": 3_000, "squad-sentences(nqg)": 20_000}
"""The most pairs of a source; all of the others."""

TEXTS = 40_000


class Pool:
    """The tokens of all texts, one after the other."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._chunks: list[list[int]] = [list(SPECIAL)]
        self._at = len(SPECIAL)

    def add(self, texts: list[str], limit: int) -> np.ndarray:
        """Add texts; return the start and the length of each."""
        rows = []
        for encoding in self._tokenizer.encode_batch(texts, add_special_tokens=False):
            ids = encoding.ids[:limit]
            rows.append((self._at, len(ids)))
            self._chunks.append(ids)
            self._at += len(ids)
        return np.array(rows, np.int32).reshape(-1, 2)

    def tokens(self) -> np.ndarray:
        """All tokens."""
        return np.concatenate([np.array(chunk, np.uint16) for chunk in self._chunks])


def prepare(data: Path, dev: Path, tokenizer: Any) -> dict[str, np.ndarray]:
    """All arrays of the trainer."""
    chance = random.Random(SEED)
    train, kept = split_held_out(read_conversations(data))
    train = [rename_speakers(one, chance) if one.source in RENAMED else one for one in train]
    pool = Pool(tokenizer)
    arrays = _turns(pool, tokenizer, train)
    arrays |= _questions(pool, train, chance)
    arrays |= _passages(pool, data, chance)
    texts = [line["text"] for line in read(data / "texts.jsonl.xz")]
    arrays["texts"] = pool.add(chance.sample(texts, min(TEXTS, len(texts))), TEXT_TOKENS)
    for folder in sorted(path for path in dev.iterdir() if (path / "corpus.jsonl").is_file()):
        arrays |= _development_set(pool, tokenizer, folder)
    arrays["tokens"] = pool.tokens()
    print(f"n: {len(train):,} conversations ({len(kept)} kept out), {len(arrays['turns']):,} turns, ", end="")
    print(f"{len(arrays['queries']):,} queries, {len(arrays['passage_pairs']):,} passages, ", end="")
    print(f"{len(arrays['tokens']):,} tokens")
    return arrays


def _context(tokenizer: Any, texts: list[str]) -> np.ndarray:
    """How many tokens of each text are read when it is the context of the next."""
    first = [" ".join(text.split()[:CONTEXT_WORDS]) for text in texts]
    return np.array([len(one.ids) for one in tokenizer.encode_batch(first, add_special_tokens=False)], np.int32)


def _before(sessions: list[str], texts: list[str]) -> np.ndarray:
    """For each text the one before it in the same session; -1 if there is none, or the text is long."""
    before = np.full(len(texts), -1, np.int32)
    for at in range(1, len(texts)):
        if sessions[at] == sessions[at - 1] and len(texts[at].split()) <= SHORT_WORDS:
            before[at] = at - 1
    return before


def _turns(pool: Pool, tokenizer: Any, train: list[Conversation]) -> dict[str, np.ndarray]:
    texts = [turn.indexed_text for one in train for turn in one.turns]
    numbers = np.array([len(one.turns) for one in train])
    sessions = [str(at) for at, one in enumerate(train) for _ in one.turns]
    return {
        "turns": pool.add(texts, TEXT_TOKENS),
        "turns_context": _context(tokenizer, texts),
        "turns_before": _before(sessions, texts),
        "conversations": np.concatenate([[0], np.cumsum(numbers)]).astype(np.int32),
    }


def _questions(pool: Pool, train: list[Conversation], chance: random.Random) -> dict[str, np.ndarray]:
    """Queries: text, conversation, source, and the gold turns (by number over all conversations)."""
    rows: list[tuple[str, int, str, list[int]]] = []
    first = 0
    asked, about = [], []
    weights = word_weights(train)
    for at, one in enumerate(train):
        rows += [(q.text, at, one.source, [first + gold for gold in q.gold]) for q in one.questions if q.gold]
        asked += [(text, at, "asked", [-1 - first - number]) for number, text in asked_turns(one)]
        long_enough = [turn for turn in one.turns if len(turn.text.split()) >= 6]
        for turn in chance.sample(long_enough, min(len(long_enough), 24)):
            question = ask_about(turn, weights, chance)
            if question:
                about.append((question, at, "about", []))
        first += len(one.turns)
    rows += chance.sample(asked, min(HARVESTED_ASKED, len(asked)))
    rows += chance.sample(about, min(HARVESTED_ABOUT, len(about)))
    sources = sorted({row[2] for row in rows})
    # A negative number is the turn that the query was taken from: it is neither evidence nor a candidate.
    pairs = [(at, gold) for at, row in enumerate(rows) for gold in row[3]]
    return {
        "queries": pool.add([row[0] for row in rows], QUERY_TOKENS),
        "query_conversation": np.array([row[1] for row in rows], np.int32),
        "query_source": np.array([sources.index(row[2]) for row in rows], np.int32),
        "query_gold": np.array(pairs, np.int32),
        "sources": np.array(sources),
    }


def _passages(pool: Pool, data: Path, chance: random.Random) -> dict[str, np.ndarray]:
    by_source: dict[str, list[tuple[str, str]]] = {}
    for line in read(data / "passages.jsonl.xz"):
        by_source.setdefault(line["source"], []).append((line["question"], line["passage"]))
    pairs = []
    for source, of_source in by_source.items():
        pairs += chance.sample(of_source, min(len(of_source), PASSAGES.get(source, len(of_source))))
    unique = list(dict.fromkeys(passage for _, passage in pairs))
    number = {passage: at for at, passage in enumerate(unique)}
    return {
        "passages": pool.add(unique, TEXT_TOKENS),
        "passage_queries": pool.add([question for question, _ in pairs], QUERY_TOKENS),
        "passage_pairs": np.array([number[passage] for _, passage in pairs], np.int32),
    }


def _development_set(pool: Pool, tokenizer: Any, folder: Path) -> dict[str, np.ndarray]:
    corpus = [json.loads(line) for line in (folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines()]
    queries = [json.loads(line) for line in (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    judged = [line.split("\t") for line in (folder / "qrels" / "test.tsv").read_text().splitlines()[1:]]
    texts = [f"{one['title']}. {one['text']}" if one["title"] else one["text"] for one in corpus]
    number = {one["_id"]: at for at, one in enumerate(corpus)}
    wanted = {query for query, _, score in judged if int(score) > 0}
    queries = [one for one in queries if one["_id"] in wanted]
    query_number = {one["_id"]: at for at, one in enumerate(queries)}
    projects = [(one.get("metadata") or {}).get("project") or "" for one in corpus]
    names = sorted(set(projects))
    asked = [(one.get("metadata") or {}).get("project") or "" for one in queries]
    sessions = [str((one.get("metadata") or {}).get("session") or at) for at, one in enumerate(corpus)]
    gold = [(query_number[q], number[d]) for q, d, score in judged if q in query_number and int(score) > 0]
    name = f"dev/{folder.name}"
    return {
        f"{name}/texts": pool.add(texts, TEXT_TOKENS),
        f"{name}/context": _context(tokenizer, texts),
        f"{name}/before": _before(sessions, texts),
        f"{name}/queries": pool.add([one["text"] for one in queries], QUERY_TOKENS),
        f"{name}/project": np.array([names.index(one) for one in projects], np.int32),
        f"{name}/query_project": np.array([names.index(one) for one in asked], np.int32),
        f"{name}/gold": np.array(gold, np.int32),
    }


def save(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write arrays to one file packed with xz."""
    raw = io.BytesIO()
    np.savez(raw, **arrays)
    path.write_bytes(lzma.compress(raw.getvalue(), preset=6))


def load(path: Path) -> dict[str, np.ndarray]:
    """Read arrays from a file packed with xz."""
    with np.load(io.BytesIO(lzma.decompress(path.read_bytes()))) as file:
        return {name: file[name] for name in file.files}


def main() -> None:
    """Write the file of the trainer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", type=Path, nargs="+")
    options = parser.parse_args()
    *folders, model, out = options.paths
    tokenizer = tokenizers.Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    arrays = prepare(*folders, tokenizer)
    save(out, arrays)
    print(f"{out}: {out.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
