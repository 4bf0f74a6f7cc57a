"""Choose the memories that go into a prompt: who the user is, the latest episodes, and what a recall finds.

    client's messages ──► identity + recent episodes + recalled memories ──► token budget ──► one block of the prompt

The budget is spent on identity memories (a quarter at most), the session's last two episodes, the recalled memories
from the best, and then on earlier episodes. In the block, recent episodes come last and in order, next to the
conversation they belong to.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from retentive.chat.prompt_block import block_end, block_start, note_line, prompt_block
from retentive.chat.token_counting import BYTE_COUNTER, TokenCounter, token_counter
from retentive.errors import Invalid
from retentive.models import JUDGED_MIN_RELEVANCE, Hit, Memory, Query, Recall, Serializable
from retentive.pipeline.given import Given, GivenNote
from retentive.pipeline.standing_rules import RULE, is_rule
from retentive.pipeline.tuning_history import PROMPT_DEPTH
from retentive.ranking import Tuning
from retentive.ranking.judged import was_read, why_not_given
from retentive.ranking.rank import threshold
from retentive.tenancy import ProfileView
from retentive.text.normal_form import folded_words, normalised
from retentive.text.splitting import split_text

Part = Literal["rules", "identity", "facts", "recent", "recalled"]
Message = Mapping[str, Any]

MAX_IDENTITY = 200
MAX_RECALLED = 50
MAX_FACTS = 50
MAX_RULES = 30
"""How many standing rules the judge reads for a prompt, the newest."""

BRIEF_RULES, RULES_SHARE = 12, 3
"""A new session is given this many rules at most, in one part in so many of the budget."""

MAX_LISTED_RULES = 200
MAX_EXCLUDED = 1000
"""How many of a session's latest episodes a recall leaves out."""

IDENTITY_SHARE = 4
"""Identity memories take at most this part of the budget: one in so many."""

LAST_EPISODES, EPISODE_SHARE = 2, 8
"""So many of a session's latest episodes come before recalled memories, each cut to one in so many of the budget."""

MIN_CHARACTERS = 20
"""A memory that is cut to fewer characters is left out instead."""

MAX_COMPARED = 4000
"""Of a longer text, the head, the tail and the length are compared with others."""

MAX_MESSAGES = 1000
"""The latest messages are compared with the memories; earlier ones are not read."""

SIMILAR = 0.5
"""Two notes that share this part of their words, or more, may contradict each other."""

BLOCK_ORDER: tuple[Part, ...] = ("rules", "identity", "facts", "recalled", "recent")
REPEATED = "The messages already contain it."

LeftOut = Literal["irrelevant", "unjudged", "budget", "repeated"]


@dataclass(frozen=True, slots=True)
class PromptItem(Serializable):
    """A memory, the part of the prompt it is for, its tokens there, and why it is in the prompt or left out."""

    memory: Memory
    part: Part
    tokens: int
    why: str
    text: str
    cut: bool = False
    relevance: float | None = None
    newer: datetime | None = None
    left_out: LeftOut | None = None


@dataclass(frozen=True, slots=True)
class PromptContext(Serializable):
    """The memories for one prompt. `items` are in the order of the block; `text` is the block, or empty.

    `relevance` is that of the recall: the estimated probability that anything stored helps. `judged` is how many
    memories the judge has read. `project` is the project that was searched, or None if it was the whole profile.
    """

    text: str
    items: tuple[PromptItem, ...]
    left_out: tuple[PromptItem, ...]
    token_count: int
    budget: int
    counter: str
    degraded: str | None = None
    relevance: float = 0.0
    judged: int = 0
    project: str | None = None

    @property
    def note(self) -> str | None:
        """Why there are no memories, if there are none."""
        irrelevant = any(item.left_out == "irrelevant" for item in self.left_out)
        return "nothing relevant is stored" if irrelevant and not self.items else None

    @property
    def passed(self) -> int:
        """How many of the recalled memories are relevant enough, also if they are left out for another reason."""
        recalled = [item for item in (*self.items, *self.left_out) if item.part in ("recalled", "rules")]
        return sum(item.left_out not in ("irrelevant", "unjudged") for item in recalled)

    @property
    def left_out_counts(self) -> dict[str, int]:
        """How many memories were left out for each reason."""
        return dict(Counter(item.left_out for item in self.left_out if item.left_out is not None))

    @property
    def messages(self) -> list[dict[str, str]]:
        """The block as a list with one message, or an empty list."""
        return [{"role": "system", "content": self.text}] if self.text else []


