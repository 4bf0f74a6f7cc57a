"""The tools, described for the model that chooses among them, and `ToolScope`: the memories that they can use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, Literal, Unpack

import anyio.to_thread
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult, ToolAnnotations
from pydantic import BaseModel, Field

from retentive.chat.token_counting import BYTE_COUNTER
from retentive.engine import Engine
from retentive.errors import Invalid, NotFound, RetentiveError, unknown_name
from retentive.models import (
    DEFAULT_MIN_RELEVANCE,
    Hit,
    Kind,
    Memory,
    Query,
    Recall,
    Scalar,
    Scope,
    canonical_id,
    check_name,
    snippet,
)
from retentive.pipeline.explain import Explanation
from retentive.pipeline.given import Given, GivenNote
from retentive.pipeline.query_options import QueryOptions
from retentive.pipeline.similar import Similar
from retentive.ranking.judged import was_read, why_not_given
from retentive.server.mcp.results import (
    MOST_SHOWN,
    ExplainResult,
    ForgetResult,
    MemoryResult,
    RecallResult,
    RememberResult,
    ReviseResult,
    StatusResult,
    explain_result,
    hit_out,
    memory_out,
    memory_result,
    suggestion_out,
    tool_result,
)
from retentive.server.mcp.schemas import short_arguments, short_result
from retentive.stores.rules import home_of
from retentive.stores.values import Profile
from retentive.tenancy import ProfileView
from retentive.text.terms import is_keywords


@dataclass(frozen=True, slots=True)
class ToolScope:
    """One profile, one project of it, or one session without a project.

    New memories go into the session. In a project, the session does not limit what can be read.
    """

    view: ProfileView
    session: str | None = None
    record_use: bool = True

    @property
    def within(self) -> Scope:
        """The scope of all reads and writes."""
        if self.session is None or self.view.project is not None:
            return self.view.within
        return replace(self.view.within, sessions=(self.session,), only_sessions=True, outside_projects=True)

    def query(self, text: str, **options: Unpack[QueryOptions]) -> Query:
        """Build a query in this scope."""
        within = self.within
        options["session"], options["only_session"] = within.sessions, within.only_sessions
        query = self.view.query(text, **options)
        return replace(query, scope=replace(query.scope, outside_projects=within.outside_projects))

    def unknown_project(self, name: str, found: Sequence[Hit]) -> str | None:
        """Return a sentence about the project of a recall if it does not exist; a similar one of this scope is named.

        What a project does not have itself, such as identity memories of the profile, is found with any name.
        """
        if not name or any(hit.memory.project == name for hit in found):
            return None
        # A session without a project has none, and must not learn the names of those beside it.
        existing = [] if self.within.sessions is not None else [one.name for one in self.view.projects()]
        if name in existing:
            return None
        problem = unknown_name("project", name, existing, otherwise=".")
        return f"{problem} Recall again with another project or without one."

    def recall(self, text: str, **options: Unpack[QueryOptions]) -> Recall:
        """Find the memories that answer a query, and log which were given."""
        query = self.query(text, **options)
        found = self.view.recall(query, record_use=self.record_use)
        notes = tuple(GivenNote(hit.id, "recalled", hit.relevance) for hit in found.hits)
        tokens = sum(BYTE_COUNTER.count(hit.memory.text[:MOST_SHOWN]) for hit in found.hits)
        given = Given(
            self.view.engine.now(), "mcp", self.view.profile, query.scope.project, self.session, text, notes, tokens,
            judged=_count_judged(found), left_out=_left_out(found),
        )  # fmt: skip
        self.view.engine.given.add(given)
        return found

    def explain(self, query: Query, id: str) -> Explanation:
        """Explain why a memory ranks where it does for a query, or why it does not appear."""
        return self.view.explain(query, id, within=self.within)

    def remember(self, drafts: Sequence[Mapping[str, Any]]) -> Sequence[Memory]:
        """Store memories in the scope, by default in its session, and return them."""
        for draft in drafts:
            self._check_place(draft)
        if self.within.sessions is not None and any(draft.get("key") for draft in drafts):
            raise Invalid(
                f"key: this memory is limited to the session '{self.session}', and a key would replace facts of other "
                "sessions; store the fact without a key, and retire the old one with memory_revise"
            )
        return self.view.remember([{**draft, "session": draft.get("session") or self.session} for draft in drafts])

    def get(self, id: str) -> Memory:
        """Return a memory."""
        return self.view.get(id, within=self.within)

    def update(self, id: str, changes: Any, *, if_version: str | None = None) -> Memory:
        """Change some fields of a memory and return it."""
        self._check_place(changes)
        return self.view.update(id, if_version=if_version, within=self.within, **changes)

    def _check_place(self, fields: Mapping[str, Any]) -> None:
        """Raise `Invalid` if a memory would leave the one session to which the scope is limited."""
        if self.within.sessions is None:
            return
        for name, own in (("project", None), ("session", self.session)):
            if fields.get(name) not in (None, own):
                raise Invalid(f"{name}: this memory is limited to the session '{self.session}'; leave the {name} out")

    def similar(self, id: str) -> Sequence[Similar]:
        """Return the memories that are most like one."""
        return self.view.similar(id, within=self.within)

    def revise(self, action: str, id: str, by: str, reason: str | None) -> Sequence[Memory]:
        """Retire or restore a memory and return it, or return its history; or decide on a suggestion."""
        view, within = self.view, self.within
        if action in ("confirm", "dismiss", "undo"):
            decided = view.review(id, action, actor="mcp", within=within)
            return [view.get(decided.old, within=within), view.get(decided.new, within=within)]
        if action == "history":
            return view.history(id, within=within)
        if action == "restore":
            return [view.restore(id, within=within)]
        if action == "supersede":
            return [view.supersede(id, by, reason=reason, actor="mcp", within=within)]
        return [view.retract(id, reason=reason, actor="mcp", within=within)]

    def forget(self, ids: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
        """Delete memories; return the ids that existed and those that did not. `NotFound` if none existed."""
        unique = list(dict.fromkeys(map(canonical_id, ids)))
        forgotten = self.view.forget(*unique, within=self.within)
        existed = set(forgotten)
        missing = [id for id in unique if id not in existed]
        if not forgotten:
            raise NotFound(f"there is no memory {', '.join(missing)}; nothing was forgotten")
        return forgotten, missing

    def latest(self, limit: int) -> Sequence[Memory]:
        """Return the latest memories, newest first."""
        return self.view.engine.list(self.within, limit=limit).memories

    def counts(self) -> Profile:
        """Return the number of projects, sessions and memories."""
        profile = self.view.profile
        if self.within.sessions is not None:
            named = [one for one in self.view.sessions() if one.name == self.session and one.project is None]
            memories = sum(one.memories for one in named)
            return Profile(profile, 0, int(memories > 0), memories)
        if self.view.project is None:
            return self.view.counts()
        found = self.view.projects()
        return Profile(profile, len(found), sum(one.sessions for one in found), sum(one.memories for one in found))


def open_scope(
    engine: Engine, project: str | None = None, *, session: str | None = None, read_only: bool = False
) -> ToolScope:
    """Return a scope in the engine's profile. A session that belongs to a project includes the project.

    `Conflict` if several projects have a session of this name, and none is named.
    """
    profile = engine.settings.profile
    check_name("session", session)
    if session is not None and project is None:
        projects = [one.project for one in engine.sessions(profile=profile) if one.name == session]
        project = home_of(session, None, projects)
    return ToolScope(ProfileView(engine, profile, project=project), session, record_use=not read_only)


TOOL_SCOPE: ContextVar[ToolScope] = ContextVar("tool_scope")
"""The scope of the current request."""

MAX_TEXTS = 100

MOST_READ = 10_000
"""Characters of a memory in a result of memory_get."""

NOTHING_FOUND = "Nothing stored answers this. Try other words once, then say that you do not know."

Id = Annotated[str, Field(description="Id of the memory.")]
QueryText = Annotated[str, Field(description="What you want to know.")]
Limit = Annotated[int, Field(ge=1, le=50, description="Most memories to return.")]
Kinds = Annotated[
    list[Kind] | None,
    Field(description="Only events, facts or who somebody is."),
]
Exclude = Annotated[list[str], Field(max_length=1000, description="Ids to leave out.")]
Since = Annotated[str, Field(description="From this time or phrase ('last spring') on.")]
Until = Annotated[str, Field(description="Before this time, or to this date or phrase.")]
Project = Annotated[str, Field(description="Only of this project.")]
Metadata = Annotated[dict[str, Any], Field(description='Only with these values: {"topic": "car"}.')]
NewKind = Annotated[
    Kind, Field(description="episodic: it happened or was said; semantic: a fact; identity: who somebody is.")
]
Importance = Annotated[float, Field(ge=0, le=1, description="0.5 is normal.")]
Speaker = Annotated[str, Field(description="Who said it.")]
NewProject = Annotated[str, Field(description="If not the current one.")]
NewSession = Annotated[str, Field(description="If not the current one.")]


async def memory_recall(
    query: QueryText,
    limit: Limit = 8,
    kinds: Kinds = None,
    exclude: Exclude = [],  # noqa: B006 - a default in a JSON schema; nothing changes it
    since: Since = "",
    until: Until = "",
    project: Project = "",
    metadata: Metadata = {},  # noqa: B006 - as above
    as_of: Annotated[str, Field(description="What was true at this time.")] = "",
) -> Annotated[CallToolResult, RecallResult]:
    """Find memories by words and meaning, best first; use it before you answer whenever earlier conversations,
    decisions, preferences or facts could matter.
    """

    def work(scope: ToolScope) -> RecallResult:
        asked = _options(scope, query, limit, kinds, exclude, since, until, project, metadata)
        asked["as_of"] = as_of or None
        found = scope.recall(query, **asked)
        hits = [hit_out(hit, most=MOST_SHOWN) for hit in found.hits]
        return RecallResult(
            hits=hits,
            relevance=round(found.relevance, 3),
            judged=_judged(found),
            degraded=found.degraded_reason,
            advice=scope.unknown_project(project, found.hits) or (None if hits else NOTHING_FOUND),
        )

    return await _run(work)


def _judged(found: Recall) -> str:
    """How many memories the judge has read, how many passed, and how many were left out for which reason."""
    counts = {"passed": len(found.hits), **_left_out(found)}
    return ", ".join([str(_count_judged(found)), *(f"{name}={count}" for name, count in counts.items())])


def _count_judged(found: Recall) -> int:
    return sum(was_read(hit) is True for hit in (*found.hits, *found.dropped))


def _left_out(found: Recall) -> dict[str, int]:
    return Counter(reason for hit in found.dropped if (reason := why_not_given(hit)) is not None)


async def memory_remember(
    text: Annotated[str, Field(description="One thing, clear on its own.")] = "",
    texts: Annotated[list[str], Field(max_length=MAX_TEXTS, description="Several instead.")] = [],  # noqa: B006 - a default in a JSON schema; nothing changes it
    kind: NewKind = "episodic",
    importance: Importance = 0.5,
    speaker: Speaker = "",
    occurred: Annotated[str, Field(description="When it happened, if not now.")] = "",
    source: Annotated[str, Field(description="Where it comes from.")] = "",
    project: NewProject = "",
    session: NewSession = "",
    metadata: Annotated[dict[str, Any], Field(description="Values to filter recalls by.")] = {},  # noqa: B006
    key: Annotated[str, Field(description="Of a fact that can change (ana/home-city); replaces the one before.")] = "",
    expires: Annotated[str, Field(description="When to forget it: a time, or 12h, 30d, 2w.")] = "",
) -> Annotated[CallToolResult, RememberResult]:
    """Store what will be useful later; use it for decisions, preferences, facts and what the user
    asks you to remember, with names and absolute dates, never for passwords or keys.
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
            "project": project.strip() or None,
            "session": session.strip() or None,
            "metadata": metadata,
            "key": key.strip() or None,
            "expires": expires.strip() or None,
        }
        drafts = [{"text": one, **fields} for one in texts or [text]]
        stored = scope.remember(drafts)
        problem = scope.view.engine.embeddings.problem()
        return RememberResult(
            ids=[memory.id for memory in stored],
            session=stored[0].session,
            project=stored[0].project,
            similar=[f"{one.id} {snippet(one.text, MOST_SHOWN)}" for one in scope.similar(stored[0].id)]
            if len(stored) == 1
            else [],
            degraded=f"stored, but the semantic retriever cannot find it yet: {problem}" if problem else None,
        )

    return await _run(work)


