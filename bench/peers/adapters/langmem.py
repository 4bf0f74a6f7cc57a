"""LangMem: the tools that it gives an agent, `manage_memory` and `search_memory`, on LangGraph's store in memory."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_openai import OpenAIEmbeddings
from langgraph.store.memory import InMemoryStore
from langmem import create_manage_memory_tool, create_search_memory_tool

from bench.peers.protocol import LIMIT, PeerMemory, PeerQuery, Setup

PACKAGES = ("langmem", "langgraph", "langchain-openai")
CONFIGURATION = "manage_memory and search_memory on InMemoryStore (vectors only, over HTTP); projects as namespaces"


class LangMem:
    def __init__(self, setup: Setup) -> None:
        embed = OpenAIEmbeddings(
            model="given", base_url=setup.embeddings_url, api_key="none", check_embedding_ctx_length=False
        )
        store = InMemoryStore(index={"dims": setup.dimensions, "embed": embed})
        namespace = ("memories", "{project}")
        self._manage = create_manage_memory_tool(namespace, store=store)
        self._search = create_search_memory_tool(namespace, store=store, response_format="content_and_artifact")
        self._ids: dict[str, str] = {}

    def add(self, memories: Sequence[PeerMemory]) -> None:
        for memory in memories:
            created = self._manage.invoke({"content": memory.text, "action": "create"}, _of(memory.project))
            self._ids[created.rpartition(" ")[2]] = memory.id

    def finish(self) -> None:
        """Do nothing: a memory is searchable when it is stored."""

    def search(self, query: PeerQuery) -> list[str]:
        call = {
            "type": "tool_call",
            "id": "1",
            "name": self._search.name,
            "args": {"query": query.text, "limit": LIMIT},
        }
        return [self._ids[found.key] for found in self._search.invoke(call, _of(query.project)).artifact]

    def close(self) -> None:
        """Do nothing: everything is in memory."""


def _of(project: str | None) -> dict[str, dict[str, str]]:
    return {"configurable": {"project": project or "all"}}


def open(setup: Setup) -> LangMem:
    return LangMem(setup)