def assemble(
    view: ProfileView,
    prompt: str | Sequence[Message],
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
    parts: Collection[Part] = BLOCK_ORDER,
    exclude: Sequence[str] = (),
    exclude_session: bool = False,
) -> PromptContext:
    """Return the memories for a query, or for the messages that a client sends to a model.

    The recall searches the project if one is given, else that of the session if it has one, else the whole profile;
    `everywhere` always searches the whole profile. Memories of the project come before others. `parts` are the parts
    of the block to fill; what is recalled includes standing rules. Of these, the judge reads the newest, so that they
    are found by what they say about the prompt. The recall leaves out the memories with the ids in `exclude`, and with
    `exclude_session` the latest episodes of the session.
    """
    session_project = project or view.project or _project_of(view, session)
    searched = view.project if everywhere else session_project
    counter = count_tokens or token_counter(view.engine)
    tokens = _TokenBudget(counter, budget, nonce or secrets.token_hex(8), session_project)
    if tokens.left <= 0:
        return PromptContext("", (), (), 0, budget, counter.name, project=searched)
    messages: Sequence[Message] = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    identity = _identity(view, project=session_project) if "identity" in parts else []
    latest = (
        latest_episodes(view, session, recent, project=project) if session is not None and "recent" in parts else []
    )
    known = latest_episodes(view, session, MAX_EXCLUDED, project=searched) if session and exclude_session else []
    new, repeated = _split_repeated_episodes(messages, latest)
    text, chosen = last_user_text(messages), view.engine.tuning.for_prompt(tuning)
    excluded = [*exclude, *(memory.id for memory in (*identity, *latest, *known))]
    answer = _recall(
        view,
        text if "recalled" in parts else "",
        project=searched,
        limit=PROMPT_DEPTH,
        exclude=excluded,
        tuning=chosen,
        now=now,
    )
    found = () if answer is None else answer.hits
    read = [] if answer is None else [hit.id for hit in (*found, *answer.dropped) if was_read(hit)]
    rules: Sequence[Hit] = ()
    if {"recalled", "rules"} & set(parts):
        known_ids = {*excluded, *read, *(hit.id for hit in found)}
        rules = _read_rules(view, session_project, view.query(text, tuning=chosen), known_ids)
    least = threshold(chosen) or JUDGED_MIN_RELEVANCE
    helpful = [hit for hit in rules if (hit.relevance or 0.0) >= least]
    hits, repeated_hits = _split_repeated_hits(messages, [*found, *helpful])
    hits.sort(
        key=lambda hit: (session_project is not None and hit.memory.project != session_project, -(hit.relevance or 0.0))
    )
    wanted = _wanted(tokens, identity, new, hits)
    left_out = [tokens.item(memory, "recent", REPEATED, left_out="repeated") for memory in repeated]
    left_out += [tokens.item(hit.memory, "recalled", REPEATED, left_out="repeated") for hit in repeated_hits]
    left_out += _not_relevant(answer)
    context = replace(tokens.fill(wanted, left_out), project=searched, judged=len(read) + len(rules))
    relevance = max((hit.relevance or 0.0 for hit in helpful), default=0.0)
    if answer is None:  # a recall without hits is false
        return replace(context, relevance=relevance)
    degraded = answer.degraded_reason or answer.degraded
    return replace(context, degraded=degraded, relevance=max(relevance, answer.relevance))


