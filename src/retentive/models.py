"""The values that every module uses: memories, scopes, queries, candidates, reasons, hits, recalls.

They are immutable. Nothing here reads a clock, a disk or a network.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, date, datetime, timedelta
from hashlib import blake2b
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, cast, get_args, overload
from uuid import UUID

from retentive.errors import Cancelled, Invalid

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from numpy import float32
    from numpy.typing import NDArray

    from retentive.ranking import Tuning

T = TypeVar("T")

Kind = Literal["episodic", "semantic", "identity"]
KINDS: tuple[Kind, ...] = get_args(Kind)
DEFAULT_PROFILE = "default"
MAX_NAME = 500
ALL = 1_000_000_000
"""As a number of candidates: all of them."""

POOL_FACTOR, DEEP_POOL_FACTOR = 3, 5
"""Each retriever returns this many times the limit. Without full fusion, a memory counts only in the retrievers that
returned it, so they return more."""

SPREAD_DEPTH = 100
"""Spread scaling maps the score at this rank to 0."""

MIN_CENTRES = 20
"""Neighbours are read around at least this many of the best of each retriever."""

DEFAULT_MIN_RELEVANCE = 0.3
"""The smallest relevance of a memory that is given to a prompt without the judge, unless the tuning has another one."""

JUDGED_MIN_RELEVANCE = 0.06
"""The smallest relevance by the judge of a memory that is given to a prompt, unless the tuning has another one."""

_new = tuple.__new__
"""Creates a named tuple in half the time of its own constructor; a recall creates hundreds."""


class Serializable:
    """A dataclass that can be converted to JSON."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain dicts, lists and ISO 8601 times."""
        own = [item for item in fields(cast("DataclassInstance", self)) if not item.metadata.get("internal")]
        return {item.name: _to_json(getattr(self, item.name)) for item in own}


def _to_json(value: Any) -> Any:
    if isinstance(value, str | float | int | None):
        return value
    if isinstance(value, date):  # or a time, which is one too
        return value.isoformat()
    if isinstance(value, Serializable | Memory | Hit):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {name: _to_json(item) for name, item in value.items()}
    return [_to_json(item) for item in value]


USE_FIELDS = ("accessed", "access_count")
"""The fields of a memory that record its use."""

FACT_FIELDS = ("key", "valid_from", "valid_to", "superseded_by", "reason", "actor", "expires")
"""The fields of a memory about its validity: when it is current, what replaced it, and why. Most memories have none."""


def indexed_text(text: str, speaker: str | None) -> str:
    """The text that is indexed of a memory with this text and speaker."""
    return text if not speaker or text.startswith(f"{speaker}:") else f"{speaker}: {text}"


def hash_text(text: str) -> str:
    """A hash of a text, such as the `text_hash` of a memory with this indexed text."""
    return blake2b(text.encode(errors="replace"), digest_size=16).hexdigest()


