"""The write path: check a draft, embed it and store it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, TypedDict
from uuid import UUID

import numpy as np
import uuid_utils

from retentive.errors import Invalid, Refused, Unavailable
from retentive.inference.embedders import Embedder
from retentive.models import DEFAULT_PROFILE, KINDS, Kind, Memory, Scope, check_unicode
from retentive.ranking.duplicates import content_hash
from retentive.stores.base import IdempotencyKey, Record, Store, Vector

MAX_TEXT = 1_000_000
MAX_NAME = 500

MAX_PARTS = 256
"""A memory has vectors of at most this many parts of its text; the keyword retriever reads all of it."""

EMBED_BATCH = 64
"""How many texts are embedded in one call, so that progress can be reported and recalls get their turn."""


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

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], **defaults: Any) -> Draft:
        """A draft from plain values, such as a line of JSONL; an unknown field raises `Invalid`."""
        if not isinstance(values, Mapping):
            raise Invalid(f"a memory is an object with a text, not {type(values).__name__}")
        known = {item.name for item in fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise Invalid(f"there is no field '{unknown[0]}'; the fields are {', '.join(sorted(known))}")
        if "text" not in values:
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


class MemoryChanges(TypedDict, total=False):
    """The fields of a memory that can be changed, as keyword arguments."""

    text: str
    kind: Kind
    speaker: str | None
    importance: float
    metadata: Mapping[str, Any]
    source: str | None
    occurred: datetime | str | None
    evergreen: bool


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
    )


def request_fingerprint(request: Any) -> str:
    """A hash of a request, by which a repeated request is told from another one with the same idempotency key."""
    written = json.dumps(request, sort_keys=True, default=str)
    return hashlib.sha256(written.encode(errors="replace")).hexdigest()


def store_memories(
    store: Store,
    embedder: Embedder | None,
    memories: Sequence[Memory],
    *,
    idempotency_key: IdempotencyKey | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> list[Memory]:
    """Embed and store memories, all or none. Without a usable embedder they are stored without vectors."""
    usable = usable_embedder(store, embedder)
    vectors = embed_memories(usable, memories, progress=progress) if usable else [None] * len(memories)
    records = [Record(memory, rows) for memory, rows in zip(memories, vectors, strict=True)]
    embedded = usable is not None and any(rows is not None for rows in vectors)
    return store.add(records, model=usable.model if usable and embedded else None, idempotency_key=idempotency_key)


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
    if_version: str | None,
    within: Scope | None,
    idempotency_key: IdempotencyKey | None,
) -> Memory:
    """Change some fields of a memory and return it. It is embedded again if its text or speaker changed.

    `old` only serves to check the changes and to embed the text beforehand: the store changes the memory as it is at
    the moment of writing.
    """
    new = _changed(old, changes)
    fields = {*changes, "content_hash"} if "text" in changes else {*changes}
    usable = usable_embedder(store, embedder()) if fields & {"text", "speaker"} else None
    vectors = embed_memories(usable, [new])[0] if usable else None
    updated = store.update(
        Record(new, vectors),
        model=usable.model if usable else None,
        fields=fields,
        if_version=if_version,
        within=within,
        idempotency_key=idempotency_key,
    )
    if usable and vectors is not None and updated.indexed_text != new.indexed_text:
        # The text or the speaker was changed at the same time: these vectors were not of the text that came out.
        vectors = embed_memories(usable, [updated])[0]
        if vectors is not None:
            store.attach([Record(updated, vectors)], model=usable.model)
    return updated


def _changed(old: Memory, changes: MemoryChanges) -> Memory:
    """Check changes of a memory and return it with them."""
    changeable = MemoryChanges.__annotations__
    unknown = [name for name in changes if name not in changeable]
    if unknown:
        raise Invalid(f"'{unknown[0]}' cannot be changed; the fields that can are {', '.join(changeable)}")
    fields = {name: getattr(old, name) for name in ("id", "profile", "project", "session", "position", *changeable)}
    return to_memory(Draft(**{**fields, **changes}), now=old.created)


def embed_memories(
    embedder: Embedder,
    memories: Sequence[Memory],
    *,
    progress: Callable[[int], None] = lambda done: None,
    must_reach: bool = False,
) -> list[Vector | None]:
    """The vectors of each memory, one row for each of its parts; None for a memory whose text the embedder refuses.

    A text of more than `MAX_PARTS` parts has vectors of its first ones. `progress` is called with the number of texts
    embedded. If the embedder cannot be reached, all are None, or with `must_reach` it raises `Unavailable`.
    """
    parts = [embedder.split(memory.indexed_text)[:MAX_PARTS] for memory in memories]
    texts = [part for of_memory in parts for part in of_memory]
    rows: list[Vector | None] = []
    try:
        for at in range(0, len(texts), EMBED_BATCH):
            rows += _embed_texts(embedder, texts[at : at + EMBED_BATCH])
            progress(min(EMBED_BATCH, len(texts) - at))
    except Unavailable:
        if must_reach:
            raise
        return [None] * len(memories)
    found: list[Vector | None] = []
    at = 0
    for of_memory in parts:
        accepted = [row for row in rows[at : at + len(of_memory)] if row is not None]
        found.append(np.stack(accepted) if accepted else None)
        at += len(of_memory)
    return found


def _embed_texts(embedder: Embedder, texts: Sequence[str]) -> list[Vector | None]:
    """One row for each text; None for a text that the embedder refuses, which is found by halving the batch."""
    try:
        return list(embedder.embed(texts))
    except Refused:
        if len(texts) == 1:
            return [None]
    middle = len(texts) // 2
    return [*_embed_texts(embedder, texts[:middle]), *_embed_texts(embedder, texts[middle:])]


def to_time(value: datetime | str | None, name: str) -> datetime | None:
    """A time with a time zone, from a datetime or ISO 8601 text; without a zone it is UTC."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise Invalid(
                f"{name}: '{value}' is not a time; write it as 2026-05-08 or 2026-05-08T13:56:00+02:00"
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
    if not isinstance(text, str) or not text.strip():
        raise Invalid("text: a memory needs some text")
    if len(text) > MAX_TEXT:
        raise Invalid(f"text: {len(text):,} characters are too many for one memory, the most is {MAX_TEXT:,}; split it")
    check_unicode("text", text)


def check_name(name: str, value: Any) -> None:
    """Raise `Invalid` if this cannot be a name; None is allowed except for a profile."""
    if value is None and name != "profile":
        return
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_NAME:
        raise Invalid(f"{name}: a text of 1 to {MAX_NAME} characters, not {value!r:.80}")
    check_unicode(name, value)


def check_metadata(metadata: Any) -> None:
    if not isinstance(metadata, Mapping) or not all(isinstance(key, str) for key in metadata):
        raise Invalid("metadata: an object with text keys")
    try:
        json.dumps(dict(metadata), allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"metadata: cannot be written as JSON ({error})") from None


def _id(given: Any) -> str:
    if given is None:
        return str(uuid_utils.uuid7())
    try:
        return str(UUID(given))
    except (ValueError, AttributeError, TypeError):
        raise Invalid(f"id: {given!r:.80} is not a UUID; leave it out to have one made") from None