def _read_rules(view: ProfileView, session_project: str | None, query: Query, known: Collection[str]) -> Sequence[Hit]:
    """Let the judge read the newest standing rules that are not known yet, so that none is missed by its words."""
    others = [rule for rule in _rules(view, session_project) if rule.id not in known][:MAX_RULES]
    return view.engine.judging.read(others, query)


def _wanted(
    tokens: _TokenBudget, identity: Sequence[Memory], latest: Sequence[Memory], hits: Sequence[Hit]
) -> list[PromptItem]:
    """The memories to fill the block with, in the order in which they get the budget."""
    newer = _newer_notes([hit.memory for hit in hits])
    episodes = [
        tokens.item(memory, "recent", f"It is number {number} of the session's latest episodes.")
        for number, memory in enumerate(reversed(latest), 1)
    ]
    return [
        *(tokens.item(memory, "identity", "It describes the user.") for memory in identity),
        *(tokens.shortened(item) for item in episodes[:LAST_EPISODES]),
        *(
            tokens.item(
                hit.memory,
                "rules" if is_rule(hit.memory) else "recalled",
                why_recalled(hit),
                relevance=hit.relevance,
                newer=newer.get(hit.id),
            )
            for hit in hits
        ),
        *episodes[LAST_EPISODES:],
    ]


def brief(
    view: ProfileView,
    *,
    project: str | None = None,
    session: str | None = None,
    budget: int = 1500,
    recent: int = 6,
    count_tokens: TokenCounter | None = None,
    nonce: str | None = None,
) -> PromptContext:
    """Return the memories for the start of a session, without a query.

    These are the newest standing rules of the project and of no project, the identity memories, the facts of the
    project (semantic memories, the most important and then the newest first), and the last episodes of the latest
    session of the project other than `session`.
    """
    counter = count_tokens or token_counter(view.engine)
    session_project = project or view.project
    tokens = _TokenBudget(counter, budget, nonce or secrets.token_hex(8), session_project)
    if tokens.left <= 0:
        return PromptContext("", (), (), 0, budget, counter.name, project=session_project)
    facts = view.list(project=project, kinds=["semantic"], limit=MAX_FACTS).memories if project is not None else ()
    newest = _rules(view, session_project)[:BRIEF_RULES]
    rules, too_large = tokens.share(
        [tokens.item(memory, "rules", "It is a standing rule.") for memory in newest], RULES_SHARE
    )
    others = [
        *(tokens.item(memory, "identity", "It describes the user.") for memory in _identity(view, project=project)),
        *(
            tokens.item(memory, "recent", f"It is number {number} of the latest episodes of the session before.")
            for number, memory in enumerate(reversed(_last_session(view, project, session, recent)), 1)
        ),
        *(
            tokens.item(memory, "facts", "It is a fact of the project.")
            for memory in sorted(facts, key=lambda memory: -memory.importance)
        ),
    ]
    given = {item.memory.content_hash for item in rules}
    wanted = [*rules, *(item for item in others if item.memory.content_hash not in given)]
    return replace(tokens.fill(wanted, too_large), project=session_project)


def log_context(
    view: ProfileView, context: PromptContext, *, client: str, query: str = "", session: str | None = None
) -> None:
    """Log what a client was given for a prompt, or without a query at the start of a session."""
    notes = tuple(GivenNote(item.memory.id, item.part, item.relevance) for item in context.items)
    view.engine.given.add(
        Given(
            view.engine.now(), client, view.profile, context.project, session, query, notes,
            tokens=context.token_count, judged=context.judged, left_out=context.left_out_counts,
        )
    )  # fmt: skip


def _last_session(view: ProfileView, project: str | None, session: str | None, count: int) -> list[Memory]:
    """Return the latest episodes of the latest session that is not this one, oldest first."""
    page = view.list(project=project, kinds=["episodic"], limit=MAX_EXCLUDED)
    for one in page.memories:
        if one.session is not None and one.session != session:
            return latest_episodes(view, one.session, count, project=one.project)
    return []


