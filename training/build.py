"""Build the packed files from clones of the source repositories: `python -m training.build CLONES OUT`.

CLONES has a folder for each repository, by owner and name: `CLONES/emorynlp/FriendsQA`. Which repositories there are,
at which commit, and what is taken, is in `sources.toml`. A repository that is not there is named and left out. Texts
that also occur in a folder given with `--without` (evaluation sets) are removed.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from training import packed
from training.sources import CONVERSATIONS, PASSAGES, TEXTS

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


class Builder:
    """Reads the clones that are there."""

    def __init__(self, clones: Path, forbidden: set[str]) -> None:
        listed = tomllib.loads((Path(__file__).parent / "sources.toml").read_text(encoding="utf-8"))["source"]
        self._folders = {one["name"]: clones / one["repository"] for one in listed}
        self._forbidden = forbidden
        self.removed: Counter[str] = Counter()
        self.missing: set[str] = set()

    def conversations(self) -> Iterator[dict[str, Any]]:
        """Lines of `conversations.jsonl.xz`; a conversation with a turn of an evaluation set is left out whole."""
        for name, read in CONVERSATIONS.items():
            for one in read(self._folders[name]) if self._there(name) else ():
                if any(self._known(turn.text) for turn in one.turns):
                    self.removed[name] += 1
                elif one.questions:
                    yield one.to_dict()

    def lines(self, readers: dict[str, Any], field: str) -> Iterator[dict[str, Any]]:
        """Lines of `passages.jsonl.xz` or `texts.jsonl.xz`."""
        for name, read in readers.items():
            for line in read(self._folders[name]) if self._there(name) else ():
                if self._known(line[field]):
                    self.removed[name] += 1
                else:
                    yield {"source": name, **line}

    def _there(self, name: str) -> bool:
        if not self._folders[name].is_dir():
            self.missing.add(name)
            return False
        return True

    def _known(self, text: str) -> bool:
        return bool(self._forbidden) and not self._forbidden.isdisjoint(shingles(text))


def main() -> None:
    """Write the three files and print what they hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clones", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--without", type=Path, action="append", default=[], help="Folder of an evaluation set.")
    options = parser.parse_args()
    builder = Builder(options.clones, evaluation_shingles(options.without))
    options.out.mkdir(parents=True, exist_ok=True)
    files = {
        "conversations": builder.conversations(),
        "passages": builder.lines(PASSAGES, "passage"),
        "texts": builder.lines(TEXTS, "text"),
    }
    for name, lines in files.items():
        print(f"{name}: {packed.write(options.out / f'{name}.jsonl.xz', lines):,} lines")
    for name, count in builder.removed.items():
        print(f"{name}: {count:,} removed, because they are in an evaluation set")
    for name in sorted(builder.missing):
        print(f"{name}: no clone found, left out")


if __name__ == "__main__":
    main()