class Memory(NamedTuple):
    """One memory: something that happened (episodic), a fact (semantic), or who somebody is (identity).

    A named tuple, as are `Reason` and `Hit`: a recall creates hundreds, and a frozen dataclass costs six times as much.
    `memory._replace(...)` returns a copy with some fields changed.
    """

    id: str
    text: str
    created: datetime
    profile: str = DEFAULT_PROFILE
    project: str | None = None
    session: str | None = None
    position: int | None = None
    kind: Kind = "episodic"
    speaker: str | None = None
    importance: float = 0.5
    metadata: Mapping[str, Any] = MappingProxyType({})
    source: str | None = None
    occurred: datetime | None = None
    accessed: datetime | None = None
    access_count: int = 0
    evergreen: bool = False
    content_hash: str = ""
    key: str | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    superseded_by: str | None = None
    reason: str | None = None
    actor: str | None = None
    expires: datetime | None = None

    @property
    def when(self) -> datetime:
        """The time it happened, or else the time it was stored."""
        return self.occurred or self.created

    @property
    def start(self) -> datetime:
        """The time from which it is valid: the one given, or else the time it happened or was stored."""
        return self.valid_from or self.when

    def is_current(self, at: datetime) -> bool:
        """Whether it is neither retired nor expired at a time, nor valid only from a later time on."""
        return (
            (self.valid_to is None or self.valid_to > at)
            and (self.expires is None or self.expires > at)
            and (self.valid_from is None or self.valid_from <= at)
        )

    @property
    def indexed_text(self) -> str:
        """The text that is indexed and embedded: the text after its speaker.

        Without the speaker, the semantic retriever loses a quarter of its recall on conversations (measured on LoCoMo).
        """
        return indexed_text(self.text, self.speaker)

    @property
    def text_hash(self) -> str:
        """A hash of the indexed text. A vector is stored with that of the text it was made of."""
        return hash_text(self.indexed_text)

    @property
    def version(self) -> str:
        """A hash of all fields but `accessed` and `access_count`: every change gives another one, use does not."""
        times = ("created", "occurred", "valid_from", "valid_to", "expires")
        utc = {name: time.astimezone(UTC) for name in times if (time := getattr(self, name)) is not None}
        values = self._replace(**utc).to_dict()
        own = [values[name] for name in self._fields if name not in (*USE_FIELDS, *FACT_FIELDS)]
        facts = {name: values[name] for name in FACT_FIELDS if values[name] is not None}
        return hash_text(json.dumps([*own, facts] if facts else own, sort_keys=True))

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values, with ISO 8601 times."""
        return {name: _to_json(value) for name, value in zip(self._fields, self, strict=True)}


@dataclass(frozen=True, slots=True)
class Scope:
    """The memories that an operation applies to.

    A scope is always in one profile: memories of different profiles are never mixed. A session that belongs to a
    project includes the whole project, unless `only_sessions` is set. Several projects may have a session of the same
    name: without a project, a scope has all of them; with `outside_projects`, only what is in no project. A name that
    does not exist matches nothing. A search of a project also finds the identity memories of the profile that belong to
    no project.
    """

    profile: str = DEFAULT_PROFILE
    project: str | None = None
    sessions: tuple[str, ...] | None = None
    kinds: tuple[Kind, ...] | None = None
    only_sessions: bool = False
    outside_projects: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether no memory can be in it, whatever the store has."""
        return () in (self.kinds, self.sessions) or (self.outside_projects and self.project is not None)


Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Filter:
    """Conditions on the memories of a scope: what does not match is not searched.

    A memory matches if it is from `since` on and before `until`, by `Memory.when`, and if its metadata has each of the
    given keys with an equal value; 1 equals 1.0, but not true. Its `Memory.start` is not after `started_by`. Statistics
    of the keyword retriever are those of the scope, so a filter does not change scores.
    """

    since: datetime | None = None
    until: datetime | None = None
    metadata: tuple[tuple[str, Scalar], ...] = ()
    started_by: datetime | None = None

    def __bool__(self) -> bool:
        return self != Filter()

    def unmet_by(self, memory: Memory) -> str | None:
        """The condition that a memory does not meet, "time", "start" or "metadata"; None if it matches."""
        if (self.since and memory.when < self.since) or (self.until and memory.when >= self.until):
            return "time"
        if self.started_by and memory.start > self.started_by:
            return "start"
        has = memory.metadata
        met = all(key in has and _equal_scalars(has[key], value) for key, value in self.metadata)
        return None if met else "metadata"


def _equal_scalars(a: Any, b: Scalar) -> bool:
    return bool(a == b) and isinstance(a, bool) == isinstance(b, bool)


MAX_QUERY_TEXT = 8000
"""A query is read to this many characters: its head and its tail. Reading more costs time and finds nothing more."""


def canonical_id(id: str) -> str:
    """An id in the form in which it is stored; a text that is no UUID stays as it is."""
    try:
        return str(UUID(id))
    except (ValueError, AttributeError, TypeError):
        return id


