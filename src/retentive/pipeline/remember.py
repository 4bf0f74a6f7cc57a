"""The write path: check a draft, embed it and store it."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import secrets
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any, TypedDict, get_args
from uuid import UUID

import numpy as np

from retentive.errors import Invalid, Refused, RetentiveError, Unavailable
from retentive.inference.embedders import Embedder
from retentive.inference.judge import Judge
from retentive.models import (
    DEFAULT_PROFILE,
    FACT_FIELDS,
    KINDS,
    Kind,
    Memory,
    Scope,
    canonical_id,
    check_name,
    check_unicode,
    current_work,
    indexed_text,
)
from retentive.pipeline.standing_rules import mark_again
from retentive.stores.base import Store
from retentive.stores.values import Duplicates, IdempotencyKey, OnDuplicate, PreviousTurn, Record, Vector
from retentive.text.normal_form import content_hash
from retentive.text.secrets import without_secrets

log = logging.getLogger(__name__)

MAX_TEXT = 1_000_000

MAX_KEY = 500
"""Characters of an idempotency key."""

MAX_DEPTH = 100
"""Levels of objects and lists in metadata."""

MAX_PARTS = 256
"""A memory has vectors of at most this many parts of its text; the keyword retriever reads all of it."""

EMBED_BATCH = 64
"""How many texts are embedded in one call, so that progress can be reported and recalls get their turn."""


CHANGE = re.compile(
    r"\b(moved? (?:to|into|from|out)|moving to|no longer|not any ?more|any ?more|actually|used to|changed|"
    r"switched (?:to|from|over)|instead of|rather than|stopped|gave up|quit|left (?:my|his|her|their|the)|"
    r"from now on|these days|correction|turns out|new (?:address|job|phone|number|email|car|name))\b",
    re.IGNORECASE,
)
"""Phrases by which a text says that something has changed."""

SUGGESTED = 10
"""A write of more memories than this suggests nothing: it is an import."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A memory to store. Only the text is required."""

    text: str
    id: str | None = None
    profile: str = DEFAULT_PROFILE
    project: str | None = None
    session: str | None = None
    position: int | None = None
    kind: Kind = "episodic"
    speaker: str | None = None
    importance: float = 0.5
    metadata: Mapping[str, Any] = field(default_factory=dict)
    source: str | None = None
    created: datetime | str | None = None
    occurred: datetime | str | None = None
    evergreen: bool = False
    key: str | None = None
    valid_from: datetime | str | None = None
    valid_to: datetime | str | None = None
    superseded_by: str | None = None
    reason: str | None = None
    actor: str | None = None
    expires: datetime | timedelta | str | None = None

    def to_fields(self) -> dict[str, Any]:
        """The fields by name; their values are not copied."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], **defaults: Any) -> Draft:
        """A draft from plain values, such as a line of JSONL; an unknown field raises `Invalid`."""
        if not isinstance(values, Mapping):
            raise Invalid(f"a memory is an object with a text, not {type(values).__name__}")
        names = {item.name for item in fields(cls)}
        unknown = sorted(set(values) - names)
        if unknown:
            raise Invalid(f"there is no field '{unknown[0]}'; the fields are {', '.join(sorted(names))}")
        if values.get("text") is None:
            raise Invalid("a memory needs a text")
        return cls(**{**defaults, **{name: value for name, value in values.items() if value is not None}})


class DraftFields(TypedDict, total=False):
    """The fields of `Draft` beside its text, as keyword arguments."""

    id: str | None
    profile: str
    project: str | None
    session: str | None
    position: int | None
    kind: Kind
    speaker: str | None
    importance: float
    metadata: Mapping[str, Any]
    source: str | None
    created: datetime | str | None
    occurred: datetime | str | None
    evergreen: bool
    key: str | None
    valid_from: datetime | str | None
    valid_to: datetime | str | None
    superseded_by: str | None
    reason: str | None
    actor: str | None
    expires: datetime | timedelta | str | None


class MemoryChanges(TypedDict, total=False):
    """The fields of a memory that can be changed, as keyword arguments."""

    text: str
    kind: Kind
    project: str | None
    session: str | None
    speaker: str | None
    importance: float
    metadata: Mapping[str, Any]
    source: str | None
    occurred: datetime | str | None
    evergreen: bool
    key: str | None
    valid_from: datetime | str | None
    expires: datetime | timedelta | str | None


def to_memory(draft: Draft, *, now: datetime) -> Memory:
    """Check a draft and make a memory of it, with an id and a time."""
    _check(draft)
    return Memory(
        id=_id(draft.id),
        text=draft.text,
        created=to_time(draft.created, "created") or now,
        profile=draft.profile,
        project=draft.project,
        session=draft.session,
        position=draft.position,
        kind=draft.kind,
        speaker=draft.speaker,
        importance=float(draft.importance),
        metadata=dict(draft.metadata),
        source=draft.source,
        occurred=to_time(draft.occurred, "occurred"),
        evergreen=draft.evergreen,
        content_hash=content_hash(draft.text),
        **to_facts(draft, now=now),
    )


def redacted(draft: Draft) -> Draft:
    """A draft without the secrets of its text. `Invalid` if all of it is private."""
    given: Any = draft.text
    if not isinstance(given, str) or (text := without_secrets(given)) == given:
        return draft
    if not text:
        raise Invalid("text: all of it is private, so nothing is stored")
    return replace(draft, text=text)


def to_drafts(drafts: Iterable[Draft | Mapping[str, Any]], *, profile: str) -> list[Draft]:
    """Drafts, made of plain values where they are not drafts; without a profile, in this one."""
    return [draft if isinstance(draft, Draft) else Draft.from_dict(draft, profile=profile) for draft in drafts]


def to_ids(ids: Sequence[str], *, if_version: str | None) -> tuple[str, ...]:
    """The ids of memories to forget, checked."""
    if if_version is not None and len(ids) != 1:
        raise Invalid("if_version: a version is that of one memory; forget the others without it")
    for id in ids:
        if not isinstance(id, str):
            raise Invalid(f"ids: an id is text, not {type(id).__name__}; pass several as forget(*ids)")
    return tuple(map(canonical_id, ids))


def tell_of_change(stored: Sequence[Memory], memories: Sequence[Memory]) -> list[Memory]:
    """The memories of a write that are new and say that something has changed; none if it is an import."""
    if len(stored) > SUGGESTED:
        return []
    new = {memory.id for memory in memories}
    return [one for one in {one.id: one for one in stored}.values() if one.id in new and CHANGE.search(one.text)]


def to_duplicates(on_duplicate: OnDuplicate, now: datetime) -> Duplicates | None:
    """What a store does with texts that it has already. `Invalid` if this is not one of the choices."""
    if on_duplicate not in get_args(OnDuplicate):
        raise Invalid(f"on_duplicate: one of {', '.join(get_args(OnDuplicate))}, not '{on_duplicate}'")
    return None if on_duplicate == "keep" else Duplicates(on_duplicate, now)


def to_idempotency_key(name: str, request: Any, now: datetime) -> IdempotencyKey:
    """The key of a request, with a hash by which the same request is told from another one."""
    check_unicode("idempotency_key", name)
    if len(name) > MAX_KEY:
        raise Invalid(f"idempotency_key: at most {MAX_KEY} characters")
    try:
        written = json.dumps(request, sort_keys=True, default=str)
    except (TypeError, ValueError) as error:  # keys of several types, or a value that contains itself
        raise Invalid(f"this is not valid JSON: {error}") from None
    return IdempotencyKey(name, hashlib.sha256(written.encode(errors="replace")).hexdigest(), now)


def store_memories(
    store: Store,
    embedder: Callable[[], Embedder | None],
    memories: Sequence[Memory],
    *,
    idempotency_key: IdempotencyKey | None = None,
    duplicates: Duplicates | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> list[Memory]:
    """Embed and store memories, all or none. Without a usable embedder they are stored without vectors."""
    usable = usable_embedder(store, embedder())
    records = [Record(memory) for memory in memories]
    if usable:
        records = embed_memories(usable, memories, turns=turns_before(store, usable, memories), progress=progress)
    embedded = any(record.vectors is not None for record in records)
    model = usable.model if usable and embedded else None
    stored = store.add(records, model=model, idempotency_key=idempotency_key, duplicates=duplicates)
    if usable and any(memory.session and memory.position is not None for memory in memories):
        embed_following(store, usable, stored)
    return stored


def usable_embedder(store: Store, embedder: Embedder | None) -> Embedder | None:
    """The embedder, if there is one and the store's vectors are of the same model."""
    if embedder is None:
        return None
    try:
        model = store.model()
        return embedder if model is None or model.fingerprint == embedder.model.fingerprint else None
    except Unavailable:
        return None


