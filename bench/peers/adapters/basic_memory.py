"""Basic Memory through its MCP server: a note for each memory, in a project that `create_memory_project` indexes.

Vectors come from the runner through its OpenAI embedder. It embeds a note together with its title and its path, so the
runner's model embeds every note as it is asked for.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

from bench.peers.protocol import LIMIT, PeerMemory, PeerQuery, Setup

PACKAGES = ("basic-memory", "fastmcp", "sqlite-vec")
CONFIGURATION = "search_notes of its MCP server (hybrid), a note for each memory, titled by a number; vectors over HTTP"


class BasicMemory:
    def __init__(self, setup: Setup) -> None:
        semantic = {"PROVIDER": "openai", "MODEL": "given", "DIMENSIONS": str(setup.dimensions)}
        os.environ |= {f"BASIC_MEMORY_SEMANTIC_EMBEDDING_{name}": value for name, value in semantic.items()}
        os.environ |= {f"BASIC_MEMORY_{name}": str(setup.path / name.lower()) for name in ("CONFIG_DIR", "HOME")}
        os.environ |= {"OPENAI_BASE_URL": setup.embeddings_url, "OPENAI_API_KEY": "none"}
        import basic_memory.mcp.tools  # noqa: F401 - it registers the tools with the server
        from basic_memory.mcp.server import mcp
        from fastmcp import Client

        self._path, self._runner, self._client = setup.path, asyncio.Runner(), Client(mcp)
        self._runner.run(self._client.__aenter__())
        self._projects: dict[str | None, str] = {}
        self._ids: dict[str, str] = {}

    def add(self, memories: Sequence[PeerMemory]) -> None:
        for memory in memories:
            project = self._projects.setdefault(memory.project, f"project{len(self._projects)}")
            file = f"{len(self._ids)}.md"
            (self._path / project).mkdir(exist_ok=True)
            (self._path / project / file).write_text(memory.text, encoding="utf-8")
            self._ids[file] = memory.id

    def _call(self, tool: str, **arguments: Any) -> Any:
        return self._runner.run(self._client.call_tool(tool, {**arguments, "output_format": "json"})).data

    def finish(self) -> None:
        for project in self._projects.values():
            self._call("create_memory_project", project_name=project, project_path=str(self._path / project))

    def search(self, query: PeerQuery) -> list[str]:
        found = self._call("search_notes", query=query.text, project=self._projects[query.project], page_size=LIMIT)
        return [self._ids[note["file_path"]] for note in found["results"]]

    def close(self) -> None:
        self._runner.close()


def open(setup: Setup) -> BasicMemory:
    return BasicMemory(setup)
