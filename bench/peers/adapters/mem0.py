"""mem0 without inference: `add(..., infer=False)` stores each text as it is, `search` finds it.

Vectors come from the runner through the OpenAI embedder. The language model is configured, because mem0 creates its
client when it is opened, but never asked.
"""

from __future__ import annotations

from collections.abc import Sequence

from mem0 import Memory

from bench.peers.protocol import LIMIT, PeerMemory, PeerQuery, Setup

PACKAGES = ("mem0ai", "qdrant-client")
CONFIGURATION = "infer=False, its default store (Qdrant on disk), vectors over HTTP; projects as users"


class Mem0:
    def __init__(self, setup: Setup) -> None:
        address = {"api_key": "none", "openai_base_url": setup.embeddings_url}
        store = {"path": str(setup.path / "qdrant"), "embedding_model_dims": setup.dimensions, "on_disk": True}
        config = {
            "embedder": {
                "provider": "openai",
                "config": {**address, "model": "given", "embedding_dims": setup.dimensions},
            },
            "llm": {"provider": "openai", "config": address},
            "vector_store": {"provider": "qdrant", "config": store},
            "history_db_path": str(setup.path / "history.db"),
        }
        self._memory = Memory.from_config(config)

    def add(self, memories: Sequence[PeerMemory]) -> None:
        for memory in memories:
            self._memory.add(memory.text, user_id=memory.project or "all", metadata={"memory": memory.id}, infer=False)

    def finish(self) -> None:
        """Do nothing: a memory is searchable when it is stored."""

    def search(self, query: PeerQuery) -> list[str]:
        found = self._memory.search(query.text, filters={"user_id": query.project or "all"}, top_k=LIMIT)
        return [one["metadata"]["memory"] for one in found["results"]]

    def close(self) -> None:
        """Do nothing: everything is on disk."""


def open(setup: Setup) -> Mem0:
    return Mem0(setup)