async def memory_get(
    id: Id,
    offset: Annotated[int, Field(ge=0, description="The next_offset before.")] = 0,
) -> Annotated[CallToolResult, MemoryResult]:
    """Read one memory with all its data; use it to read on at a next_offset, or for a version."""
    return await _run(lambda scope: memory_result(scope.get(id), offset=offset, most=MOST_READ))


async def memory_update(
    id: Id,
    text: Annotated[str, Field(description="The new text.")] = "",
    kind: Annotated[Kind | None, Field(description="The new kind.")] = None,
    importance: Annotated[float | None, Field(ge=0, le=1, description="The new importance.")] = None,
    speaker: Annotated[str, Field(description="The new speaker.")] = "",
    occurred: Annotated[str, Field(description="When it happened.")] = "",
    project: NewProject = "",
    session: NewSession = "",
    metadata: Annotated[dict[str, Any] | None, Field(description="Replaces it.")] = None,
    if_version: Annotated[str, Field(description="Only if it has this version.")] = "",
) -> Annotated[CallToolResult, MemoryResult]:
    """Correct a wrong memory; use it when the user corrects what memory_recall returned."""

    def work(scope: ToolScope) -> MemoryResult:
        given = {
            "text": text,
            "kind": kind,
            "importance": importance,
            "speaker": speaker.strip(),
            "occurred": occurred.strip(),
            "project": project.strip(),
            "session": session.strip(),
            "metadata": metadata,
        }
        changes = {name: value for name, value in given.items() if value not in ("", None)}
        if not changes:
            raise ToolError(f"there is nothing to change: pass at least one of {', '.join(given)}")
        changed = scope.update(id, changes, if_version=if_version.strip() or None)
        return memory_result(changed, most=MOST_SHOWN)

    return await _run(work)


