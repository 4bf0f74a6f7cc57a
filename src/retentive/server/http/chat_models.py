"""What chat and context take and give, as JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from retentive.chat.context import Item, PromptContext
from retentive.models import Kind
from retentive.server.http.fields import WHOLE, Camel, Name, QueryOptions
from retentive.server.http.tuning_parameters import TuningChoice

ChatMessage = dict[str, Any]


class _Place(Camel):
    session: Name | None = Field(None, description="The conversation. Its latest episodes go into the prompt.")
    project: Name | None = Field(None, description="Recall from this project.")
    everywhere: bool = Field(
        False, description="Recall from the whole profile, and not from the session or project alone."
    )
    budget: Annotated[int, Field(ge=0, le=200_000), WHOLE] | None = Field(
        None, description="How many tokens memories may take; the settings say if not."
    )
    recent: Annotated[int, Field(ge=0, le=1000), WHOLE] | None = Field(
        None, description="How many of the session's latest episodes; the settings say if not."
    )
    tuning: TuningChoice | None = Field(None, description="For this recall alone: parameters, or the name of a preset.")


class MemoryWishes(_Place):
    """What a chat asks of memory, in the field `retentive` of a request."""

    recall: bool = Field(True, description="Whether memories go into the prompt.")
    store: bool = Field(True, description="Whether the turn is remembered.")


class ChatRequest(BaseModel):
    """A request for a chat completion. Whatever else it holds is passed on to the model as it is."""

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

    messages: list[ChatMessage] = Field(min_length=1, description="The conversation, as OpenAI's API has it.")
    retentive: MemoryWishes | None = Field(None, description="For Retentive alone; not passed on.")


class OpenAIProblem(BaseModel):
    """What went wrong, and what to do."""

    message: str
    type: str
    param: str | None = Field(description="Which field of the request, if it is one.")
    code: str | None = Field(description="Stable: a program can go by it.")


class OpenAIError(BaseModel):
    """An error as OpenAI's clients know it."""

    error: OpenAIProblem


class ContextRequest(_Place):
    """A query, or the messages that are to go to a model."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"query": "What can Ana not eat?", "session": "2026-05-08", "budget": 1000}],
            "oneOf": [{"required": ["query"]}, {"required": ["messages"]}],
        }
    )

    query: QueryOptions | SkipJsonSchema[None] = Field(None, description="A query.")
    messages: Annotated[list[ChatMessage], Field(min_length=1)] | SkipJsonSchema[None] = Field(
        None, description="A conversation; memories that it holds already are left out."
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        given = [getattr(self, name) for name in ("query", "messages") if name in self.model_fields_set]
        if len(given) != 1 or given[0] is None:
            raise ValueError("send a query or messages, one of both")
        return self


class ContextItem(Camel):
    """A memory in the prompt, or one that was left out, and why."""

    id: str
    part: Literal["identity", "recent", "recalled"]
    kind: Kind
    speaker: str | None
    session: str | None
    project: str | None
    when: datetime
    text: str
    tokens: int
    cut: bool = Field(description="Whether this is only its beginning, because nothing fitted whole.")
    why: str

    @classmethod
    def of(cls, item: Item) -> Self:
        """The item as it is sent."""
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
            why=item.why,
        )


class Context(Camel):
    """What memory gives to a prompt."""

    text: str = Field(description="The block for the prompt; empty if there is nothing to say.")
    messages: list[dict[str, str]] = Field(description="The block as messages, to go before the conversation.")
    token_count: int
    budget: int
    counter: str = Field(description="What the tokens were counted with.")
    items: list[ContextItem] = Field(description="What is in the block, in its order.")
    left_out: list[ContextItem] = Field(description="What had no room, or is in the messages already.")
    degraded: str | None = Field(description="What the recall had to do without.")

    @classmethod
    def of(cls, context: PromptContext) -> Self:
        """The context as it is sent."""
        return cls(
            text=context.text,
            messages=context.messages,
            token_count=context.token_count,
            budget=context.budget,
            counter=context.counter,
            items=[ContextItem.of(item) for item in context.items],
            left_out=[ContextItem.of(item) for item in context.left_out],
            degraded=context.degraded,
        )
