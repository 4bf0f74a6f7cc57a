"""What of memory goes into a prompt: who the user is, what was said last, and what fits the query.

    client's messages ──► identity + recent episodes + recalled memories ──► within the budget ──► one fenced block

Identity takes room first, then the recent episodes from the newest, then what was recalled from the best. In the block
the recent ones stand last, in their order, next to the conversation that goes on.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from retentive.chat.prompt_block import ending, fenced, introduction, note
from retentive.chat.token_counting import TokenCounter, token_counter
from retentive.errors import Invalid
from retentive.models import Hit, Memory, Recall, Serializable
from retentive.ranking import Tuning
from retentive.ranking.duplicates import normalised
from retentive.tenancy import ProfileView
from retentive.text.splitting import split_text

Part = Literal["identity", "recent", "recalled"]
Message = Mapping[str, Any]

MOST_IDENTITY = 200
MOST_RECALLED = 50
FEWEST_CHARACTERS = 20
"""A memory of which no more than this would fit says nothing."""

IN_BLOCK: tuple[Part, ...] = ("identity", "recalled", "recent")


@dataclass(frozen=True, slots=True)
class Item(Serializable):
    """A memory, the part of the prompt it is for, what it takes there, and why it is in or out."""

    memory: Memory
    part: Part
    tokens: int
    why: str
    text: str
    cut: bool = False


@dataclass(frozen=True, slots=True)
class PromptContext(Serializable):
    """What memory gives to one prompt. `items` are in the order of the block; `text` is the block, or nothing."""

    text: str
    items: tuple[Item, ...]
    left_out: tuple[Item, ...]
    token_count: int
    budget: int
    counter: str
    degraded: str | None = None

    @property
    def messages(self) -> list[dict[str, str]]:
        """The block as a message, in a list that is empty if there is nothing to say."""
        return [{"role": "system", "content": self.text}] if self.text else []


def assemble(
    confined: ProfileView,
    asked: str | Sequence[Message],
    *,
    session: str | None = None,
    project: str | None = None,
    everywhere: bool = False,
    budget: int = 2000,
    recent: int = 10,
    now: datetime | None = None,
    tuning: Tuning | Mapping[str, Any] | str | None = None,
    count_tokens: TokenCounter | None = None,
    nonce: str | None = None,
) -> PromptContext:
    """The memories for a query, or for the messages that a client sends to a model.

    What is recalled is of the project if one is named, else of the session (and so of its project, if it has one),
    else of the whole profile, as it is with `everywhere`.
    """
    counter = count_tokens or token_counter(confined.engine)
    room = _Room(counter, budget, nonce or secrets.token_hex(8))
    if room.left <= 0:
        return PromptContext("", (), (), 0, budget, counter.name)
    messages: Sequence[Message] = [{"role": "user", "content": asked}] if isinstance(asked, str) else asked
    known = _identity(confined)
    latest = latest_episodes(confined, session, recent) if session is not None else []
    before, repeated = _not_in(messages, latest)
    answer = _recall(
        confined,
        query_of(messages),
        {"project": project} if project or everywhere else {"session": session},
        limit=min(MOST_RECALLED, max(10, budget // 40)),
        exclude=[memory.id for memory in (*known, *latest)],
        tuning=tuning,
        now=now,
    )
    hits, said = _not_said(messages, answer.hits if answer else ())
    wanted = [
        *(room.item(memory, "identity", "It says who the user is.") for memory in known),
        *(
            room.item(memory, "recent", f"It is the {_ordinal(place)} of the session's latest.")
            for place, memory in enumerate(reversed(before), 1)
        ),
        *(room.item(hit.memory, "recalled", why_recalled(hit)) for hit in hits),
    ]
    taken, too_large = room.take(wanted)
    already = [room.item(memory, "recent", "The messages have it already.") for memory in repeated]
    already += [room.item(hit.memory, "recalled", "The messages have it already.") for hit in said]
    items = _in_order(taken)
    text = fenced([_line(item) for item in items], room.nonce)
    degraded = answer.degraded_reason or answer.degraded if answer else None
    total = counter.count(text) if text else 0
    return PromptContext(text, tuple(items), (*too_large, *already), total, budget, counter.name, degraded)


def text_of(message: Message) -> str:
    """The text of a message: its content, or those parts of it that are text."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, Mapping) and part.get("type") in ("text", None)]
    return "\n".join(text for text in texts if isinstance(text, str))


def query_of(messages: Sequence[Message]) -> str:
    """What the user said last; nothing if it was no text."""
    return next((text_of(message) for message in reversed(messages) if message.get("role") == "user"), "")


def latest_episodes(confined: ProfileView, session: str, count: int) -> list[Memory]:
    """The latest episodes of a session, oldest first."""
    if count < 1:
        return []
    page = confined.list(session=session, only_session=True, kinds=["episodic"], limit=min(count, 1000))
    return sorted(page.memories, key=lambda memory: (memory.position or 0, memory.id))