def update_memory(
    store: Store,
    embedder: Callable[[], Embedder | None],
    old: Memory,
    changes: MemoryChanges,
    *,
    judge: Judge | None,
    now: datetime,
    if_version: str | None,
    within: Scope | None,
    idempotency_key: IdempotencyKey | None,
) -> Memory:
    """Change some fields of a memory and return it. It is embedded again if its text, speaker or session changed.

    `old` only serves to check the changes and to embed the text beforehand: the store changes the memory as it is at
    the moment of writing.
    """
    new = _changed(old, changes, now)
    fields = {*changes, "content_hash"} if "text" in changes else {*changes}
    if new.text != old.text:
        plain = new.metadata
        new = mark_again(old, new, changes.get("metadata"), judge)
        fields |= {"metadata"} if new.metadata != plain else set()
    moved = fields & {"project", "session"}
    usable = usable_embedder(store, embedder()) if moved or fields & {"text", "speaker"} else None
    [record] = _embedded(store, usable, new) if usable else [Record(new)]
    updated = store.update(
        record,
        model=usable.model if usable else None,
        fields=fields,
        if_version=if_version,
        within=within,
        idempotency_key=idempotency_key,
    )
    if usable and record.vectors is not None and (moved or updated.indexed_text != new.indexed_text):
        # Another turn is before it now, or its text was changed at the same time: its vectors were of other texts.
        records = _embedded(store, usable, updated)
        if records[0].vectors is not None:
            store.attach(records, model=usable.model)
    if usable and updated.session:
        embed_following(store, usable, [updated])
    return updated


