"""A peer for the tests: it counts common words, prints to standard output, and fails when it is told to."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from bench.peers.protocol import PeerMemory, PeerQuery, Setup

PACKAGES = ()
CONFIGURATION = "common words"


class WordOverlap:
    def __init__(self, setup: Setup) -> None:
        self._file = setup.path / "texts.txt"
        self._memories: list[PeerMemory] = []
        self.versions = {"word-overlap": "1"}

    def add(self, memories: Sequence[PeerMemory]) -> None:
        print("a peer may print")
        self._memories += memories
        self._file.write_text("\n".join(memory.text for memory in self._memories))

    def finish(self) -> None:
        """Do nothing."""

    def search(self, query: PeerQuery) -> list[str]:
        if "explode" in query.text:
            raise RuntimeError("it exploded")
        if "elsewhere" in query.text:
            socket.create_connection((query.text.split()[1], 80), timeout=1)
        words = {*query.text.split()}
        mine = [memory for memory in self._memories if query.project in (None, memory.project)]
        return [memory.id for memory in sorted(mine, key=lambda memory: -len(words & {*memory.text.split()}))]

    def close(self) -> None:
        """Do nothing."""


def open(setup: Setup) -> WordOverlap:
    return WordOverlap(setup)
