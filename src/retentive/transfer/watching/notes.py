"""What a store knows of a watched folder: where it is, and for each file what it held and which memories are its.

The note of a file is written before its memories change, with every id that it may own and without a print; and again
behind them, complete. Whatever happens between the two, the next look finds which of the ids exist and goes on.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from retentive.errors import Conflict
from retentive.stores import KeyValue

FOLDERS, FILES = "watch/folder/", "watch/file/"

Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Known:
    """A file as it was last seen: its memories, a print of its bytes, and its size and times.

    Without a print its memories are not, or not surely, what it says. Without a stamp it may have been written again
    since.
    """

    ids: tuple[str, ...] = ()
    print: str | None = None
    stamp: Stamp | None = None


class FolderNotes:
    """The notes of one folder."""

    def __init__(self, store: KeyValue, id: str, folder: Path, *, profile: str, project: str) -> None:
        self.project = project
        self._store = store
        self._name = f"{FOLDERS}{id}"
        self._files = f"{FILES}{id}/"
        self._told = json.dumps({"folder": str(folder), "profile": profile, "project": project})

    def begin(self) -> None:
        """Write down that this folder is kept in step, and where it is now."""
        if self._store.get_value(self._name) != self._told:
            self._store.keep({self._name: self._told})

    def files(self) -> dict[str, Known]:
        """Everything known, by the path of the file."""
        found = self._store.list_values(self._files)
        return {name.removeprefix(self._files): _parsed(text) for name, text in found.items()}

    def keep(self, changes: Mapping[str, Known | None]) -> None:
        """Write these down, all or none; None forgets what is known of a file."""
        self._store.keep(
            {f"{self._files}{path}": None if known is None else _written(known) for path, known in changes.items()}
        )

    def end(self) -> None:
        """Know nothing of the folder any more."""
        self._store.keep({self._name: None, **dict.fromkeys(self._store.list_values(self._files))})


def open_notes(store: KeyValue, folder: Path, *, profile: str, project: str | None = None) -> FolderNotes:
    """The notes of a folder: those it has, those it had where it was before it was moved, or new ones.

    Its memories are in the project of its first time, or else in one named after it.
    """
    folders = {
        name.removeprefix(FOLDERS): told
        for name, text in store.list_values(FOLDERS).items()
        if (told := json.loads(text))["profile"] == profile
    }
    for id, told in folders.items():
        if told["folder"] == str(folder):
            if project is not None and project != told["project"]:
                raise Conflict(
                    f"{folder} is kept in project '{told['project']}'; to have it in another one, "
                    f"let go of it first: retentive watch {folder} --forget"
                )
            return FolderNotes(store, id, folder, profile=profile, project=told["project"])
    named = project or folder.name or "files"
    for id, told in folders.items():
        notes = FolderNotes(store, id, folder, profile=profile, project=named)
        if told["project"] == named and _moved(notes, Path(told["folder"]), folder):
            return notes
    return FolderNotes(store, secrets.token_hex(8), folder, profile=profile, project=named)


def watched_folders(store: KeyValue, *, profile: str) -> list[Path]:
    """The folders that a profile keeps in step."""
    found = (json.loads(text) for text in store.list_values(FOLDERS).values())
    return [Path(told["folder"]) for told in found if told["profile"] == profile]


def _moved(notes: FolderNotes, before: Path, now: Path) -> bool:
    """Whether a folder that is no longer where it was is this one: most of its files are here."""
    if before.is_dir():
        return False
    files = notes.files()
    return 2 * sum((now / path).is_file() for path in files) > len(files)


def _written(known: Known) -> str:
    return json.dumps({"ids": known.ids, "print": known.print, "stamp": known.stamp})


def _parsed(text: str) -> Known:
    told = json.loads(text)
    stamp = told["stamp"]
    return Known(tuple(told["ids"]), told["print"], None if stamp is None else (stamp[0], stamp[1], stamp[2]))
