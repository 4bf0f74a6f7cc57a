"""Rules that are the same in every store: scopes, versions and fields of an update, pages and cursors."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple, TypeVar
from uuid import UUID

from retentive.errors import Conflict, Invalid, NotFound, VersionConflict
from retentive.models import USE_FIELDS, Memory, Scope, counted
from retentive.stores.base import Scan
from retentive.stores.sql_codec import to_micros
from retentive.stores.values import IdempotencyKey, Page, Record, ScanPage

PAGE_BYTES = 8_000_000
"""A page ends after this many bytes of text, whatever its limit: a memory can have a million characters."""

_LAST = 2**63 - 1


class ListCursor(NamedTuple):
    """The last memory of a page: its time in microseconds since 1970, and its id. Lists go on after it."""

    time: int = _LAST
    id: str = ""

    def __str__(self) -> str:
        return f"{self.time}_{self.id}"


def cursor_of(memory: Memory) -> ListCursor:
    """The cursor after a memory."""
    return ListCursor(to_micros(memory.when) or 0, memory.id)


def parse_cursor(text: str | None) -> ListCursor:
    """The cursor that a page returned; None starts before the newest memory. `Invalid` if it is no cursor."""
    if text is None:
        return ListCursor()
    time, _, id = text.partition("_")
    try:
        cursor = ListCursor(int(time), str(UUID(id)))
        if str(cursor) == text and abs(cursor.time) <= _LAST:
            return cursor
    except ValueError:
        pass
    raise Invalid(f"cursor: {text!r:.80} was not returned with a page; leave it out to start with the newest memory")


_END = "\U0010ffff"
_PREFIX = re.compile(r"[0-9a-f-]{0,36}")


def prefix_range(prefix: str) -> tuple[str, str] | None:
    """The first and the last text that start with a prefix; None if no id does."""
    return (prefix, prefix + _END) if _PREFIX.fullmatch(prefix) else None


def page_length(sizes: Iterable[int], limit: int) -> int:
    """How many memories of these sizes make a page: at most `limit`, at least one, and no more after `PAGE_BYTES`."""
    count = total = 0
    for size in sizes:
        if count == limit or (count and total + size > PAGE_BYTES):
            break
        count, total = count + 1, total + size
    return count


AnyPage = TypeVar("AnyPage", Page, ScanPage)


def pages(read: Callable[[str | None], AnyPage]) -> Iterator[AnyPage]:
    """Yield all pages of a listing, of which `read` returns one by its cursor."""
    cursor: str | None = None
    while True:
        page = read(cursor)
        yield page
        cursor = page.next_cursor
        if cursor is None:
            return


def scan_pages(store: Scan, *, limit: int = 500) -> Iterator[ScanPage]:
    """Yield everything in a store, page by page."""
    return pages(lambda cursor: store.scan(cursor=cursor, limit=limit))


def is_within(memory: Memory, scope: Scope | None) -> bool:
    """Whether a memory is in a scope, with each session standing for itself alone."""
    return scope is None or (
        memory.profile == scope.profile
        and scope.project in (None, memory.project)
        and not (scope.outside_projects and memory.project is not None)
        and (scope.sessions is None or memory.session in scope.sessions)
        and (scope.kinds is None or memory.kind in scope.kinds)
    )


Project = TypeVar("Project", str | None, int)
"""A project by its name, or by its id; None or 0 is none."""


def home_of(session: str, project: Project, known: Collection[Project]) -> Project:
    """The project of the session into which a memory with this session and project goes.

    That is the project of the memory. If it has none, it is that of the session of this name: of the one that is in no
    project, or of the only one. `known` are the projects of the sessions of this name, or at least two of them with
    the one that is none. `Conflict` if there are several and each is in a project.
    """
    if project or not known:
        return project
    without = [one for one in known if not one]
    if not without and len(known) > 1:
        raise Conflict(f"there are several sessions '{session}', each in another project; name the project")
    return without[0] if without else next(iter(known))


def stays_in_session(memory: Memory, current: Memory) -> bool:
    """Whether an updated memory stays in its session: it names no other one, and no other project."""
    same = (memory.profile, memory.session) == (current.profile, current.session)
    return same and memory.session is not None and memory.project in (None, current.project)


def taken_name(session: str, project: str | None) -> Conflict:
    """Return the error for a session that is to move to where there is another one of its name."""
    where = "without a project" if project is None else f"in project '{project}'"
    return Conflict(f"there is another session '{session}' {where}; nothing was moved")


def no_session(session: str, profile: str, project: str | None) -> NotFound:
    """Return the error for a session that does not exist."""
    where = f"profile '{profile}'" if project is None else f"project '{project}'"
    return NotFound(f"there is no session '{session}' in {where}; see: retentive sessions")


CHANGEABLE = tuple(name for name in Memory._fields if name not in ("id", *USE_FIELDS))
"""The fields that an update changes if it names none."""


def merge_fields(current: Memory, record: Record, fields: Collection[str] | None) -> Memory:
    """A memory as it is stored, with some fields of a record."""
    changed = CHANGEABLE if fields is None else fields
    return current._replace(**{name: getattr(record.memory, name) for name in changed})


def check_version(memory: Memory, if_version: str | None) -> None:
    """Raise `VersionConflict` if the memory has another version than this."""
    if if_version is not None and if_version != memory.version:
        raise VersionConflict(
            f"memory {memory.id} has changed since it was read, its version is now {memory.version}; "
            "read it again and decide, nothing was changed"
        )


def check_versions(ids: Iterable[str], memories: Iterable[Memory], if_version: str | None) -> None:
    """Raise `VersionConflict` if a memory of these ids has another version than this, or is damaged and has none."""
    if if_version is None:
        return
    found = {memory.id: memory for memory in memories}
    for id in ids:
        if id not in found:
            raise VersionConflict(f"memory {id} is damaged and has no version; nothing was changed")
        check_version(found[id], if_version)


def is_sent_again(key: IdempotencyKey, fingerprint: str, micros: int | None) -> bool:
    """Whether the request recorded under a key at a time is this one. `Conflict` if it is another one.

    A key is known for a day; after that it is as one that was never used.
    """
    if (micros or 0) < (to_micros(key.expires_before) or 0):
        return False
    if key.fingerprint != fingerprint:
        raise Conflict("this idempotency key was used for another request; use a new one")
    return True


def stale_vectors(count: int) -> list[str]:
    """The problem that this many memories have vectors of another text, as a sentence of `Store.check`."""
    return (
        [f"{counted(count, 'memory has', 'memories have')} a vector of another text; run: retentive doctor --repair"]
        if count
        else []
    )


def no_store(place: str) -> NotFound:
    """Return the error for a place without a store. Only what writes creates one."""
    return NotFound(f"there is no store at {place}; check the address, or create it with: retentive remember TEXT")
