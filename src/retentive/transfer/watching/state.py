"""The state of a watched folder in the store, and the plan that updates the memories of one file.

The state of a file is written before its memories change, with every id that it may own and without a digest; and again
after the change, complete. After an interruption between the two, the next sync finds which of the ids exist and
completes the change.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import Field

from retentive.errors import Conflict
from retentive.models import Memory
from retentive.pipeline.remember import MemoryChanges
from retentive.stores.base import KeyValue
from retentive.stores.json_entries import JsonEntries, Transaction
from retentive.transfer.watching.imported import ImportedPassages

Stamp = tuple[int, int, int]
"""Size, modification time and change time of a file, the times in nanoseconds."""

_FILE_METADATA = ("file", "lines", "headings", "title", "tags")
"""The metadata that comes from the file; other metadata was added by somebody else and stays."""


@dataclass(frozen=True, slots=True)
class FileState:
    """A file at its last sync: the ids of its memories, a digest of its bytes, and its stamp.

    Without a digest, its memories may not be those of the file. Without a stamp, it may have been written again since.
    """

    ids: tuple[str, ...] = ()
    digest: Annotated[str | None, Field(alias="print")] = None
    """Under the alias in stores, which is its earlier name."""
    stamp: Stamp | None = None


@dataclass(frozen=True, slots=True)
class _WatchedFolder:
    """A folder, by its path, and the scope of its memories."""

    folder: str
    profile: str
    project: str


_FOLDERS = JsonEntries[_WatchedFolder]("watch/folder/", _WatchedFolder)
_FILE_PREFIX = "watch/file/"


class FolderState:
    """The state of one folder."""

    def __init__(self, store: KeyValue, id: str, folder: Path, *, profile: str, project: str) -> None:
        self.project = project
        self._store = store
        self._id = id
        self._folder = _WatchedFolder(str(folder), profile, project)
        self._files = JsonEntries[FileState](f"{_FILE_PREFIX}{id}/", FileState)

    def save_folder(self) -> None:
        """Record that the folder is watched, and its path."""
        transaction = Transaction(self._store)
        if transaction.get(_FOLDERS, self._id) != self._folder:
            transaction.set(_FOLDERS, self._folder, self._id)
            transaction.commit()

    def files(self) -> dict[str, FileState]:
        """Return the state of every known file, by path."""
        return self._files.list(self._store)

    def save_files(self, changes: Mapping[str, FileState | None]) -> None:
        """Save the state of files, all or none; None deletes the state of a file."""
        transaction = Transaction(self._store)
        for path, state in changes.items():
            transaction.set(self._files, state, path)
        transaction.commit()

    def imported_passages(self) -> ImportedPassages:
        """Return the memories of the folder that imports stored."""
        return ImportedPassages(self._store, Path(self._folder.folder), profile=self._folder.profile)

    def delete(self) -> None:
        """Delete the state of the folder and its files."""
        transaction = Transaction(self._store)
        transaction.set(_FOLDERS, None, self._id)
        for path in self.files():
            transaction.set(self._files, None, path)
        transaction.commit()


def open_folder_state(store: KeyValue, folder: Path, *, profile: str, project: str | None = None) -> FolderState:
    """Return the state of a folder: its own, that of its earlier path if it was moved, or a new one.

    Its memories are in the project of its first sync: the given one, or one with the name of the folder.
    """
    folders = {id: known for id, known in _FOLDERS.list(store).items() if known.profile == profile}
    for id, known in folders.items():
        if known.folder == str(folder):
            if project is not None and project != known.project:
                raise Conflict(
                    f"{folder} is watched in project '{known.project}'; to use another project, run first: "
                    f"retentive watch {folder} --forget"
                )
            return FolderState(store, id, folder, profile=profile, project=known.project)
    name = project or folder.name or "files"
    for id, known in folders.items():
        state = FolderState(store, id, folder, profile=profile, project=name)
        if known.project == name and _was_moved(state, Path(known.folder), folder):
            return state
    return FolderState(store, secrets.token_hex(8), folder, profile=profile, project=name)


def watched_folders(store: KeyValue, *, profile: str) -> list[Path]:
    """Return the folders that are watched for a profile."""
    return [Path(known.folder) for known in _FOLDERS.list(store).values() if known.profile == profile]


def _was_moved(state: FolderState, before: Path, now: Path) -> bool:
    """Whether a folder that no longer exists is now this one: it has most of its files."""
    if before.is_dir():
        return False
    files = state.files()
    return 2 * sum((now / path).is_file() for path in files) > len(files)


@dataclass(slots=True)
class FilePlan:
    """The changes that make the memories of one file equal to its passages."""

    path: str
    state: FileState
    """The state of the file after the changes."""
    add: list[dict[str, Any]] = field(default_factory=list)
    update: dict[str, MemoryChanges] = field(default_factory=dict)
    remove: dict[str, Memory] = field(default_factory=dict)
    replaced: list[str] = field(default_factory=list)
    """Memories of an import in another project; those in `add` replace them."""
    adopted: dict[str, list[str]] = field(default_factory=dict)
    """Memories taken over, by the path of the deleted file that had them."""
    given: set[str] = field(default_factory=set)
    """Memories given to other files, which have their passages now."""
    moved_from: str | None = None
    """The earlier path of the file, if it was only moved."""
    new: bool = False
    warning: str | None = None

    @property
    def changes_memories(self) -> bool:
        """Whether any memory changes."""
        return bool(self.add or self.update or self.remove or self.adopted or self.given)


class Orphans:
    """The memories of deleted files, which files with the same passages can take over."""

    def __init__(self) -> None:
        self._by_text: defaultdict[bytes, list[tuple[str, str]]] = defaultdict(list)
        self._by_digest: dict[str, list[str]] = {}

    def add(self, path: str, state: FileState, memories: Iterable[Memory]) -> None:
        """Add a deleted file with its memories."""
        if state.digest:
            self._by_digest.setdefault(state.digest, []).append(path)
        for memory in memories:
            self._by_text[_text_digest(memory.text)].append((path, memory.id))

    def find_moved(self, path: str, digest: str) -> str | None:
        """Return the path of a deleted file with the same bytes, preferably one of the same name."""
        paths = self._by_digest.get(digest, [])
        name = PurePosixPath(path).name
        found = next((old for old in paths if PurePosixPath(old).name == name), next(iter(paths), None))
        if found is not None:
            paths.remove(found)
        return found

    def take(self, text: str, *, prefer: str | None) -> tuple[str, str] | None:
        """Take a memory with this text, preferably of one file; return the path of its file and its id."""
        left = self._by_text.get(_text_digest(text))
        if not left:
            return None
        at = next((at for at, (path, _) in enumerate(left) if path == prefer), 0)
        return left.pop(at)


def plan_file(
    path: str,
    drafts: Sequence[Mapping[str, Any]],
    memories: Iterable[Memory],
    *,
    project: str,
    orphans: Orphans,
    state: FileState,
    moved_from: str | None,
    get: Callable[[str], Memory | None],
    new_id: Callable[[], str],
) -> FilePlan:
    """Return the plan for a file with these passages, whose memories so far are given.

    A passage with the same text keeps its memory, even if its lines or its file change. A memory that an import stored
    in another project is replaced by one in the project of the folder.
    """
    plan = FilePlan(path, state, moved_from=moved_from)
    by_text: defaultdict[str, list[Memory]] = defaultdict(list)
    for memory in memories:
        if memory.project == project:
            by_text[memory.text].append(memory)
        else:
            plan.replaced.append(memory.id)
    ids = []
    for draft in drafts:
        old = by_text[draft["text"]].pop(0) if by_text.get(draft["text"]) else None
        if old is None and (orphan := orphans.take(draft["text"], prefer=moved_from)) is not None:
            old = get(orphan[1])
            if old is not None:
                plan.adopted.setdefault(orphan[0], []).append(old.id)
        if old is None:
            plan.add.append({**draft, "id": new_id()})
            ids.append(plan.add[-1]["id"])
            continue
        ids.append(old.id)
        if changes := _changes(old, draft):
            plan.update[old.id] = changes
    plan.remove = {memory.id: memory for left in by_text.values() for memory in left}
    plan.state = replace(state, ids=tuple(ids))
    return plan


def exchange_memories(plans: Sequence[FilePlan]) -> None:
    """Let passages that moved from one of these files to another keep their memories."""
    removed: defaultdict[str, list[tuple[FilePlan, Memory]]] = defaultdict(list)
    for plan in plans:
        for memory in plan.remove.values():
            removed[memory.text].append((plan, memory))
    for plan in plans:
        taken: dict[str, str] = {}
        for draft in plan.add:
            if not removed.get(draft["text"]):
                continue
            giver, memory = removed[draft["text"]].pop(0)
            del giver.remove[memory.id]
            giver.given.add(memory.id)
            taken[draft["id"]] = memory.id
            plan.update[memory.id] = _changes(memory, draft)
        plan.add = [draft for draft in plan.add if draft["id"] not in taken]
        plan.state = replace(plan.state, ids=tuple(taken.get(id, id) for id in plan.state.ids))


def _changes(memory: Memory, draft: Mapping[str, Any]) -> MemoryChanges:
    """Return the fields of a memory that are different in its passage."""
    added = {name: value for name, value in memory.metadata.items() if name not in _FILE_METADATA}
    metadata = {**draft["metadata"], **added}
    changes: MemoryChanges = {}
    if memory.source != draft["source"]:
        changes["source"] = draft["source"]
    if memory.metadata != metadata:
        changes["metadata"] = metadata
    if memory.occurred != draft.get("occurred"):
        changes["occurred"] = draft.get("occurred")
    return changes


def _text_digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()