def forget_memories(
    store: Store,
    embedder: Callable[[], Embedder | None],
    ids: Sequence[str],
    *,
    if_version: str | None,
    within: Scope | None,
    idempotency_key: IdempotencyKey | None,
) -> list[str]:
    """Delete memories and return the ids of those that existed. The turns after them are embedded again."""
    turns = [memory for memory in store.get(ids, within=within) if memory.session is not None]
    removed = store.remove(ids, within=within, if_version=if_version, idempotency_key=idempotency_key)
    try:
        if turns and any(store.following(turns)):
            usable = usable_embedder(store, embedder())
            if usable:
                embed_following(store, usable, turns)
    except RetentiveError as error:
        log.warning("the turns after those that were forgotten have no vector until `retentive reembed`: %s", error)
    return removed


def embed_following(store: Store, embedder: Embedder, memories: Sequence[Memory]) -> None:
    """Embed the turns after these again, if they were not embedded together.

    These were stored or changed later, or they were deleted, and with them the vectors that contained their texts.
    """
    if not embedder.reads_context:
        return
    given = {memory.id for memory in memories}
    turns = {turn.id: turn for turn in store.following(memories) if turn is not None and turn.id not in given}
    after = [turn for turn in turns.values() if turn.kind == "episodic"]
    if after:
        records = embed_memories(embedder, after, turns=turns_before(store, embedder, after, stored=True))
        store.attach([record for record in records if record.vectors is not None], model=embedder.model)