def check_name(name: str, value: Any) -> None:
    """Raise `Invalid` if this cannot be a name; None is allowed except for a profile."""
    if value is None and name != "profile":
        return
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_NAME:
        raise Invalid(f"{name}: a text of 1 to {MAX_NAME} characters, not {value!r:.80}")
    check_unicode(name, value)


def check_unicode(name: str, text: str) -> None:
    """Raise `Invalid` if this is not text, or contains half of a surrogate pair, which cannot be encoded.

    Python decodes each byte of an argument that is not UTF-8 to a second half (PEP 383).
    """
    if not isinstance(text, str):
        raise Invalid(f"{name}: it must be text, not {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        is_byte = "\udc80" <= text[error.start] <= "\udcff"
        problem = "is not valid UTF-8" if is_byte else "is half of a surrogate pair"
        raise Invalid(f"{name}: character {error.start + 1} {problem}") from None


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """What a recall looks for, in which scope, and how it ranks. The same value goes from the surface to the store.

    Of a text longer than `MAX_QUERY_TEXT`, its head and its tail are read. `Invalid` if it is not Unicode text.
    `exclude` are ids of memories that the caller already has. `vector` is the text's embedding, if the caller has it.
    Only memories that match `filter` are found, and of these only those that are current: now, or at the time `as_of`,
    which also leaves out what started later. `include_retired` finds those that are retired or expired too.
    """

    text: str
    scope: Scope
    tuning: Tuning
    now: datetime
    limit: int = 10
    exclude: tuple[str, ...] = ()
    vector: NDArray[float32] | None = None
    filter: Filter = Filter()
    as_of: datetime | None = None
    include_retired: bool = False

    def __post_init__(self) -> None:
        if self.as_of is not None and self.filter.started_by is None:
            object.__setattr__(self, "filter", replace(self.filter, started_by=self.as_of))
        text = self.text
        if len(text) > MAX_QUERY_TEXT:
            half = MAX_QUERY_TEXT // 2
            object.__setattr__(self, "text", text := f"{text[:half]}\n…\n{text[-half:]}")
        if not text.isascii():
            check_unicode("query", text)

    @property
    def current_at(self) -> datetime | None:
        """The time at which memories must be current to be found; None if they need not be."""
        return None if self.include_retired else self.as_of or self.now

    @property
    def pool(self) -> int:
        """How many candidates each retriever returns, of each kind that is asked for; all for a limit of 0 or less."""
        tuning = self.tuning
        factor = POOL_FACTOR if tuning.fusion == "full" else DEEP_POOL_FACTOR
        wanted = min(factor * self.limit, ALL) if self.limit > 0 else ALL
        return max(wanted, tuning.min_candidates, tuning.judge_depth if tuning.judge != "off" else 0)

    @property
    def depth(self) -> int:
        """How far down the semantic retriever reports scores: beyond the pool if scores are scaled."""
        scaled = self.tuning.fusion in ("full", "relative")
        return max(self.pool, SPREAD_DEPTH) if scaled else self.pool

    @property
    def centres(self) -> int:
        """Around how many of the best of each retriever neighbours are read; 0 if they do not affect the ranking.

        Twice as many as are wanted: neighbours of the others are hardly ever among the hits.
        """
        if not (self.tuning.neighbour_weight or self.tuning.session_weight):
            return 0
        return min(self.pool, max(2 * self.limit, MIN_CENTRES)) if self.limit > 0 else self.pool


class Candidate(NamedTuple):
    """A memory that a retriever found, with the retriever's score (larger is better)."""

    memory: Memory
    score: float


class LazyTuple(Sequence[T]):
    """A tuple that is made at its first read: a recall ranks hundreds of memories, and few are given out.

    It compares, hashes and pickles as a tuple.
    """

    __slots__ = ("_arguments", "_made", "_make")

    def __init__(self, make: Callable[..., Iterable[T]], *arguments: Any) -> None:
        """With the function that returns the items, and its arguments."""
        self._make, self._arguments = make, arguments
        self._made: tuple[T, ...] | None = None

    def __iter__(self) -> Iterator[T]:
        if self._made is None:
            self._made = tuple(self._make(*self._arguments))
        return iter(self._made)

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...

    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        return tuple(self)[index]

    def __len__(self) -> int:
        iter(self)  # makes it
        return len(self._made or ())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LazyTuple | tuple) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))

    def __reduce__(self) -> tuple[type[tuple[T, ...]], tuple[tuple[T, ...]]]:
        return tuple, (tuple(self),)


