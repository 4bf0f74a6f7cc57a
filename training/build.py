"""Build the packed files from clones of the source repositories: `python -m training.build CLONES OUT`.

CLONES has a folder for each repository, by owner and name: `CLONES/emorynlp/FriendsQA`. Which repositories there are,
at which commit, and what is taken, is in `sources.toml`. A source whose repository or file is not there is named and
left out. Texts that also occur in a folder given with `--without` (evaluation sets) are removed.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from training import packed
from training.sources import CONVERSATIONS, PASSAGES, TEXTS
from training.sources.reading import Line

Read = TypeVar("Read")
Readers = dict[str, Callable[[Path], Iterator[Line]]]

OVERLAP_WORDS = 13
"""A training text that shares this many words in a row with an evaluation set is removed."""


def shingles(text: str) -> set[str]:
    """All runs of words by which overlaps are found; of a short text, all of it."""
    words = text.lower().split()
    return {" ".join(words[at : at + OVERLAP_WORDS]) for at in range(max(1, len(words) - OVERLAP_WORDS + 1))}


def evaluation_shingles(folders: list[Path]) -> set[str]:
    """The runs of words of all memories and queries of evaluation sets; short texts count as a whole."""
    found: set[str] = set()
    for folder in folders:
        for name in ("corpus.jsonl", "queries.jsonl"):
            for line in (folder / name).read_text(encoding="utf-8").splitlines():
                read = json.loads(line)
                speaker = (read.get("metadata") or {}).get("speaker")
                text = read["text"].removeprefix(f"{speaker}:").strip()
                if len(text.split()) >= 6:
                    found |= shingles(text)
    return found


class Counts(NamedTuple):
    """What a source gives to one of the files; `questions` and `turns` only of conversations."""

    file: str
    source: str
    lines: int
    turns: int = 0
    questions: int = 0
    removed: int = 0

    def __str__(self) -> str:
        """A row of the table that is printed."""
        inside = f"{self.turns:>9,} turns {self.questions:>7,} questions" if self.turns else ""
        removed = f"  ({self.removed:,} removed: in an evaluation set)" if self.removed else ""
        return f"{self.file:<14}{self.source:<29}{self.lines:>7,} lines{inside}{removed}"


class Builder:
    """Reads the clones that are there, one source at a time; `missing` says what is not there."""

    def __init__(self, clones: Path, forbidden: set[str]) -> None:
        listed = tomllib.loads((Path(__file__).parent / "sources.toml").read_text(encoding="utf-8"))["source"]
        self._folders = {
            name: clones / one["repository"] for one in listed for name in (one["name"], *one.get("also", ()))
        }
        self._forbidden = forbidden
        self.counts: list[Counts] = []
        self.missing: dict[str, str] = {}

    def conversations(self) -> Iterator[dict[str, Any]]:
        """Lines of `conversations.jsonl.xz`; a conversation with a turn of an evaluation set is left out whole."""
        for name, read in CONVERSATIONS.items():
            found = [one for one in self._read(name, read) if one.questions]
            kept = [one for one in found if not any(self._known(turn.text) for turn in one.turns)]
            turns, questions = sum(len(one.turns) for one in kept), sum(len(one.questions) for one in kept)
            self._count(Counts("conversations", name, len(kept), turns, questions, len(found) - len(kept)))
            yield from (one.to_dict() for one in kept)

    def passages(self) -> Iterator[dict[str, Any]]:
        """Lines of `passages.jsonl.xz`."""
        yield from self._lines("passages", PASSAGES, "passage")

    def texts(self) -> Iterator[dict[str, Any]]:
        """Lines of `texts.jsonl.xz`."""
        yield from self._lines("texts", TEXTS, "text")

    def _lines(self, file: str, readers: Readers, field: str) -> Iterator[dict[str, Any]]:
        """Each line once, whatever its case and its source."""
        seen: set[str] = set()
        for name, read in readers.items():
            new = []
            for line in self._read(name, read):
                key = "\n".join(line.values()).lower()
                if key not in seen:
                    seen.add(key)
                    new.append(line)
            kept = [line for line in new if not self._known(line[field])]
            self._count(Counts(file, name, len(kept), removed=len(new) - len(kept)))
            yield from ({"source": name, **line} for line in kept)

    def _read(self, name: str, read: Callable[[Path], Iterator[Read]]) -> list[Read]:
        """What a reader yields; nothing if its clone, or a file of it, is not there."""
        folder = self._folders[name]
        if not folder.is_dir():
            self.missing[name] = f"no clone at {folder}"
            return []
        try:
            return list(read(folder))
        except FileNotFoundError as error:
            self.missing[name] = f"the clone has no {error.filename}"
            return []

    def _count(self, counts: Counts) -> None:
        if counts.source not in self.missing:
            self.counts.append(counts)
            print(counts, flush=True)

    def _known(self, text: str) -> bool:
        return bool(self._forbidden) and not self._forbidden.isdisjoint(shingles(text))


def main() -> None:
    """Write the three files; print what each source gives as soon as it is read, and the sums."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clones", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--without", type=Path, action="append", default=[], help="Folder of an evaluation set.")
    options = parser.parse_args()
    builder = Builder(options.clones, evaluation_shingles(options.without))
    options.out.mkdir(parents=True, exist_ok=True)
    files = {"conversations": builder.conversations, "passages": builder.passages, "texts": builder.texts}
    for name, lines in files.items():
        count = packed.write(options.out / f"{name}.jsonl.xz", lines())
        print(f"{name}: {count:,} lines written", flush=True)
    for name, reason in sorted(builder.missing.items()):
        print(f"{name}: {reason}, left out")


if __name__ == "__main__":
    main()