def _embedded(store: Store, embedder: Embedder, memory: Memory) -> list[Record]:
    return embed_memories(embedder, [memory], turns=turns_before(store, embedder, [memory]))


def _changed(old: Memory, changes: MemoryChanges, now: datetime) -> Memory:
    """Check changes of a memory and return it with them."""
    changeable = MemoryChanges.__annotations__
    unknown = [name for name in changes if name not in changeable]
    if unknown:
        raise Invalid(f"'{unknown[0]}' cannot be changed; the fields that can are {', '.join(changeable)}")
    fields = {name: getattr(old, name) for name in ("id", "profile", *changeable)}
    # The store has given its position, which may be beyond those that a caller can give.
    return to_memory(Draft(**{**fields, **changes}), now=now)._replace(position=old.position)


def embed_memories(
    embedder: Embedder,
    memories: Sequence[Memory],
    *,
    turns: Sequence[Memory | None] = (),
    progress: Callable[[int], None] = lambda done: None,
    must_reach: bool = False,
) -> list[Record]:
    """The vectors of each memory, one row for each of its parts; none for a memory whose text the embedder refuses.

    A text of more than `MAX_PARTS` parts has vectors of its first ones. `turns` are the turns before the memories, if
    any: a short turn then has a vector of both texts, and alone only if it is very short. `progress` is called with the
    number of texts embedded. If the embedder cannot be reached, no memory has vectors, or with `must_reach` it raises
    `Unavailable`.
    """
    parts = [_parts(embedder, memory) for memory in memories]
    pairs: list[PreviousTurn | None] = [None] * len(memories)
    for place, (memory, turn) in enumerate(zip(memories, turns, strict=False)):
        text = embedder.in_context(memory.indexed_text, turn.indexed_text) if turn else None
        if turn and text:
            parts[place] = [*parts[place], text] if embedder.reads_alone(memory.indexed_text) else [text]
            pairs[place] = PreviousTurn(turn.id, turn.text_hash)
    texts = [part for of_memory in parts for part in of_memory]
    rows: list[Vector | None] = []
    try:
        for start in range(0, len(texts), EMBED_BATCH):
            if start:  # a request that is embedded at once is stored even if its caller has left
                current_work().check()
            rows += _embed_texts(embedder, texts[start : start + EMBED_BATCH])
            progress(min(EMBED_BATCH, len(texts) - start))
    except Unavailable:
        if must_reach:
            raise
        return [Record(memory) for memory in memories]
    embedded = []
    start = 0
    for memory, of_memory, pair in zip(memories, parts, pairs, strict=True):
        own = rows[start : start + len(of_memory)]
        accepted = [row for row in own if row is not None]
        with_turn = own[-1] is not None
        embedded.append(Record(memory, np.array(accepted), pair if with_turn else None) if accepted else Record(memory))
        start += len(of_memory)
    return embedded


def _parts(embedder: Embedder, memory: Memory) -> list[str]:
    """The parts of a memory's text that are embedded. Each begins with the speaker, as the text does.

    A part without its speaker is as near to a query as one that another person said (measured on LongMemEval).
    """
    first, *later = embedder.split(memory.indexed_text)[:MAX_PARTS]
    return [first, *(indexed_text(part, memory.speaker) for part in later)]


