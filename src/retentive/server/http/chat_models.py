"""Request and response models of chat and context."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from retentive.chat.context import BLOCK_ORDER, LeftOut, Part, PromptContext, PromptItem
from retentive.models import Kind
from retentive.server.http.request_parsing import (
    INTEGER,
    CamelModel,
    Id,
    Name,
    QueryText,
    SessionName,
    TuningChoice,
    not_nullable,
)

ChatMessage = dict[str, Any]


class _ContextOptions(CamelModel):
    session: SessionName | None = Field(
        None, description="The conversation. Its latest episodes are added to the prompt."
    )
    project: Name | None = Field(
        None, description="Recall from this project. Default: the project of the session, or else the whole profile."
    )
    everywhere: bool = Field(False, description="Recall from the whole profile, not only from the project.")
    budget: Annotated[int, Field(ge=0, le=200_000), INTEGER] | None = Field(
        None, description="Token budget for memories. Default: the setting llm.context_tokens."
    )
    recent: Annotated[int, Field(ge=0, le=1000), INTEGER] | None = Field(
        None, description="Number of the session's latest episodes. Default: the setting llm.recent_turns."
    )
    tuning: TuningChoice | None = Field(None, description="Tuning of this recall: parameters, or the name of a preset.")


class ChatMemoryOptions(_ContextOptions):
    """How a chat request uses memory: the field `retentive` of the request."""

    recall: bool = Field(True, description="Add memories to the prompt.")
    store: bool = Field(True, description="Store the user's message and the answer.")


class ChatRequest(BaseModel):
    """A request for a chat completion. All other fields are passed on to the LLM server unchanged."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {
                    "model": "llama3.2",
                    "messages": [{"role": "user", "content": "What can Ana not eat?"}],
                    "stream": False,
                    "retentive": {"session": "2026-05-08", "budget": 1000},
                }
            ]
        },
    )

    messages: list[ChatMessage] = Field(min_length=1, description="The conversation, in the format of OpenAI's API.")
    retentive: ChatMemoryOptions | None = Field(None, description="Options of memory; not passed on.")


class OpenAIErrorBody(BaseModel):
    """What failed, and what to do."""

    message: str
    type: str
    param: str | None = Field(description="The invalid field of the request, if there is one.")
    code: str | None = Field(description="A stable code for programs.")


class OpenAIError(BaseModel):
    """An error in OpenAI's format."""

    error: OpenAIErrorBody


class ContextRequest(_ContextOptions):
    """A query, or the messages for a model."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"query": "What can Ana not eat?", "session": "2026-05-08", "budget": 1000}],
            "oneOf": [{"required": ["query"]}, {"required": ["messages"]}],
        }
    )

    query: QueryText | None = Field(None, json_schema_extra=not_nullable, description="The text to recall for.")
    messages: Annotated[list[ChatMessage], Field(min_length=1)] | None = Field(
        None,
        json_schema_extra=not_nullable,
        description="A conversation. Memories that it already contains are left out.",
    )
    parts: list[Part] = Field(
        list(BLOCK_ORDER), min_length=1, description="The parts of the block to fill. Default: all."
    )
    exclude: list[Id] = Field([], max_length=1000, description="Ids of memories that the recall leaves out.")
    exclude_session: bool = Field(
        False, description="Leave out the session's own episodes, for a client whose prompt has them already."
    )
    deadline_ms: Annotated[int, Field(ge=1, le=60_000), INTEGER] | None = Field(
        None,
        json_schema_extra=not_nullable,
        description="Milliseconds until the response is needed. What the judge has not read by then is left out.",
    )
    store: bool = Field(True, description="Keep the beginning of the query in the log of what was given.")

    @model_validator(mode="after")
    def _check_exactly_one(self) -> Self:
        given = [getattr(self, name) for name in ("query", "messages") if name in self.model_fields_set]
        if len(given) != 1 or given[0] is None:
            raise ValueError("send either query or messages")
        return self


class BriefingRequest(CamelModel):
    """What a new session is about."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"project": "boat", "budget": 1000}]})

    project: Name | None = Field(None, description="The project, whose facts and latest session are added.")
    session: SessionName | None = Field(None, description="The session that starts; it is not the latest one.")
    budget: Annotated[int, Field(ge=0, le=200_000), INTEGER] = Field(1500, description="Token budget for memories.")
    recent: Annotated[int, Field(ge=0, le=1000), INTEGER] = Field(
        6, description="Number of the last episodes of the latest session."
    )


class ContextItem(CamelModel):
    """A memory in the prompt, or one that was left out, and the reason."""

    id: str
    part: Part
    kind: Kind
    speaker: str | None
    session: str | None
    project: str | None
    when: datetime
    text: str
    tokens: int = Field(description="Its tokens in the block; of a memory that is not relevant, an estimate.")
    cut: bool = Field(description="Whether the text was cut to fit the budget.")
    relevance: float | None = Field(description="How likely it helps, from 0 to 1; null if it was not recalled.")
    newer: datetime | None = Field(description="The time of a later memory here that says something similar.")
    left_out: LeftOut | None = Field(description="Why it was left out, if it was.")
    why: str

    @classmethod
    def of(cls, item: PromptItem) -> Self:
        """Convert an item."""
        memory = item.memory
        return cls(
            id=memory.id,
            part=item.part,
            kind=memory.kind,
            speaker=memory.speaker,
            session=memory.session,
            project=memory.project,
            when=memory.when,
            text=item.text,
            tokens=item.tokens,
            cut=item.cut,
            relevance=item.relevance,
            newer=item.newer,
            left_out=item.left_out,
            why=item.why,
        )


class ContextResponse(CamelModel):
    """The memories for a prompt."""

    text: str = Field(description="The block for the prompt; empty if there are no memories.")
    messages: list[dict[str, str]] = Field(description="The block as messages, to insert before the conversation.")
    token_count: int
    budget: int
    counter: str = Field(description="How the tokens were counted.")
    items: list[ContextItem] = Field(description="The memories in the block, in order.")
    left_out: list[ContextItem] = Field(
        description="Memories that are not relevant, were not judged, did not fit, or are in the messages already."
    )
    judged: int = Field(description="How many memories the judge has read.")
    passed: int = Field(description="How many recalled memories are relevant enough, with those left out otherwise.")
    project: str | None = Field(description="The project that was searched; null for the whole profile.")
    relevance: float = Field(description="The estimated probability, from 0 to 1, that anything stored helps.")
    note: str | None = Field(description="Why there are no memories, if there are none.")
    degraded: str | None = Field(description="What was missing in the recall.")

    @classmethod
    def of(cls, context: PromptContext) -> Self:
        """Convert a context."""
        return cls(
            text=context.text,
            messages=context.messages,
            token_count=context.token_count,
            budget=context.budget,
            counter=context.counter,
            items=[ContextItem.of(item) for item in context.items],
            left_out=[ContextItem.of(item) for item in context.left_out],
            judged=context.judged,
            passed=context.passed,
            project=context.project,
            relevance=context.relevance,
            note=context.note,
            degraded=context.degraded,
        )