class Period(NamedTuple):
    """A period that a query is about, with the words of the query.

    `blur` is the distance at which a memory outside is still near: hours for "yesterday", days for "three weeks ago".
    `alone` is set if the query has nothing else: then it asks for what happened in the period.
    """

    start: datetime
    end: datetime
    text: str
    blur: timedelta
    alone: bool = False


class Reason(NamedTuple):
    """The effect of one ranking step on one hit. The changes of all reasons add up to the score.

    `rank` is the hit's rank by a retriever, `value` the input of the step: a retriever's score, an age, a quality.
    """

    step: str
    change: float
    score: float
    rank: int | None
    value: float | None
    template: str
    figures: tuple[float | str, ...] = ()

    @property
    def note(self) -> str:
        """The arithmetic as text, formatted when it is read."""
        return self.template.format(*self.figures)

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values."""
        return {
            "step": self.step,
            "change": self.change,
            "score": self.score,
            "rank": self.rank,
            "value": self.value,
            "note": self.note,
        }


class Hit(NamedTuple):
    """A memory in the result, with its score and the reason of every step.

    The score orders the hits of one result. `relevance` is the estimated probability, from 0 to 1, that the memory
    answers the query or helps; it can be compared across queries and stores. It is None if not read by the judge.
    """

    memory: Memory
    score: float
    why: Sequence[Reason] = ()
    rank: int = 0
    relevance: float | None = None

    @property
    def id(self) -> str:
        """The memory's id."""
        return self.memory.id

    def after(self, step: str, score: float, value: float | None, template: str, *figures: float | str) -> Hit:
        """Return this hit with the score that a step gave it, and the reason."""
        memory, before, why, rank, relevance = self
        reason = _new(Reason, (step, score - before, score, None, value, template, figures))
        return _new(Hit, (memory, score, (*why, reason), rank, relevance))

    def at(self, rank: int) -> Hit:
        """Return this hit with its rank in the result."""
        memory, score, why, _, relevance = self
        return _new(Hit, (memory, score, why, rank, relevance))

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values, with the memory's id beside the rank."""
        why = [reason.to_dict() for reason in self.why]
        own = {"rank": self.rank, "id": self.id, "score": self.score, "relevance": self.relevance}
        return {**own, "memory": self.memory.to_dict(), "why": why}

    def _repr_html_(self) -> str:
        """The hit with a bar for each ranking step, for notebooks."""
        from retentive.notebook import hit_html

        return hit_html(self)


@dataclass(frozen=True, slots=True)
class RetrieverReport(Serializable):
    """What one retriever of a recall did."""

    name: str
    weight: float
    ran: bool
    found: int = 0
    elapsed_ms: float = 0.0
    note: str = ""


def counted(count: int, one: str, many: str = "") -> str:
    """A number with its noun, such as "1 memory" or "1,200 memories"."""
    plural = many or (f"{one[:-1]}ies" if one.endswith("y") else f"{one}s")
    return f"{count:,} {one if count == 1 else plural}"


JOINERS = "\u200c\u200d"
"""The zero-width non-joiner and joiner: spelling in Persian and Indic scripts, and emoji of several parts."""