def message_text(message: Message) -> str:
    """Return the text of a message: its content, or those parts of it that are text."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, Mapping) and part.get("type") in ("text", None)]
    return "\n".join(text for text in texts if isinstance(text, str))


def last_user_text(messages: Sequence[Message]) -> str:
    """Return the text of the user's last message; empty if it has none."""
    return next((message_text(message) for message in reversed(messages) if message.get("role") == "user"), "")


def latest_episodes(view: ProfileView, session: str, count: int, *, project: str | None = None) -> list[Memory]:
    """Return the latest episodes of a session, oldest first.

    Without a project, those of the session of this name that is in no project, or else of the latest one.
    """
    if count < 1:
        return []
    page = view.list(session=session, project=project, only_session=True, kinds=["episodic"], limit=min(count, 1000))
    session_project = _session_project(page.memories)
    found = [memory for memory in page.memories if memory.project == session_project]
    return sorted(found, key=lambda memory: (memory.position or 0, memory.id))


def unanswered_message(latest: Sequence[Memory]) -> Memory | None:
    """Return the user's last message in a session if it has no complete answer."""
    complete = [memory for memory in latest if not memory.metadata.get("incomplete")]
    return complete[-1] if complete and complete[-1].speaker == "user" else None


def why_recalled(hit: Hit) -> str:
    """Return a hit's rank and score, and the step that contributed most."""
    if hit.rank == 0:
        return f"It is a standing rule with a relevance of {hit.relevance or 0.0:.2f}."
    most = max(hit.why, key=lambda reason: reason.change, default=None)
    if most is None:
        return f"It is hit {hit.rank}."
    rank = "" if most.rank is None else f", rank {most.rank}"
    relevance = "" if hit.relevance is None else f" and a relevance of {hit.relevance:.2f}"
    best = f"{most.step} contributes most ({most.change:.3f}{rank})"
    return f"It is hit {hit.rank} with a score of {hit.score:.3f}{relevance}; {best}."