def turns_before(
    store: Store, embedder: Embedder, memories: Sequence[Memory], *, stored: bool = False, exact: bool = False
) -> list[Memory | None]:
    """The turn before each memory in its session, if the embedder reads turns with the one before them.

    It is one of these memories or one that is stored, whichever is nearer; if they are `stored` themselves, the store
    knows. Only episodes have one: a fact is understood alone. `exact` is as in `Memories.add`.
    """
    turns: list[Memory | None] = [None] * len(memories)
    if not embedder.reads_context:
        return turns
    if not stored:
        turns = _turns_among(memories)
    named = {(other.profile, other.session) for other in memories if other.project is not None}
    unknown = []  # of the store
    for place, memory in enumerate(memories):
        # The session of a memory without a project may be that of one of these memories.
        is_certain = stored or exact or memory.project or (memory.profile, memory.session) not in named
        is_last = memory.position is None and turns[place] is not None
        if memory.session is not None and memory.kind == "episodic" and is_certain and not is_last:
            unknown.append(place)
    for place, turn in zip(
        unknown, store.previous([memories[place] for place in unknown]) if unknown else (), strict=True
    ):
        of_project = turn is not None and (not exact or turn.project == memories[place].project)
        if turn is not None and of_project and (turn.position or 0) >= _position_of(turns[place]):
            turns[place] = turn
    return turns


def _turns_among(memories: Sequence[Memory]) -> list[Memory | None]:
    """The turn before each of these memories among them: by position, or without one the turn that was given before."""
    placed: dict[tuple[str, str | None, str], list[tuple[int, Memory]]] = {}
    for memory in memories:
        if memory.session is not None and memory.position is not None:
            session = memory.profile, memory.project, memory.session
            placed.setdefault(session, []).append((memory.position, memory))
    for turns in placed.values():
        turns.sort(key=itemgetter(0))
    last: dict[tuple[str, str | None, str], Memory] = {}
    found: list[Memory | None] = []
    for memory in memories:
        turn = None
        if memory.session is not None:
            session = memory.profile, memory.project, memory.session
            if memory.position is None:
                turn = last.get(session)
            elif place := bisect_left(placed[session], memory.position, key=itemgetter(0)):
                turn = placed[session][place - 1][1]
            last[session] = memory
        found.append(turn if memory.kind == "episodic" else None)
    return found


def _position_of(turn: Memory | None) -> int:
    return -1 if turn is None else turn.position or 0


def _embed_texts(embedder: Embedder, texts: Sequence[str]) -> list[Vector | None]:
    """One row for each text; None for a text that the embedder refuses, which is found by halving the batch."""
    try:
        return list(embedder.embed(texts))
    except Refused:
        if len(texts) == 1:
            return [None]
    middle = len(texts) // 2
    return [*_embed_texts(embedder, texts[:middle]), *_embed_texts(embedder, texts[middle:])]


def to_facts(draft: Draft, *, now: datetime) -> dict[str, Any]:
    """Check the fields of a draft about its validity, those that are given. `expires` may be a duration from now on."""
    given = {name: value for name in FACT_FIELDS if (value := getattr(draft, name)) is not None}
    for name in ("key", "reason", "actor"):
        check_name(name, given.get(name))
    for name in ("valid_from", "valid_to"):
        if name in given:
            given[name] = to_time(given[name], name)
    if "expires" in given:
        given["expires"] = to_expiry(given["expires"], now=now)
    if "superseded_by" in given:
        given["superseded_by"] = _id(given["superseded_by"], "superseded_by")
    return given


_DURATION = re.compile(r"\s*(\d{1,6})\s*([smhdw])\s*")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def to_expiry(value: Any, *, now: datetime) -> datetime | None:
    """A time, or a duration from now on: a `timedelta`, or text such as 90m, 12h, 30d or 2w."""
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is not None:
        value = timedelta(**{_UNITS[match[2]]: int(match[1])})
    if not isinstance(value, timedelta):
        return to_time(value, "expires", also=", or a duration from now on as 90m, 12h, 30d or 2w")
    try:
        return now + value
    except OverflowError:
        raise Invalid("expires: a duration that ends before the year 10000") from None


