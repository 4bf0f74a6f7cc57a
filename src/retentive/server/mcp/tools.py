"""The tools: what a model can do with memory. Their descriptions are written for the model that chooses among them."""

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
    explained,
    recalled,
    result,
    whole,
)
from retentive.server.mcp.tool_scope import Place

PLACE: ContextVar[Place] = ContextVar("place")
"""Where the request that is being answered may look."""

MOST_TEXTS = 100

NOTHING_FOUND = "Nothing is stored that fits. Try other words once, then say that it is not known."

Id = Annotated[str, Field(description="The memory's id, as memory_recall or memory_remember gave it.")]
Query = Annotated[str, Field(description="What you want to know, as a full query or in any words.")]
Limit = Annotated[int, Field(ge=1, le=50, description="How many memories at most.")]
Kinds = Annotated[
    list[Kind] | None,
    Field(description="Only these kinds: episodic (what happened), semantic (facts), identity (who somebody is)."),
]
NewKind = Annotated[
    Kind, Field(description="episodic: it happened or was said; semantic: a lasting fact; identity: who somebody is.")
]
Importance = Annotated[float, Field(ge=0, le=1, description="How much it matters, from 0 to 1; 0.5 is ordinary.")]
Speaker = Annotated[str, Field(description="Who said it or whom it is from, by name; leave it out if unknown.")]


async def memory_recall(query: Query, limit: Limit = 8, kinds: Kinds = None) -> Annotated[CallToolResult, RecallResult]:
    """Find what is remembered about something, by meaning and by words at once.

    Use it before answering whenever earlier conversations, decisions, preferences or facts about the user or the
    project could matter, and before storing something that may be known already. Gives hits best first, each with its
    id, text, time, speaker, session, score and why it was found. Nothing found means that nothing like it is stored:
    ask once more in other words or with fewer conditions, then say that you do not know; never make up a memory.
    """

    def work(place: Place) -> RecallResult:
        found = place.recall(query, limit=limit, kinds=kinds)
        hits = [recalled(hit) for hit in found.hits]
        return RecallResult(hits=hits, degraded=found.degraded_reason, advice=None if hits else NOTHING_FOUND)

    return await _answered(work)


async def memory_remember(
    text: Annotated[str, Field(description="One thing to remember, in a sentence that stands on its own.")] = "",
    texts: Annotated[
        list[str], Field(max_length=MOST_TEXTS, description="Several things at once, instead of text: all or none.")
    ] = [],  # noqa: B006 - a default in a JSON schema; nothing changes it
    kind: NewKind = "episodic",
    importance: Importance = 0.5,
    speaker: Speaker = "",
) -> Annotated[CallToolResult, RememberResult]:
    """Store something that will be worth knowing in a later conversation.

    Use it for decisions, preferences, facts, names, dates and what the user asks you to remember; not for what is in
    the repository anyway, not for passwords or keys. One fact a text, with names and absolute dates instead of "he"
    and "tomorrow". If memory_recall shows that an older version is stored, use memory_update instead. Gives the
    new ids.
    """

    def work(place: Place) -> RememberResult:
        if bool(text.strip()) == bool(texts):
            raise ToolError(
                "give either text (one memory) or texts (several), and not an empty one; nothing was stored"
            )
        drafts = [
            {"text": one, "kind": kind, "importance": importance, "speaker": speaker.strip() or None}
            for one in texts or [text]
        ]
        stored = place.remember(drafts)
        problem = place.inside.engine.embeddings.problem()
        degraded = f"stored, but not to be found by meaning yet: {problem}" if problem else None
        return RememberResult(
            ids=[memory.id for memory in stored],
            session=stored[0].session,
            project=stored[0].project,
            degraded=degraded,
        )

    return await _answered(work)


async def memory_get(id: Id) -> Annotated[CallToolResult, MemoryResult]:
    """Read one memory whole, with its time, source and metadata, when you have its id.

    Use memory_recall to find ids; this does not search.
    """
    return await _answered(lambda place: whole(place.get(id)))


