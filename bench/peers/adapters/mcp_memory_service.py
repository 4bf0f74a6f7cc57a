"""mcp-memory-service through what its MCP tools call: `store_memory` and `search_memories`, on SQLite.

Vectors come from the runner. Every memory names a conversation: without one, a text like another is not stored.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

from bench.peers.protocol import LIMIT, PeerMemory, PeerQuery, Setup

PACKAGES = ("mcp-memory-service", "sqlite-vec")
CONFIGURATION = (
    "sqlite_vec, what its MCP tools memory_store and memory_search call, with their defaults (vectors only); "
    "vectors over HTTP; projects as stores"
)


class McpMemoryService:
    def __init__(self, setup: Setup) -> None:
        os.environ |= {
            "MCP_MEMORY_BASE_DIR": str(setup.path),
            "MCP_MEMORY_STORAGE_BACKEND": "sqlite_vec",
            "MCP_EXTERNAL_EMBEDDING_URL": f"{setup.embeddings_url}/embeddings",
            "MCP_EXTERNAL_EMBEDDING_MODEL": "given",
        }
        # It reads the environment when it is imported.
        from mcp_memory_service.services.memory_service import MemoryService
        from mcp_memory_service.storage.sqlite_vec import SqliteVecMemoryStorage

        self._runner = asyncio.Runner()
        self._storage = SqliteVecMemoryStorage(str(setup.path / "sqlite_vec.db"))
        self._runner.run(self._storage.initialize())
        self._service = MemoryService(self._storage)

    def add(self, memories: Sequence[PeerMemory]) -> None:
        self._runner.run(self._add(memories))

    async def _add(self, memories: Sequence[PeerMemory]) -> None:
        for memory in memories:
            scope = {"store": memory.project or "default", "conversation_id": memory.session or "all"}
            stored = await self._service.store_memory(memory.text, metadata={"memory": memory.id}, **scope)
            if not stored["success"] and "Duplicate" not in stored["error"]:
                raise RuntimeError(f"it was not stored: {stored['error']}")

    def finish(self) -> None:
        """Do nothing: a memory is searchable when it is stored."""

    def search(self, query: PeerQuery) -> list[str]:
        asked = self._storage.search_memories(query.text, limit=LIMIT, store=query.project or "default")
        return [one["memory"] for one in self._runner.run(asked)["memories"]]

    def close(self) -> None:
        self._runner.close()


def open(setup: Setup) -> McpMemoryService:
    return McpMemoryService(setup)