def why_recalled(hit: Hit) -> str:
    """At which rank a hit came, and which step gave it most."""
    most = max(hit.why, key=lambda reason: reason.change, default=None)
    if most is None:
        return f"It came at rank {hit.rank}."
    given = f"{most.step} ({most.change:.3f})" + ("" if most.rank is None else f", where it was at rank {most.rank}")
    return f"It came at rank {hit.rank}, scored {hit.score:.3f}; most of it was given by {given}."


class _Room:
    """The tokens that are left for memories."""

    def __init__(self, counter: TokenCounter, budget: int, nonce: str) -> None:
        if budget < 0:
            raise Invalid(f"budget: a number of tokens from 0, not {budget}")
        self.nonce = nonce
        self._counter = counter
        self.left = budget - counter.count(introduction(nonce) + "\n") - counter.count(ending(nonce))

    def item(self, memory: Memory, part: Part, why: str) -> Item:
        return Item(memory, part, self._counter.count(note(memory, part) + "\n"), why, memory.text)

    def take(self, wanted: Sequence[Item]) -> tuple[list[Item], list[Item]]:
        """What fits, taken in order, and what does not. If nothing fits whole, the first is cut."""
        taken, too_large = [], []
        left = self.left
        for item in wanted:
            if item.tokens <= left:
                left -= item.tokens
                taken.append(item)
            else:
                too_large.append(replace(item, why=f"There was no room: {item.tokens} tokens, {left} were left."))
        if not taken and wanted and (cut := self._cut(wanted[0])) is not None:
            return [cut], too_large[1:]
        return taken, too_large

    def _cut(self, item: Item) -> Item | None:
        """As much of the only item as fits, up to the end of a sentence if there is one."""

        def line(text: str) -> str:
            return note(item.memory, item.part, text=f"{text} …") + "\n"

        start = split_text(item.text, lambda part: self._counter.count(line(part)) <= self.left)[0]
        tokens = self._counter.count(line(start))
        if tokens > self.left or len(start) < FEWEST_CHARACTERS:
            return None
        why = f"{item.why} It was too long for the budget, and this is its beginning."
        return replace(item, text=f"{start} …", tokens=tokens, why=why, cut=True)


def _identity(confined: ProfileView) -> list[Memory]:
    """Who the user is: what matters most first, then what was known first."""
    page = confined.list(kinds=["identity"], limit=MOST_IDENTITY)
    return sorted(page.memories, key=lambda memory: (-memory.importance, memory.when, memory.id))


def _recall(confined: ProfileView, query: str, scope: Mapping[str, Any], **options: Any) -> Recall | None:
    return confined.recall(query, **scope, **options) if query.strip() else None


def _not_in(messages: Sequence[Message], latest: Sequence[Memory]) -> tuple[list[Memory], list[Memory]]:
    """The episodes that the messages do not hold, and those that they do.

    What the user says now is not compared, for it may well have been said before ("yes"), unless it is what the session
    ends with: then an earlier attempt got no answer, or only the beginning of one.
    """
    *earlier, last = [*messages] or [{}]
    said = {normalised(text_of(message)) for message in (earlier if last.get("role") == "user" else messages)}
    repeated = [memory for memory in latest if normalised(memory.text) in said]
    attempt = open_query(latest)
    if attempt is not None and attempt not in repeated and normalised(attempt.text) == normalised(text_of(last)):
        repeated.append(attempt)
    return [memory for memory in latest if memory not in repeated], repeated


def open_query(latest: Sequence[Memory]) -> Memory | None:
    """What the user said last in a session, if it has no whole answer."""
    whole = [memory for memory in latest if not memory.metadata.get("incomplete")]
    return whole[-1] if whole and whole[-1].speaker == "user" else None


def _not_said(messages: Sequence[Message], hits: Iterable[Hit]) -> tuple[list[Hit], list[Hit]]:
    """The hits that the messages do not hold, and those that they do."""
    said = {normalised(text_of(message)) for message in messages}
    new: list[Hit] = []
    old: list[Hit] = []
    for hit in hits:
        (old if normalised(hit.memory.text) in said else new).append(hit)
    return new, old


def _in_order(items: Sequence[Item]) -> list[Item]:
    """Items as they stand in the block: the recent ones were taken from the newest, and are read from the oldest."""
    parts = {part: [item for item in items if item.part == part] for part in IN_BLOCK}
    parts["recent"].reverse()
    return [item for part in IN_BLOCK for item in parts[part]]


def _line(item: Item) -> str:
    return note(item.memory, item.part, text=item.text)


def _ordinal(place: int) -> str:
    ending = "th" if 10 <= place % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place}{ending}"