async def memory_revise(
    action: Annotated[
        Literal["supersede", "retract", "restore", "history", "suggestions", "confirm", "dismiss", "undo"],
        Field(
            description="supersede: `by` replaces it; retract: no longer true; restore: undo; history: versions; "
            "suggestions: what may be outdated; confirm, dismiss, undo: decide on one by its id."
        ),
    ],
    id: Annotated[str, Field(description="Of the memory or suggestion.")] = "",
    by: Annotated[str, Field(description="The replacement's id.")] = "",
    reason: Annotated[str, Field(description="Why, in a few words.")] = "",
) -> Annotated[CallToolResult, ReviseResult]:
    """Retire a fact that is no longer true, or restore it; use it when a fact has changed, instead of memory_update,
    which loses the old text.
    """

    def work(scope: ToolScope) -> ReviseResult:
        if (action == "supersede") != bool(by.strip()):
            raise ToolError("pass `by` with supersede, and only then; nothing was changed")
        if action != "suggestions" and not id.strip():
            raise ToolError(f"pass `id` with {action}; nothing was changed")
        if action == "suggestions":
            reviews = scope.view.reviews(within=scope.within)
            return ReviseResult(memories=[], suggestions=[suggestion_out(one) for one in reviews[:20]])
        found = scope.revise(action, id, by.strip(), reason.strip() or None)
        return ReviseResult(memories=[memory_out(memory, most=MOST_SHOWN) for memory in found])

    return await _run(work)