def without_controls(text: str, *, keep: str = "") -> str:
    """A text with a dot for each control character, also those of the direction of text, but the ones to keep.

    Joiners stay: they only choose the shape of the characters beside them.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in JOINERS or char in keep else "·" for char in text)


def snippet(text: str, width: int) -> str:
    """The start of a text on one line, without control characters: memory text is untrusted."""
    line = without_controls(" ".join(text.split()))
    return line if len(line) <= width else line[: width - 1] + "…"


@dataclass(frozen=True, slots=True)
class NamedPeriod(Serializable):
    """The period that was read from a query: its words there, its start, and its end, which is not in it."""

    words: str
    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class Recall(Serializable):
    """The result of a recall: hits, best first, how each retriever went, and whether anything was missing.

    `relevance` is the estimated probability, from 0 to 1, that anything stored helps to answer the query; no hit has a
    higher one. `period` is the one that the query names. It iterates over its hits, and `print` and notebooks show them
    as a table.
    """

    query: str
    hits: tuple[Hit, ...]
    retrievers: tuple[RetrieverReport, ...]
    relevance: float = 0.0
    degraded: str | None = None
    degraded_reason: str | None = None
    elapsed_ms: float = 0.0
    stages: Mapping[str, float] = field(default_factory=dict)
    dropped: Sequence[Hit] = ()
    period: NamedPeriod | None = None
    profile: str = field(default="", repr=False, compare=False, metadata={"internal": True})

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    @overload
    def __getitem__(self, index: int) -> Hit: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Hit, ...]: ...

    def __getitem__(self, index: int | slice) -> Hit | tuple[Hit, ...]:
        return self.hits[index]

    def __str__(self) -> str:
        rows = [f"{rank:>3}  {'  '.join(map(str, others))}" for rank, *others in self._rows(80)]
        notes = [f"{self.degraded}: {self.degraded_reason}"] if self.degraded else []
        return "\n".join([*notes, *(rows or [self.empty_note])])

    def _repr_html_(self) -> str:
        """The hits as an HTML table with bars, for notebooks. Every text is escaped."""
        from retentive.notebook import recall_html

        return recall_html(self)

    def to_pandas(self) -> Any:
        """Return the hits as a `pandas.DataFrame`: a row for each, with the change of every ranking step."""
        from retentive.notebook import to_pandas

        return to_pandas(self)

    def to_arrow(self) -> Any:
        """Return the hits as a `pyarrow.Table`, with the columns of `to_pandas`."""
        from retentive.notebook import to_arrow

        return to_arrow(self)

    @property
    def empty_note(self) -> str:
        """Why there are no hits."""
        irrelevant = any(hit.why and hit.why[-1].step == "min_relevance" for hit in self.dropped)
        return f"nothing relevant is stored (relevance {self.relevance:.0%})" if irrelevant else "no hits"

    def _rows(self, width: int) -> Iterator[tuple[int | str, ...]]:
        for hit in self.hits:
            worth = "–" if hit.relevance is None else f"{hit.relevance:.0%}"
            text = snippet(hit.memory.indexed_text, width)
            yield hit.rank, f"{worth:>4}", f"{hit.memory.when:%Y-%m-%d}", text


@dataclass(frozen=True, slots=True)
class Model(Serializable):
    """An embedding model. Vectors of different models are never compared."""

    name: str
    revision: str
    dimension: int
    fingerprint: str

    def __str__(self) -> str:
        return f"{self.name} ({self.dimension} d, {self.fingerprint[:8]})"


@dataclass(slots=True, eq=False)
class Work:
    """The work of one request. `caller` names the token that it came with; None is the owner of the store.

    `deadline` is when the caller needs the result, by `time.monotonic`: what can be left out is left out then.
    """

    caller: str | None = None
    cancelled: bool = False
    deadline: float | None = None

    def check(self) -> None:
        """Raise `Cancelled` if the caller no longer waits for the result."""
        if self.cancelled:
            raise Cancelled


_OWN = Work()
_CURRENT: ContextVar[Work] = ContextVar("work")


def begin_work() -> Work:
    """Return new work; it is the current one of this context and of the threads that run in a copy of it."""
    work = Work()
    _CURRENT.set(work)
    return work


def current_work() -> Work:
    """Return the work of this thread. Outside a request it is that of the owner, which nobody cancels."""
    return _CURRENT.get(_OWN)
