"""A store for LangGraph: what an agent puts under a namespace and a key is a memory, and is searched as one.

A store is one project of one profile, and a namespace is one session of it, named by the namespace written as JSON.
So a namespace is a scope that both searches apply, two namespaces never read as one, and a search names exactly the
sessions that it may see, or the project where these are all. An item's id follows from where it stands. An item that
is not indexed is of another kind, which no search asks for.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from datetime import datetime
from typing import Any, TypeGuard
from uuid import UUID, uuid5

from retentive.engine import Engine
from retentive.errors import Conflict, Invalid, MissingExtra, NotFound
from retentive.integrations.documents import confined
from retentive.integrations.langgraph_filters import fits, matches
from retentive.models import Kind, Memory
from retentive.pipeline.remember import MAX_NAME, to_time
from retentive.tenancy import ProfileView

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        InvalidNamespaceError,
        Item,
        ListNamespacesOp,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        get_text_at_path,
    )
except ImportError as error:
    raise MissingExtra("retentive.integrations.langgraph", "langgraph") from error

Namespace = tuple[str, ...]

IDS = UUID("0d6d3f0e-6f0b-5c5f-9a3e-5b1d1c4f7a52")
MARK = "langgraph"
INDEXED: Kind = "semantic"
NOT_INDEXED: Kind = "episodic"

# Items are no conversation: none gains from its neighbours, and two that say the same are still two.
OF_ITEMS = {"neighbour_weight": 0.0, "session_weight": 0.0, "dedup": False}


class RetentiveStore(BaseStore):
    """Keeps an agent's items in one project. `fields` are indexed where a put names none; `$` is the whole value.

    Values are what JSON can say. Items have no time to live. Parameters in `tuning` go over the engine's own.
    """

    def __init__(
        self,
        memory: Engine | ProfileView,
        *,
        project: str | None = None,
        fields: Sequence[str] = ("$",),
        tuning: Mapping[str, Any] | None = None,
    ) -> None:
        wall = confined(memory)
        self._project = project or wall.project or MARK
        if wall.project not in (None, self._project):
            raise NotFound(f"there is no project '{self._project}' for this caller")
        self._inside = ProfileView(wall.engine, wall.profile, project=self._project)
        self._fields = tuple(fields)
        self._tuning = {**OF_ITEMS, **(tuning or {})}

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """What each operation gives. Reads see the store as it was before; of two puts under a key the last counts."""
        results: list[Result] = []
        puts: dict[tuple[Namespace, str], PutOp] = {}
        for op in ops:
            if isinstance(op, PutOp):
                puts[op.namespace, op.key] = op
                results.append(None)
            else:
                results.append(self._read(op))
        self._put(puts.values())
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """As `batch`, on a worker thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _read(self, op: GetOp | SearchOp | ListNamespacesOp) -> Result:
        if isinstance(op, GetOp):
            return self._get(op)
        if isinstance(op, SearchOp):
            return self._search(op)
        if isinstance(op, ListNamespacesOp):
            return self._list_namespaces(op)
        raise ValueError(f"there is no operation {type(op).__name__}")

    # Where things are

    def _session(self, namespace: Namespace) -> str:
        """The session that is this namespace; the project is in it, for a session's name is unique in its profile."""
        if not all(isinstance(label, str) for label in namespace):
            raise InvalidNamespaceError(f"a namespace is made of texts, not {namespace!r:.80}")
        name = self._written(namespace)
        if len(name) > MAX_NAME:
            raise InvalidNamespaceError(f"a namespace of {len(name)} characters is too long, the most is {MAX_NAME}")
        return name

    def _written(self, namespace: Namespace) -> str:
        return json.dumps([self._project, *namespace], ensure_ascii=False)

    def _id(self, namespace: Namespace, key: str) -> str:
        return str(uuid5(IDS, json.dumps([self._inside.profile, self._project, namespace, key])))

    def _namespace(self, session: str) -> Namespace | None:
        """The namespace that this session is; None if it is none of this store."""
        try:
            labels = json.loads(session)
        except ValueError:
            return None
        if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
            return None
        namespace = tuple(labels[1:])
        return namespace if self._written(namespace) == session else None

    def _sessions(self) -> list[str]:
        """Every session of the project with something in it."""
        return [one.name for one in self._inside.sessions() if one.memories]

    def _below(self, prefix: Namespace, sessions: list[str]) -> list[str]:
        """Those of the sessions that are namespaces below a prefix."""
        # Names that begin otherwise are not read as JSON: a graph may have a namespace for each of its users.
        begins = self._written(prefix)[:-1]
        found = [(name, self._namespace(name)) for name in sessions if name.startswith(begins)]
        return [name for name, namespace in found if namespace is not None and namespace[: len(prefix)] == prefix]

    def _item(self, memory: Memory) -> dict[str, Any] | None:
        """A memory as the fields of an item, None if it is none; the value is the caller's to change.

        The namespace is told by the session alone: metadata is what anybody may have written.
        """
        kept, namespace = memory.metadata.get(MARK), self._namespace(memory.session or "")
        if namespace is None or not isinstance(kept, Mapping) or not isinstance(kept.get("value"), Mapping):
            return None
        return {
            "value": deepcopy(dict(kept["value"])),
            "key": str(kept.get("key")),
            "namespace": namespace,
            "created_at": memory.created,
            # What is put is written down before the memory is made, a moment earlier.
            "updated_at": max(_time(kept.get("updated")) or memory.created, memory.created),
        }

    # Reading

    def _get(self, op: GetOp) -> Item | None:
        try:
            memory = self._inside.get(self._id(op.namespace, op.key))
        except NotFound:
            return None
        item = self._item(memory)
        asked = (tuple(op.namespace), op.key)
        return Item(**item) if item and (item["namespace"], item["key"]) == asked else None

    def _search(self, op: SearchOp) -> list[SearchItem]:
        there = self._sessions()
        below = self._below(tuple(op.namespace_prefix), there)
        if not below or op.limit <= 0:
            return []

        # To name thousands of sessions takes seconds. Where they are all, the project alone says as much.
        sessions = below if len(below) < len(there) else None
        if op.query and op.query.strip():
            return self._recall(op, sessions)
        memories = sorted(self._all(sessions), key=lambda one: (one.created, one.session or "", one.position or 0))
        found = [SearchItem(**item) for item in map(self._item, memories) if _wanted(item, op)]
        return found[op.offset : op.offset + op.limit]

    def _recall(self, op: SearchOp, sessions: list[str] | None) -> list[SearchItem]:
        """The best that are wanted, asked for ever deeper until there are enough of them or no more."""
        enough = op.offset + op.limit
        depth = enough * 4 if op.filter else enough
        while True:
            hits = self._inside.recall(
                op.query or "",
                limit=depth,
                session=sessions,
                only_session=True,
                kinds=[INDEXED],
                tuning=self._tuning,
                record_use=False,
            ).hits
            items = [(self._item(hit.memory), hit.score) for hit in hits]
            found = [SearchItem(**item, score=score) for item, score in items if _wanted(item, op)]
            if len(found) >= enough or len(hits) < depth:
                return found[op.offset : enough]
            depth *= 4

    def _all(self, sessions: list[str] | None) -> Iterator[Memory]:
        cursor = None
        while True:
            page = self._inside.list(session=sessions, only_session=True, cursor=cursor, limit=1000)
            yield from page.memories
            cursor = page.next_cursor
            if cursor is None:
                return

    def _list_namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        conditions = op.match_conditions or ()
        there = [one for one in map(self._namespace, self._sessions()) if one is not None]
        found = {one[: op.max_depth] for one in there if all(fits(one, condition) for condition in conditions)}
        return sorted(found)[op.offset : op.offset + op.limit]

    # Writing

    def _put(self, ops: Iterable[PutOp]) -> None:
        asked = {self._id(op.namespace, op.key): op for op in ops}
        contents = {id: self._content(op) for id, op in asked.items() if op.value is not None}
        known = [id for id in contents if self._there(id)]
        added = [{"id": id, **content} for id, content in contents.items() if id not in known]
        try:
            self._inside.remember(added)
        except Conflict:  # another process was faster with one of them, and nothing was stored
            known = list(contents)
        for id in known:
            self._write(id, contents[id])
        self._inside.forget(*(asked.keys() - contents.keys()))

    def _write(self, id: str, content: dict[str, Any]) -> None:
        """Put one item in place of whatever is there, while others may do the same."""
        changes = {name: content[name] for name in ("text", "kind", "metadata")}
        for tries in range(5):
            try:
                self._inside.update(id, **changes)
                return
            except NotFound:
                pass
            try:
                self._inside.remember([{"id": id, **content}])
                return
            except Conflict:
                if tries == 4:
                    raise

    def _there(self, id: str) -> bool:
        try:
            self._inside.get(id)
        except NotFound:
            return False
        return True

    def _content(self, op: PutOp) -> dict[str, Any]:
        """An item as the contents of a memory."""
        fields = () if op.index is False else self._fields if op.index is None else op.index
        text = "\n".join(text for field in fields for text in _texts(op.value, field) if text.strip())
        return {
            # What is not indexed needs a text too, and must not be given away by it.
            "text": text or op.key if (text or op.key).strip() else "an item without a text",
            "kind": INDEXED if text else NOT_INDEXED,
            "session": self._session(op.namespace),
            "metadata": {
                MARK: {
                    "key": op.key,
                    "value": op.value,
                    "updated": self._inside.engine.now().isoformat(),
                }
            },
        }


def _texts(value: Any, field: str) -> list[str]:
    """The texts at a path; of the whole value, every leaf with the names that lead to it, for people write no JSON."""
    return list(_leaves(value, ())) if field == "$" else list(get_text_at_path(value, field))


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _leaves(part, (*path, str(name)))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _leaves(part, path)
    elif value is not None and str(value).strip():
        yield f"{' '.join(path)}: {value}"


def _wanted(item: Mapping[str, Any] | None, op: SearchOp) -> TypeGuard[Mapping[str, Any]]:
    return item is not None and matches(item["value"], op.filter or {})


def _time(written: Any) -> datetime | None:
    try:
        return to_time(written, "updated")
    except Invalid:
        return None
