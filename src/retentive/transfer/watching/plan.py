"""What a file asks of the store: which of its passages are there already, which are new, what is no longer in it."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from retentive.models import Memory
from retentive.transfer.watching.notes import Known

_OURS = ("file", "lines", "headings", "title", "tags")
"""The metadata that comes from the file; anything else somebody added, and it stays."""


@dataclass(slots=True)
class Plan:
    """What brings the memories of one file into step with it."""

    path: str
    known: Known
    """What is to be known of the file when it is done."""
    add: list[dict[str, Any]] = field(default_factory=list)
    update: dict[str, dict[str, Any]] = field(default_factory=dict)
    remove: dict[str, Memory] = field(default_factory=dict)
    adopted: dict[str, list[str]] = field(default_factory=dict)
    """Memories taken over, by the path of the file that is gone."""
    gave: set[str] = field(default_factory=set)
    """Memories that went to other files, which now say what this one no longer does."""
    before: str | None = None
    """Where the whole file was, if it was only moved."""
    new: bool = False
    note: str | None = None

    @property
    def touches_memories(self) -> bool:
        """Whether any memory is to be changed."""
        return bool(self.add or self.update or self.remove or self.adopted or self.gave)


class Orphans:
    """The memories of files that are gone, for files that say the same elsewhere."""

    def __init__(self) -> None:
        self._by_text: defaultdict[bytes, list[tuple[str, str]]] = defaultdict(list)
        self._by_print: dict[str, list[str]] = {}

    def add(self, path: str, known: Known, memories: Iterable[Memory]) -> None:
        """A file that is gone, with its memories."""
        if known.print:
            self._by_print.setdefault(known.print, []).append(path)
        for memory in memories:
            self._by_text[_key(memory.text)].append((path, memory.id))

    def moved_from(self, path: str, print: str) -> str | None:
        """The path that a file with just these bytes had, the one of the same name before others."""
        paths = self._by_print.get(print, [])
        name = PurePosixPath(path).name
        found = next((old for old in paths if PurePosixPath(old).name == name), next(iter(paths), None))
        if found is not None:
            paths.remove(found)
        return found

    def take(self, text: str, *, rather: str | None) -> tuple[str, str] | None:
        """A memory that says this, of the file that is rather meant if it has one: its file's path and its id."""
        left = self._by_text.get(_key(text))
        if not left:
            return None
        at = next((at for at, (path, _) in enumerate(left) if path == rather), 0)
        return left.pop(at)


def make_plan(
    path: str,
    drafts: Sequence[Mapping[str, Any]],
    present: Iterable[Memory],
    *,
    orphans: Orphans,
    known: Known,
    before: str | None,
    get: Callable[[str], Memory | None],
    new_id: Callable[[], str],
) -> Plan:
    """The plan for a file that has these passages now, and these memories from earlier.

    A passage is the same memory as long as it says the same: its lines may change, and the file it is in.
    """
    plan = Plan(path, known, before=before)
    said: defaultdict[str, list[Memory]] = defaultdict(list)
    for memory in present:
        said[memory.text].append(memory)
    ids = []
    for draft in drafts:
        old = said[draft["text"]].pop(0) if said.get(draft["text"]) else None
        if old is None and (orphan := orphans.take(draft["text"], rather=before)) is not None:
            old = get(orphan[1])
            if old is not None:
                plan.adopted.setdefault(orphan[0], []).append(old.id)
        if old is None:
            plan.add.append({**draft, "id": new_id()})
            ids.append(plan.add[-1]["id"])
            continue
        ids.append(old.id)
        if changes := _differences(old, draft):
            plan.update[old.id] = changes
    plan.remove = {memory.id: memory for left in said.values() for memory in left}
    plan.known = Known(tuple(ids), known.print, known.stamp)
    return plan


def share(plans: Sequence[Plan]) -> None:
    """Let what went from one of these files to another keep its memory, as where two files changed their names."""
    left: defaultdict[str, list[tuple[Plan, Memory]]] = defaultdict(list)
    for plan in plans:
        for memory in plan.remove.values():
            left[memory.text].append((plan, memory))
    for plan in plans:
        taken: dict[str, str] = {}
        for draft in plan.add:
            if not left.get(draft["text"]):
                continue
            giver, memory = left[draft["text"]].pop(0)
            del giver.remove[memory.id]
            giver.gave.add(memory.id)
            taken[draft["id"]] = memory.id
            plan.update[memory.id] = _differences(memory, draft)
        plan.add = [draft for draft in plan.add if draft["id"] not in taken]
        plan.known = replace(plan.known, ids=tuple(taken.get(id, id) for id in plan.known.ids))


def _differences(memory: Memory, draft: Mapping[str, Any]) -> dict[str, Any]:
    added = {name: value for name, value in memory.metadata.items() if name not in _OURS}
    wanted = {
        "source": draft["source"],
        "metadata": {**draft["metadata"], **added},
        "occurred": draft.get("occurred"),
    }
    return {name: value for name, value in wanted.items() if getattr(memory, name) != value}


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()
