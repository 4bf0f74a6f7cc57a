"""The tools. Their descriptions are written for the model that chooses among them."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Annotated, Any

import anyio.to_thread
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult, ToolAnnotations
from pydantic import BaseModel, Field

from retentive.errors import RetentiveError
from retentive.models import Kind
from retentive.server.mcp.results import (
    ExplainResult,
    ForgetResult,
    MemoryResult,
    RecallResult,
    RememberResult,
    StatusResult,
    explain_result,
    hit_out,
    memory_result,
    tool_result,
)
from retentive.server.mcp.tool_scope import ToolScope

TOOL_SCOPE: ContextVar[ToolScope] = ContextVar("tool_scope")
"""The scope of the current request."""

MAX_TEXTS = 100

NOTHING_FOUND = "No memory matches. Try other words once, then say that you do not know."

Id = Annotated[str, Field(description="The memory's id, from memory_recall or memory_remember.")]
QueryText = Annotated[str, Field(description="What you want to know, as a full question or in any words.")]
Limit = Annotated[int, Field(ge=1, le=50, description="Maximum number of memories, from 1 to 50.")]
Kinds = Annotated[
    list[Kind] | None,
    Field(description="Only these kinds: episodic (events), semantic (facts), identity (who somebody is)."),
]
Exclude = Annotated[list[str], Field(max_length=1000, description="Ids of memories that you already have; left out.")]
Since = Annotated[str, Field(description="Only memories from this date or time on (ISO 8601), such as 2026-05-08.")]
Until = Annotated[str, Field(description="Only memories before this time (ISO 8601); a date includes that day.")]
Project = Annotated[str, Field(description="Only memories of this project; leave it out for all you can see.")]
Metadata = Annotated[
    dict[str, str | int | float | bool | None], Field(description='Only memories with this metadata: {"topic": "car"}.')
]
NewKind = Annotated[
    Kind, Field(description="episodic: it happened or was said; semantic: a lasting fact; identity: who somebody is.")
]
Importance = Annotated[float, Field(ge=0, le=1, description="Importance from 0 to 1; 0.5 is normal.")]
Speaker = Annotated[str, Field(description="The name of who said it; leave it out if unknown.")]


async def memory_recall(
    query: QueryText,
    limit: Limit = 8,
    kinds: Kinds = None,
    exclude: Exclude = [],  # noqa: B006 - a default in a JSON schema; nothing changes it
    since: Since = "",
    until: Until = "",
    project: Project = "",
    metadata: Metadata = {},  # noqa: B006
) -> Annotated[CallToolResult, RecallResult]:
    """Find memories that answer a query, with keyword and semantic search.

    Use it before you answer whenever earlier conversations, decisions, preferences or facts about the user or the
    project could matter, and before you store something that may be known already. Returns hits, best first, each with
    its id, text, time, speaker, session, score and the parts of the score. No hits means that nothing like it is
    stored: search once more in other words or with fewer conditions, then say that you do not know; never invent a
    memory.
    """

    def work(scope: ToolScope) -> RecallResult:
        asked = scope.query(
            query,
            limit=limit,
            kinds=kinds,
            exclude=exclude,
            since=since or None,
            until=until or None,
            project=project or None,
            metadata=metadata,
        )
        found = scope.view.recall(asked, record_use=scope.record_use)
        hits = [hit_out(hit) for hit in found.hits]
        return RecallResult(hits=hits, degraded=found.degraded_reason, advice=None if hits else NOTHING_FOUND)

    return await _run(work)


async def memory_remember(
    text: Annotated[str, Field(description="One thing to remember, in a sentence that is clear on its own.")] = "",
    texts: Annotated[
        list[str], Field(max_length=MAX_TEXTS, description="Several things, instead of text: all are stored or none.")
    ] = [],  # noqa: B006 - a default in a JSON schema; nothing changes it
    kind: NewKind = "episodic",
    importance: Importance = 0.5,
    speaker: Speaker = "",
    occurred: Annotated[str, Field(description="When it happened (ISO 8601); leave it out if it is now.")] = "",
    source: Annotated[str, Field(description="Where it comes from, such as a file or an address.")] = "",
    session: Annotated[str, Field(description="The session to store it in; leave it out for the current one.")] = "",
    metadata: Annotated[
        dict[str, Any], Field(description="Further values by key, which memory_recall can filter by.")
    ] = {},  # noqa: B006
) -> Annotated[CallToolResult, RememberResult]:
    """Store something that will be useful in a later conversation.

    Use it for decisions, preferences, facts, names, dates and what the user asks you to remember; not for what is in
    the repository anyway, and not for passwords or keys. Put one fact in each text, with names and absolute dates
    instead of "he" and "tomorrow". If memory_recall shows that an older version is stored, use memory_update instead.
    Returns the new ids.
    """

    def work(scope: ToolScope) -> RememberResult:
        if bool(text.strip()) == bool(texts):
            raise ToolError("pass either text (one memory) or texts (several), not empty; nothing was stored")
        fields = {
            "kind": kind,
            "importance": importance,
            "speaker": speaker.strip() or None,
            "occurred": occurred or None,
            "source": source.strip() or None,
            "metadata": metadata,
        }
        drafts = [{"text": one, **fields} for one in texts or [text]]
        stored = scope.remember(drafts, session=session.strip() or None)
        problem = scope.view.engine.embeddings.problem()
        return RememberResult(
            ids=[memory.id for memory in stored],
            session=stored[0].session,
            project=stored[0].project,
            degraded=f"stored, but the semantic retriever cannot find it yet: {problem}" if problem else None,
        )

    return await _run(work)


async def memory_get(id: Id) -> Annotated[CallToolResult, MemoryResult]:
    """Read one memory by its id, with its time, source and metadata.

    Use memory_recall to find ids; this does not search.
    """
    return await _run(lambda scope: memory_result(scope.get(id)))


async def memory_update(
    id: Id,
    text: Annotated[str, Field(description="The new text, which replaces the old one; leave it out to keep it.")] = "",
    kind: Annotated[Kind | None, Field(description="The new kind; leave it out to keep it.")] = None,
    importance: Annotated[
        float | None, Field(ge=0, le=1, description="The new importance from 0 to 1; leave it out to keep it.")
    ] = None,
    speaker: Annotated[str, Field(description="The new speaker; leave it out to keep it.")] = "",
    if_version: Annotated[
        str, Field(description="The version from memory_get: change nothing if it has another one by now.")
    ] = "",
) -> Annotated[CallToolResult, MemoryResult]:
    """Correct a memory that is wrong or out of date, instead of storing a second one.

    Use it when the user corrects something that memory_recall returned. Arguments that are left out are not changed;
    the old text is lost. Returns the changed memory.
    """

    def work(scope: ToolScope) -> MemoryResult:
        given = {"text": text, "kind": kind, "importance": importance, "speaker": speaker.strip()}
        changes = {name: value for name, value in given.items() if value not in ("", None)}
        if not changes:
            raise ToolError("there is nothing to change: pass at least one of text, kind, importance and speaker")
        return memory_result(scope.update(id, changes, if_version=if_version.strip() or None))

    return await _run(work)


async def memory_forget(
    ids: Annotated[list[str], Field(min_length=1, max_length=MAX_TEXTS, description="The ids to delete.")],
) -> Annotated[CallToolResult, ForgetResult]:
    """Delete memories for good. It cannot be undone.

    Use it when the user asks to forget something, or after they have agreed; recall first, so that you delete the right
    ones. To correct a memory use memory_update. Returns the ids that were deleted and those that do not exist.
    """

    def work(scope: ToolScope) -> ForgetResult:
        forgotten, missing = scope.forget(ids)
        return ForgetResult(forgotten=list(forgotten), not_found=list(missing))

    return await _run(work)


async def memory_explain(
    query: QueryText, id: Id, limit: Limit = 8, kinds: Kinds = None
) -> Annotated[CallToolResult, ExplainResult]:
    """Explain why a memory ranks where it does for a query, or why memory_recall did not return it.

    Use it when a memory whose id you know was missing or ranked too low, to rephrase the query or to tell the user.
    Pass query, limit and kinds as in the recall. Returns a sentence and the scores behind it.
    """
    return await _run(lambda scope: explain_result(scope.explain(scope.query(query, limit=limit, kinds=kinds), id)))


def status_tool(*, read_only: bool) -> Callable[..., Any]:
    """Return the tool that reports the scope and the state of the server."""

    async def memory_status() -> Annotated[CallToolResult, StatusResult]:
        """Return the scope of this memory, the number of memories, and whether recall and writes work.

        Use it when recalls are empty or degraded, or when the user asks what you remember at all.
        """

        def work(scope: ToolScope) -> StatusResult:
            counts = scope.counts()
            problem = scope.view.engine.embeddings.problem()
            return StatusResult(
                profile=counts.name,
                project=scope.view.project,
                session=scope.session,
                memories=counts.memories,
                sessions=counts.sessions,
                read_only=read_only,
                semantic_search=problem is None,
                problem=problem,
            )

        return await _run(work)

    return memory_status


WRITE_TOOLS = ("memory_remember", "memory_update", "memory_forget")


def make_tools(*, read_only: bool) -> list[Tool]:
    """Return the tools of a server; a read-only server has no tools that write."""
    tools = [
        _tool(memory_recall, "Recall memories"),
        _tool(memory_remember, "Remember something", writes=True, repeatable=False),
        _tool(memory_get, "Read a memory"),
        _tool(memory_update, "Correct a memory", writes=True, destroys=True),
        _tool(memory_forget, "Forget memories", writes=True, destroys=True),
        _tool(memory_explain, "Explain a recall"),
        _tool(status_tool(read_only=read_only), "Status of the memory"),
    ]
    return [tool for tool in tools if not (read_only and tool.name in WRITE_TOOLS)]


def _tool(
    function: Callable[..., Any], title: str, *, writes: bool = False, destroys: bool = False, repeatable: bool = True
) -> Tool:
    hints = ToolAnnotations(
        title=title,
        read_only_hint=not writes,
        destructive_hint=destroys,
        idempotent_hint=repeatable,
        open_world_hint=False,
    )
    paragraphs = (function.__doc__ or "").strip().split("\n\n")
    description = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    tool = Tool.from_function(function, title=title, description=description, annotations=hints)
    tool.parameters["additionalProperties"] = False
    return tool


async def _run(work: Callable[[ToolScope], BaseModel]) -> CallToolResult:
    """Run a tool on a worker thread; errors of the engine reach the model as their message."""
    scope = TOOL_SCOPE.get()
    try:
        return tool_result(await anyio.to_thread.run_sync(work, scope))
    except RetentiveError as error:
        raise ToolError(str(error)) from error