def to_time(value: datetime | str | None, name: str, *, also: str = "") -> datetime | None:
    """A time with a time zone, from a datetime or ISO 8601 text; without a zone it is UTC.

    `also` is what else a message names as valid.
    """
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise Invalid(
                f"{name}: '{value}' is not a time; write it as 2026-05-08 or 2026-05-08T13:56:00+02:00{also}"
            ) from None
    if value is None:
        return None
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else _storable(value, name)
    raise Invalid(f"{name}: a time is text in ISO 8601, not {type(value).__name__}")


def _storable(time: datetime, name: str) -> datetime:
    try:
        time.astimezone(UTC)
    except OverflowError:
        raise Invalid(f"{name}: a time between the years 1 and 9999 in UTC, not {time}") from None
    return time


def _check(draft: Draft) -> None:
    _check_text(draft.text)
    for name in ("profile", "project", "session", "speaker", "source"):
        check_name(name, getattr(draft, name))
    if draft.kind not in KINDS:
        raise Invalid(f"kind: '{draft.kind}' is not one of {', '.join(KINDS)}")
    importance: Any = draft.importance
    if isinstance(importance, bool) or not isinstance(importance, int | float) or not 0 <= importance <= 1:
        raise Invalid(f"importance: a number from 0 to 1, not {importance!r}")
    if not isinstance(draft.evergreen, bool):
        raise Invalid(f"evergreen: true or false, not {draft.evergreen!r}")
    if draft.position is not None and (type(draft.position) is not int or not 0 <= draft.position < 2**53):
        raise Invalid(f"position: a whole number from 0, not {draft.position!r}")
    if draft.metadata != {}:
        check_metadata(draft.metadata)


def _check_text(text: Any) -> None:
    if not isinstance(text, str):
        raise Invalid(f"text: it must be a string, not {type(text).__name__}")
    if not text.strip():
        raise Invalid("text: a memory needs some text")
    if len(text) > MAX_TEXT:
        raise Invalid(f"text: {len(text):,} characters are too many for one memory, the most is {MAX_TEXT:,}; split it")
    check_unicode("text", text)


def check_metadata(metadata: Any) -> None:
    if not isinstance(metadata, Mapping) or not all(isinstance(key, str) for key in metadata):
        raise Invalid("metadata: an object with text keys")
    if _depth_exceeds(metadata, MAX_DEPTH):
        raise Invalid(f"metadata: nested more than {MAX_DEPTH} levels deep")
    try:
        json.dumps(dict(metadata), allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"metadata: cannot be written as JSON ({error})") from None


def _depth_exceeds(value: Any, most: int) -> bool:
    """Whether objects and lists are nested more deeply; also true of a value that contains itself."""
    level = [value]
    for _ in range(most):
        inner = (one.values() if isinstance(one, Mapping) else one for one in level)
        level = [part for one in inner for part in one if isinstance(part, Mapping | list | tuple)]
        if not level:
            return False
    return True


def _id(given: Any, name: str = "id") -> str:
    if given is None:
        return new_id()
    try:
        return str(UUID(given))
    except (ValueError, AttributeError, TypeError):
        raise Invalid(f"{name}: {given!r:.80} is not a UUID; leave it out to have one made") from None


class _Clock:
    """Milliseconds with a counter of 12 bits, which never give the same pair twice in a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = (0, 0)

    def tick(self) -> tuple[int, int]:
        now = time.time_ns() // 1_000_000
        with self._lock:
            last, count = self._last
            self._last = (now, 0) if now > last else (last + (count + 1) // 4096, (count + 1) % 4096)
            return self._last


_CLOCK = _Clock()


def new_id() -> str:
    """Return a UUID of version 7: ids of a process sort by the order in which they were made.

    The counter stands right behind the time, so that ids of one millisecond differ in their first 18 characters.
    """
    milliseconds, count = _CLOCK.tick()
    digits = f"{milliseconds << 80 | 7 << 76 | count << 64 | 2 << 62 | secrets.randbits(62):032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