class _TokenBudget:
    """Selects the items that fit into a number of tokens, beside the first and last lines of the block.

    `session_project` is the project of the prompt.
    """

    def __init__(self, counter: TokenCounter, budget: int, nonce: str, session_project: str | None) -> None:
        if budget < 0:
            raise Invalid(f"budget: a number of tokens from 0, not {budget}")
        self._session_project = session_project
        self.nonce = nonce
        self._budget = budget
        self._counter = counter
        self._readable = 4 * budget + 100_000
        self.left = budget - counter.count(block_start(nonce) + "\n") - counter.count(block_end(nonce))

    def item(
        self,
        memory: Memory,
        part: Part,
        why: str,
        *,
        relevance: float | None = None,
        newer: datetime | None = None,
        left_out: LeftOut | None = None,
    ) -> PromptItem:
        tokens = self._count(memory, part, newer)
        return PromptItem(memory, part, tokens, why, memory.text, False, relevance, newer, left_out)

    def _count(self, memory: Memory, part: Part, newer: datetime | None) -> int:
        """Count the tokens of a note; estimate them once the characters that fill the budget several times are read."""
        if len(memory.text) > self._readable:
            return max(self.left + 1, len(memory.text) // 3)
        self._readable -= len(memory.text)
        return self._counter.count(note_line(memory, part, session_project=self._session_project, newer=newer) + "\n")

    def take(self, wanted: Sequence[PromptItem]) -> tuple[list[PromptItem], list[PromptItem]]:
        """Return the items that fit, taken in order, and the others. Identity beyond its share comes after the rest.

        A recalled item that does not fit is cut, and so is the first of all.
        """
        share, left = self.left // IDENTITY_SHARE, self.left
        first: list[PromptItem] = []
        later: list[PromptItem] = []
        for item in wanted:
            share -= item.tokens if item.part == "identity" else 0
            (later if item.part == "identity" and share < 0 else first).append(item)
        taken: list[PromptItem] = []
        too_large: list[PromptItem] = []
        for item in (*first, *later):
            fitting: PromptItem | None = item
            if item.tokens > left:
                fitting = self._cut(item, left) if item.part in ("rules", "recalled", "facts") or not taken else None
            if fitting is None:
                too_large.append(_too_large(item, left))
            else:
                left -= fitting.tokens
                taken.append(fitting)
        return taken, too_large

    def share(self, items: Sequence[PromptItem], parts: int) -> tuple[list[PromptItem], list[PromptItem]]:
        """Return the items that fit into one part in so many of the budget, taken in order, and the others."""
        left = self.left // parts
        taken, too_large = list[PromptItem](), list[PromptItem]()
        for item in items:
            if item.tokens > left:
                too_large.append(_too_large(item, left))
            else:
                left -= item.tokens
                taken.append(item)
        return taken, too_large

    def shortened(self, item: PromptItem) -> PromptItem:
        """An item cut to its share of the budget, if it is longer."""
        room = self.left // EPISODE_SHARE
        return item if item.tokens <= room else self._cut(item, room) or item

    def fill(self, wanted: Sequence[PromptItem], left_out: Sequence[PromptItem]) -> PromptContext:
        """Return the block of the items that fit."""
        budget, counter = self._budget, self._counter
        taken, too_large = self.take(wanted)
        items = _in_block_order(taken)
        lines = [
            note_line(item.memory, item.part, session_project=self._session_project, text=item.text, newer=item.newer)
            for item in items
        ]
        text = prompt_block(lines, self.nonce)
        total = min(counter.count(text), budget) if text else 0
        return PromptContext(text, tuple(items), (*too_large, *left_out), total, budget, counter.name)

    def _cut(self, item: PromptItem, room: int) -> PromptItem | None:
        """Cut an item to a number of tokens, at the end of a sentence if possible; None if too little remains."""

        def line(text: str) -> str:
            return (
                note_line(
                    item.memory, item.part, session_project=self._session_project, text=f"{text} …", newer=item.newer
                )
                + "\n"
            )

        # A token is rarely longer than 8 characters; what is behind them does not fit.
        head = item.text[: 8 * max(room, 0) + 100]
        start = split_text(head, lambda part: self._counter.count(line(part)) <= room)[0]
        tokens = self._counter.count(line(start))
        if tokens > room or len(start) < MIN_CHARACTERS:
            return None
        why = f"{item.why} It was cut to its beginning to fit the budget."
        return replace(item, text=f"{start} …", tokens=tokens, why=why, cut=True)


def _too_large(item: PromptItem, left: int) -> PromptItem:
    return replace(item, why=f"It does not fit: {item.tokens} tokens, {left} left.", left_out="budget")


def _project_of(view: ProfileView, session: str | None) -> str | None:
    return None if session is None else _session_project(view.list(session=session, only_session=True).memories)


def _session_project(memories: Sequence[Memory]) -> str | None:
    """The project of a session with these memories, the latest first; None if one of its name is in no project."""
    projects = [memory.project for memory in memories]
    return None if None in projects else next(iter(projects), None)


def _identity(view: ProfileView, *, project: str | None) -> list[Memory]:
    """Return the identity memories, most important first, then oldest first.

    Those of a project are only for prompts of that project; elsewhere a recall may find them.
    """
    page = view.list(kinds=["identity"], limit=MAX_IDENTITY)
    found = [memory for memory in page.memories if memory.project in (None, view.project or project)]
    return sorted(found, key=lambda memory: (-memory.importance, memory.when, memory.id))


def _rules(view: ProfileView, project: str | None) -> list[Memory]:
    """Return the newest standing rules of a project and of no project, newest first, each text once."""
    page = view.list(metadata={RULE: True}, limit=MAX_LISTED_RULES)
    found = [memory for memory in page.memories if memory.project in (None, project)]
    if page.next_cursor is not None and project is not None:  # those of other projects must not hide its own
        own = view.list(project=project, metadata={RULE: True}, limit=MAX_RULES).memories
        found += [memory for memory in own if memory not in found]
    once: dict[str, Memory] = {}
    for memory in found:
        once.setdefault(memory.content_hash, memory)
    return list(once.values())


def _not_relevant(answer: Recall | None) -> list[PromptItem]:
    """Return the memories that are not relevant enough, and those that the judge has not read, the best first.

    They do not compete for the budget, so their tokens are estimated: to count them would take a third of the time.
    """
    dropped = () if answer is None else answer.dropped
    found = [(hit, reason) for hit in dropped if (reason := why_not_given(hit)) is not None]
    estimate = BYTE_COUNTER.count
    return [
        PromptItem(
            hit.memory,
            "recalled",
            estimate(hit.memory.text),
            "The judge has not read it." if reason == "unjudged" else f"It is not relevant enough: {hit.why[-1].note}.",
            hit.memory.text,
            relevance=hit.relevance,
            left_out=reason,
        )
        for hit, reason in found[:MAX_RECALLED]
    ]


def _newer_notes(memories: Sequence[Memory]) -> dict[str, datetime]:
    """The time of the newest later note that may replace a note, by the id of the older one.

    It says something similar and is of the same project. What the assistant says replaces only what it said itself:
    mostly it repeats what others said.
    """
    words = {memory.id: frozenset(folded_words(memory.text[:MAX_COMPARED])) for memory in memories}
    newer: dict[str, datetime] = {}
    for memory in memories:
        own = words[memory.id]
        similar = [
            other.when
            for other in memories
            if other.when > memory.when
            and other.project == memory.project
            and (other.speaker != "assistant" or memory.speaker == "assistant")
            and len(own & words[other.id]) >= SIMILAR * max(len(own | words[other.id]), 1)
        ]
        if similar:
            newer[memory.id] = max(similar)
    return newer


def _recall(view: ProfileView, text: str, **options: Any) -> Recall | None:
    return view.recall(view.query(text, **options)) if text.strip() else None


def _split_repeated_episodes(
    messages: Sequence[Message], latest: Sequence[Memory]
) -> tuple[list[Memory], list[Memory]]:
    """Return the episodes that the messages do not contain, and those that they do.

    The user's last message is not compared, because the same text may have been said before ("yes"), unless the session
    ends with it: then it is a second attempt after a missing or incomplete answer.
    """
    *earlier, last = messages[-MAX_MESSAGES:] or [{}]
    said = _compared(earlier if last.get("role") == "user" else [*earlier, last])
    repeated = [memory for memory in latest if _comparable(memory.text) in said]
    attempt = unanswered_message(latest)
    if attempt is not None and attempt not in repeated and _comparable(attempt.text) in _compared([last]):
        repeated.append(attempt)
    return [memory for memory in latest if memory not in repeated], repeated


def _split_repeated_hits(messages: Sequence[Message], hits: Iterable[Hit]) -> tuple[list[Hit], list[Hit]]:
    """Return the hits that the messages do not contain, and those that they do."""
    said = _compared(messages[-MAX_MESSAGES:])
    new: list[Hit] = []
    repeated: list[Hit] = []
    for hit in hits:
        (repeated if _comparable(hit.memory.text) in said else new).append(hit)
    return new, repeated


def _compared(messages: Sequence[Message]) -> set[str]:
    return {_comparable(message_text(message)) for message in messages}


def _comparable(text: str) -> str:
    """Normalise a text; of a long one its head and tail, with its length."""
    if len(text) <= MAX_COMPARED:
        return normalised(text)
    half = MAX_COMPARED // 2
    return f"{normalised(text[:half])}\n{len(text)}\n{normalised(text[-half:])}"


def _in_block_order(items: Sequence[PromptItem]) -> list[PromptItem]:
    """Order the items as in the block; recent episodes are taken newest first and written oldest first."""
    parts = {part: [item for item in items if item.part == part] for part in BLOCK_ORDER}
    parts["recent"].reverse()
    return [item for part in BLOCK_ORDER for item in parts[part]]