async def memory_forget(
    ids: Annotated[list[str], Field(min_length=1, max_length=MAX_TEXTS, description="The ids to delete.")],
) -> Annotated[CallToolResult, ForgetResult]:
    """Delete memories for good; use it only when the user asks to forget something, or has agreed."""

    def work(scope: ToolScope) -> ForgetResult:
        forgotten, missing = scope.forget(ids)
        return ForgetResult(forgotten=list(forgotten), not_found=list(missing))

    return await _run(work)


async def memory_explain(
    query: QueryText,
    id: Id,
    limit: Limit = 8,
    kinds: Kinds = None,
    exclude: Exclude = [],  # noqa: B006 - as above
    since: Since = "",
    until: Until = "",
    project: Project = "",
    metadata: Metadata = {},  # noqa: B006 - as above
) -> Annotated[CallToolResult, ExplainResult]:
    """Explain why a memory ranks where it does for a query, or why memory_recall did not return it; use it when a
    memory whose id you know was missing.
    """

    def work(scope: ToolScope) -> ExplainResult:
        asked = _options(scope, query, limit, kinds, exclude, since, until, project, metadata)
        return explain_result(scope.explain(scope.query(query, **asked), id))

    return await _run(work)


def _options(
    scope: ToolScope,
    query: str,
    limit: int,
    kinds: Sequence[Kind] | None,
    exclude: Sequence[str],
    since: str,
    until: str,
    project: str,
    metadata: Mapping[str, Scalar],
) -> QueryOptions:
    """Return the options of a recall; an empty text stands for an argument that was left out.

    Agents also search by keywords, which the judge takes for no question: the former relevance filters these.
    """
    by_keywords = {"judge": "order", "min_relevance": DEFAULT_MIN_RELEVANCE} if is_keywords(query) else None
    return {
        "limit": limit,
        "kinds": kinds,
        "exclude": exclude,
        "since": since or None,
        "until": until or None,
        "project": project or None,
        "metadata": metadata,
        "tuning": scope.view.engine.tuning.for_prompt(by_keywords),
    }


