"""MemPalace through the tools of its MCP server: `add_drawer` files each text, `search` finds it in a wing.

Vectors come from the runner through its OpenAI-compatible embedder. Its default model would be loaded from a hub.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from bench.peers.protocol import LIMIT, PeerMemory, PeerQuery, Setup

PACKAGES = ("mempalace", "chromadb")
CONFIGURATION = "its MCP tools add_drawer and search with their defaults, vectors over HTTP; projects as wings"
ROOM = "memories"


class MemPalace:
    def __init__(self, setup: Setup) -> None:
        os.environ |= {
            "MEMPALACE_PALACE_PATH": str(setup.path / "palace"),
            "MEMPALACE_EMBEDDING_MODEL": "openai-compat",
            "MEMPALACE_EMBEDDING_API_URL": setup.embeddings_url,
            "MEMPALACE_EMBEDDING_API_MODEL": "given",
        }
        from mempalace import mcp_server  # it reads the environment when it is imported

        self._tools = mcp_server
        self._ids: dict[str, str] = {}

    def add(self, memories: Sequence[PeerMemory]) -> None:
        for memory in memories:
            filed = self._tools.tool_add_drawer(memory.project or "all", ROOM, memory.text)
            if not filed.get("success"):
                raise RuntimeError(f"it was not filed: {filed}")
            for drawer in (filed["drawer_id"], *filed.get("chunk_ids", ())):
                self._ids.setdefault(drawer, memory.id)

    def finish(self) -> None:
        """Do nothing: a drawer is searchable when it is filed."""

    def search(self, query: PeerQuery) -> list[str]:
        found = self._tools.tool_search(query.text, limit=LIMIT, wing=query.project or "all")
        return [self._ids[one["drawer_id"]] for one in found["results"]]

    def close(self) -> None:
        """Do nothing: everything is on disk."""


def open(setup: Setup) -> MemPalace:
    return MemPalace(setup)