async def memory_update(
    id: Id,
    text: Annotated[str, Field(description="The new text, replacing the old one whole; leave it out to keep it.")] = "",
    kind: Annotated[Kind | None, Field(description="The new kind; leave it out to keep it.")] = None,
    importance: Annotated[
        float | None, Field(ge=0, le=1, description="The new importance from 0 to 1; leave it out to keep it.")
    ] = None,
    speaker: Annotated[str, Field(description="Who said it; leave it out to keep what is there.")] = "",
) -> Annotated[CallToolResult, MemoryResult]:
    """Correct a memory that is wrong or out of date, in place of storing a second one beside it.

    Use it when the user corrects something that memory_recall gave. What is left out stays as it is; the old text is
    gone. Gives the memory as it is now.
    """

    def work(place: Place) -> MemoryResult:
        given = {"text": text, "kind": kind, "importance": importance, "speaker": speaker.strip()}
        changes = {name: value for name, value in given.items() if value not in ("", None)}
        if not changes:
            raise ToolError("nothing to change was given: say at least one of text, kind, importance and speaker")
        return whole(place.update(id, changes))

    return await _answered(work)


async def memory_forget(
    ids: Annotated[list[str], Field(min_length=1, max_length=MOST_TEXTS, description="The ids to forget.")],
) -> Annotated[CallToolResult, ForgetResult]:
    """Delete memories for good. It cannot be undone.

    Use it when the user asks for something to be forgotten, or after they have agreed; recall first, so that you forget
    the right ones. To correct a memory use memory_update. Gives which ids are gone and which were not there.
    """

    def work(place: Place) -> ForgetResult:
        gone, missing = place.forget(ids)
        return ForgetResult(forgotten=list(gone), not_found=list(missing))

    return await _answered(work)


async def memory_explain(
    query: Query, id: Id, limit: Limit = 8, kinds: Kinds = None
) -> Annotated[CallToolResult, ExplainResult]:
    """Say why a memory ranks where it does for a query, or why memory_recall did not give it.

    Use it when a memory that you know of (by its id) did not come up, or came up too low, to rephrase the query or
    to tell the user. Give query, limit and kinds as in the recall. Gives a plain sentence and the figures behind it.
    """
    return await _answered(lambda place: explained(place.explain(query, id, limit=limit, kinds=kinds)))


def status_tool(*, read_only: bool) -> Callable[..., Any]:
    """The tool that tells what is reached here."""

    async def memory_status() -> Annotated[CallToolResult, StatusResult]:
        """Tell whose memories these are, how many, whether they can be changed here, and whether recall works fully.

        Use it when recalls come back empty or degraded, or when the user asks what you remember at all.
        """

        def work(place: Place) -> StatusResult:
            counted = place.counted()
            problem = place.inside.engine.embeddings.problem()
            return StatusResult(
                profile=counted.name,
                project=place.inside.project,
                session=place.session,
                memories=counted.memories,
                sessions=counted.sessions,
                read_only=read_only,
                finds_by_meaning=problem is None,
                problem=problem,
            )

        return await _answered(work)

    return memory_status


def make_tools(*, read_only: bool) -> list[Tool]:
    """The tools of a server; one that only reads has no others."""
    tools = [
        _tool(memory_recall, "Recall memories"),
        _tool(memory_remember, "Remember something", writes=True, repeatable=False),
        _tool(memory_get, "Read a memory"),
        _tool(memory_update, "Correct a memory", writes=True, destroys=True),
        _tool(memory_forget, "Forget memories", writes=True, destroys=True),
        _tool(memory_explain, "Explain a recall"),
        _tool(status_tool(read_only=read_only), "Status of the memory"),
    ]
    return [tool for tool in tools if not (read_only and tool.name in WRITING)]


WRITING = ("memory_remember", "memory_update", "memory_forget")


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
    tool = Tool.from_function(function, title=title, description=_unfolded(function.__doc__ or ""), annotations=hints)
    tool.parameters["additionalProperties"] = False
    return tool


def _unfolded(doc: str) -> str:
    """A docstring as paragraphs of running text."""
    paragraphs = doc.strip().split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


async def _answered(work: Callable[[Place], BaseModel]) -> CallToolResult:
    """The work of a tool, done on a thread; what we know to go wrong reaches the model as its sentence."""
    place = PLACE.get()
    try:
        return result(await anyio.to_thread.run_sync(work, place))
    except RetentiveError as error:
        raise ToolError(str(error)) from error