@cache
def status_tool(*, read_only: bool) -> Callable[..., Any]:
    """Return the tool that reports the scope and the state of the server."""

    async def memory_status() -> Annotated[CallToolResult, StatusResult]:
        """Return the scope, its size and any problem; use it when recalls are empty or degraded."""

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


WRITE_TOOLS = ("memory_remember", "memory_update", "memory_revise", "memory_forget")


def make_tools(*, read_only: bool, explain: bool) -> list[Tool]:
    """Return the tools of a server, the most used first; a read-only server has no tools that write."""
    tools = [
        _tool(memory_recall, "Recall memories"),
        _tool(memory_remember, "Remember something", writes=True, repeatable=False),
        _tool(memory_get, "Read a memory"),
        _tool(memory_update, "Correct a memory", writes=True, destroys=True),
        _tool(memory_revise, "Retire or restore a memory", writes=True),
        _tool(memory_forget, "Forget memories", writes=True, destroys=True),
        _tool(status_tool(read_only=read_only), "Status of the memory"),
        *([_tool(memory_explain, "Explain a recall")] if explain else []),
    ]
    return [tool for tool in tools if not (read_only and tool.name in WRITE_TOOLS)]


@cache  # a service has two servers with the same tools, and the schemas of one tool take milliseconds
def _tool(
    function: Callable[..., Any], title: str, *, writes: bool = False, destroys: bool = False, repeatable: bool = True
) -> Tool:
    hints = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    if writes:  # the other hints have no meaning for a tool that only reads
        changes = {"read_only_hint": False, "destructive_hint": destroys, "idempotent_hint": repeatable}
        hints = hints.model_copy(update=changes)
    description = " ".join((function.__doc__ or "").split())
    tool = Tool.from_function(function, title=title, description=description, annotations=hints)
    tool.parameters = short_arguments(tool.parameters)
    tool.fn_metadata.output_schema = short_result(tool.fn_metadata.output_schema or {})
    return tool


async def _run(work: Callable[[ToolScope], BaseModel]) -> CallToolResult:
    """Run a tool on a worker thread; errors of the engine reach the model as their message."""
    scope = TOOL_SCOPE.get()
    try:
        return tool_result(await anyio.to_thread.run_sync(work, scope))
    except RetentiveError as error:
        raise ToolError(str(error)) from error
