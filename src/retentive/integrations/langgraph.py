"""A store for LangGraph: each item, under a namespace and a key, is a memory and is searched as one.

A store is one project of one profile. A namespace is one session of it, whose name is the namespace as JSON; so a
search is limited to exactly the sessions below its prefix, or to the project if these are all. The id of an item is
derived from its profile, project, namespace and key. An item that is not indexed has another kind, which no search
includes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from datetime import datetime
from typing import Any, TypeGuard
from uuid import UUID, uuid5

from retentive.engine import Engine
from retentive.errors import Conflict, Invalid, NotFound
from retentive.extras import needs_extra
from retentive.integrations.documents import profile_view
from retentive.models import MAX_NAME, Kind, Memory
from retentive.pipeline.remember import to_time
from retentive.stores.rules import pages
from retentive.tenancy import ProfileView

with needs_extra("retentive.integrations.langgraph", "langgraph"):
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        InvalidNamespaceError,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        get_text_at_path,
    )

Namespace = tuple[str, ...]

IDS = UUID("0d6d3f0e-6f0b-5c5f-9a3e-5b1d1c4f7a52")
MARK = "langgraph"
INDEXED: Kind = "semantic"
NOT_INDEXED: Kind = "episodic"

# Items are not a conversation: neighbours do not affect their rank, and equal items are not duplicates.
ITEM_TUNING = {"neighbour_weight": 0.0, "session_weight": 0.0, "dedup": False}


class RetentiveStore(BaseStore):
    """Stores items in one project. `fields` are indexed if a put names none; `$` is the whole value.

    Values must be JSON. Items have no time to live. Parameters in `tuning` override those in effect.
    """

    def __init__(
        self,
        memory: Engine | ProfileView,
        *,
        project: str | None = None,
        fields: Sequence[str] = ("$",),
        tuning: Mapping[str, Any] | None = None,
    ) -> None:
        given = profile_view(memory)
        self._project = project or given.project or MARK
        if given.project not in (None, self._project):
            raise NotFound(f"there is no project '{self._project}' for this caller")
        self._view = ProfileView(given.engine, given.profile, project=self._project)
        self._fields = tuple(fields)
        self._tuning = {**ITEM_TUNING, **(tuning or {})}

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations and return their results. Reads do not see the puts; the last put to a key is stored."""
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
        """Run operations on a worker thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _read(self, op: GetOp | SearchOp | ListNamespacesOp) -> Result:
        if isinstance(op, GetOp):
            return self._get(op)
        if isinstance(op, SearchOp):
            return self._search(op)
        if isinstance(op, ListNamespacesOp):
            return self._list_namespaces(op)
        raise ValueError(f"there is no operation {type(op).__name__}")

    # Names and ids

    def _session(self, namespace: Namespace) -> str:
        """The session of a namespace. Its name includes the project."""
        if not all(isinstance(label, str) for label in namespace):
            raise InvalidNamespaceError(f"the labels of a namespace are strings, not {namespace!r:.80}")
        name = self._session_name(namespace)
        if len(name) > MAX_NAME:
            raise InvalidNamespaceError(f"a namespace of {len(name)} characters is too long; the maximum is {MAX_NAME}")
        return name

    def _session_name(self, namespace: Namespace) -> str:
        return json.dumps([self._project, *namespace], ensure_ascii=False)

    def _id(self, namespace: Namespace, key: str) -> str:
        return str(uuid5(IDS, json.dumps([self._view.profile, self._project, namespace, key])))

    def _namespace(self, session: str) -> Namespace | None:
        """The namespace of a session; None if it is not one of this store."""
        try:
            labels = json.loads(session)
        except ValueError:
            return None
        if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
            return None
        namespace = tuple(labels[1:])
        return namespace if self._session_name(namespace) == session else None

    def _sessions(self) -> list[str]:
        """The sessions of the project that have memories."""
        return [one.name for one in self._view.sessions() if one.memories]

    def _below(self, prefix: Namespace, sessions: list[str]) -> list[str]:
        """The sessions whose namespaces are below a prefix."""
        # Other names are not parsed as JSON: a graph may have a namespace for each of its users.
        start = self._session_name(prefix)[:-1]
        found = [(name, self._namespace(name)) for name in sessions if name.startswith(start)]
        return [name for name, namespace in found if namespace is not None and namespace[: len(prefix)] == prefix]

    def _item(self, memory: Memory) -> dict[str, Any] | None:
        """The fields of an item; None if the memory is not one. The value is a copy.

        The namespace is taken from the session, because metadata can be written by anybody.
        """
        stored, namespace = memory.metadata.get(MARK), self._namespace(memory.session or "")
        if namespace is None or not isinstance(stored, Mapping) or not isinstance(stored.get("value"), Mapping):
            return None
        return {
            "value": deepcopy(dict(stored["value"])),
            "key": str(stored.get("key")),
            "namespace": namespace,
            "created_at": memory.created,
            # "updated" is written a moment before the memory is created.
            "updated_at": max(_time(stored.get("updated")) or memory.created, memory.created),
        }

    # Read

    def _get(self, op: GetOp) -> Item | None:
        try:
            memory = self._view.get(self._id(op.namespace, op.key))
        except NotFound:
            return None
        item = self._item(memory)
        wanted = (tuple(op.namespace), op.key)
        return Item(**item) if item and (item["namespace"], item["key"]) == wanted else None

    def _search(self, op: SearchOp) -> list[SearchItem]:
        existing = self._sessions()
        below = self._below(tuple(op.namespace_prefix), existing)
        if not below or op.limit <= 0:
            return []
        # A scope of thousands of sessions takes seconds. If they are all, the project is enough.
        sessions = below if len(below) < len(existing) else None
        if op.query and op.query.strip():
            return self._recall(op, sessions)
        memories = sorted(self._all(sessions), key=lambda one: (one.created, one.session or "", one.position or 0))
        found = [SearchItem(**item) for item in map(self._item, memories) if _matches(item, op)]
        return found[op.offset : op.offset + op.limit]

    def _recall(self, op: SearchOp, sessions: list[str] | None) -> list[SearchItem]:
        """Return the best items that match the filter; the limit grows until there are enough of them or no more."""
        enough = op.offset + op.limit
        depth = enough * 4 if op.filter else enough
        while True:
            hits = self._view.recall(
                op.query or "",
                limit=depth,
                session=sessions,
                only_session=True,
                kinds=[INDEXED],
                tuning=self._tuning,
                record_use=False,
            ).hits
            items = [(self._item(hit.memory), hit.score) for hit in hits]
            found = [SearchItem(**item, score=score) for item, score in items if _matches(item, op)]
            if len(found) >= enough or len(hits) < depth:
                return found[op.offset : enough]
            depth *= 4

    def _all(self, sessions: list[str] | None) -> Iterator[Memory]:
        for page in pages(
            lambda cursor: self._view.list(session=sessions, only_session=True, cursor=cursor, limit=1000)
        ):
            yield from page.memories

    def _list_namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        conditions = op.match_conditions or ()
        existing = [one for one in map(self._namespace, self._sessions()) if one is not None]
        found = {one[: op.max_depth] for one in existing if all(matches_condition(one, each) for each in conditions)}
        return sorted(found)[op.offset : op.offset + op.limit]

    # Write

    def _put(self, ops: Iterable[PutOp]) -> None:
        puts = {self._id(op.namespace, op.key): op for op in ops}
        contents = {id: self._content(op) for id, op in puts.items() if op.value is not None}
        stored = self._view.engine.get_many(list(contents), within=self._view.within)
        known = [memory.id for memory in stored]
        added = [{"id": id, **content} for id, content in contents.items() if id not in known]
        try:
            self._view.remember(added)
        except Conflict:  # another process has added one of them, and nothing was stored
            known = list(contents)
        for id in known:
            self._write(id, contents[id])
        self._view.forget(*(puts.keys() - contents.keys()))

    def _write(self, id: str, content: dict[str, Any]) -> None:
        """Replace or add one item, while other processes may do the same."""
        changes = {name: content[name] for name in ("text", "kind", "metadata")}
        for tries in range(5):
            try:
                self._view.update(id, **changes)
                return
            except NotFound:
                pass
            try:
                self._view.remember([{"id": id, **content}])
                return
            except Conflict:
                if tries == 4:
                    raise

    def _content(self, op: PutOp) -> dict[str, Any]:
        """The fields of the memory for an item."""
        fields = () if op.index is False else self._fields if op.index is None else op.index
        text = "\n".join(text for field in fields for text in _texts(op.value, field) if text.strip())
        return {
            # A memory needs a text, and that of an item that is not indexed must not contain its value.
            "text": text or op.key if (text or op.key).strip() else "an item without a text",
            "kind": INDEXED if text else NOT_INDEXED,
            "session": self._session(op.namespace),
            "metadata": {
                MARK: {
                    "key": op.key,
                    "value": op.value,
                    "updated": self._view.engine.now().isoformat(),
                }
            },
        }


def _texts(value: Any, field: str) -> list[str]:
    """The texts at a path; for the whole value, every leaf with the names of its path."""
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


def _matches(item: Mapping[str, Any] | None, op: SearchOp) -> TypeGuard[Mapping[str, Any]]:
    return item is not None and matches_filter(item["value"], op.filter or {})


def _time(value: Any) -> datetime | None:
    try:
        return to_time(value, "updated")
    except Invalid:
        return None


def matches_filter(value: Any, wanted: Any) -> bool:
    """Whether a value matches a filter: parts of objects, lists as a whole, and $eq, $ne, $gt, $gte, $lt, $lte."""
    if isinstance(wanted, Mapping):
        if any(name.startswith("$") for name in wanted):
            return all(_compare(value, name, operand) for name, operand in wanted.items())
        return isinstance(value, Mapping) and all(
            matches_filter(value.get(name), part) for name, part in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        same_length = isinstance(value, list | tuple) and len(value) == len(wanted)
        return same_length and all(matches_filter(one, part) for one, part in zip(value, wanted, strict=True))
    return bool(value == wanted)


_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "$gt": lambda a, b: a > b,
    "$gte": lambda a, b: a >= b,
    "$lt": lambda a, b: a < b,
    "$lte": lambda a, b: a <= b,
}


def _compare(value: Any, name: str, operand: Any) -> bool:
    if name in ("$eq", "$ne"):
        return bool(value == operand) is (name == "$eq")
    if name not in _COMPARISONS:
        raise ValueError(f"there is no operator {name}; the operators are $eq, $ne, {', '.join(_COMPARISONS)}")
    try:
        return _COMPARISONS[name](float(value), float(operand))
    except (TypeError, ValueError):
        return False  # a value that is not a number is neither greater nor less


def matches_condition(namespace: Namespace, condition: MatchCondition) -> bool:
    """Whether a namespace starts or ends with the path of a condition; `*` matches any label."""
    if condition.match_type not in ("prefix", "suffix"):
        raise ValueError(f"a namespace is matched by prefix or suffix, not by {condition.match_type}")
    path = tuple(condition.path)
    if len(path) > len(namespace):
        return False
    end = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(part in ("*", label) for part, label in zip(path, end, strict=True))
