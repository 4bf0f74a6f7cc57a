"""Back up a store that is in use: one snapshot of it, checked, in a new file, and the oldest backups deleted."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw

from retentive.errors import Damaged, Invalid, Unavailable
from retentive.stores.sqlite import integrity
from retentive.stores.sqlite.checkpoints import clear_unallocated, is_pointer_map
from retentive.stores.sqlite.connections import Connections, migrate
from retentive.stores.values import Backup, Progress

_STEP_BYTES = 1_000_000
_FILES = (".db", ".sqlite", ".sqlite3")
"""The ends of names that are meant for a file."""

_TIME = "%Y%m%dT%H%M%SZ"
_TABLES = ("memories", "vectors", "blocks", "term_counts", "judgements", "kept")
"""The tables whose rows are counted in the store and in the copy."""


def backup(
    connections: Connections, folder: Path | None, *, keep: int | None, at: datetime, progress: Progress
) -> Backup:
    """Copy the store into a new file of the folder; see `retentive.stores.base.Store.backup`."""
    if keep is not None and keep < 1:
        raise Invalid(f"keep: at least 1 backup, not {keep}")
    if folder is not None and folder.suffix.lower() in _FILES and not folder.is_dir():
        raise Invalid(f"{folder} is the name of a file; name a folder for the backups of this store, such as backups")
    store = Path(connections.path).resolve()
    place = (folder or store.parent / "backups").absolute()
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _not_written(place, error) from error
    with _only_one(place, store):
        _remove_parts(place, store)  # of a process that was killed
        target = _new_name(place, store, at)
        part = place / f".{target.name}.part"
        try:
            counted = _copy(connections, part, progress)
            problems = _check(part, counted)
            _make_durable(part)
            part.rename(target)
            _sync_folder(place)
        except OSError as error:
            raise _not_written(target, error) from error
        finally:
            _remove_parts(place, store)
        removed = [] if problems or keep is None else _rotate(target, store, keep)
    return Backup(str(target), counted["memories"], target.stat().st_size, tuple(problems), tuple(removed))


@contextmanager
def _only_one(place: Path, store: Path) -> Iterator[None]:
    """Let one process at a time back up this store into this folder."""
    from filelock import FileLock, Timeout

    lock = FileLock(place / f".{store.name}.lock", mode=0o600)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise Unavailable(f"another backup of {store} into {place} is running; wait until it has ended") from error
    except OSError as error:
        raise _not_written(place, error) from error
    try:
        yield
    finally:
        lock.release()


def _not_written(path: Path, error: Exception) -> Unavailable:
    return Unavailable(f"{path} cannot be written ({error}); no backup was made, name another folder or make room")


def _copy(connections: Connections, part: Path, progress: Progress) -> dict[str, int]:
    """Copy all pages of one snapshot, and return the number of rows in it. Nobody waits meanwhile."""
    os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    with connections.read() as source:
        source.execute("BEGIN")  # until it ends, SQLite copies the pages of this snapshot, whatever is written
        try:
            counted = _counts(source)
            step = max(1, _STEP_BYTES // int(source.pragma("page_size")))
            with closing(apsw.Connection(str(part))) as target:
                target.execute("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF").fetchall()
                with target.backup("main", source, "main") as pages:
                    while not pages.step(step):
                        progress(1)
        except apsw.FullError as error:
            raise _not_written(part.parent, error) from error
        finally:
            source.execute("ROLLBACK")
    _clear(part)
    return counted


def _clear(part: Path) -> None:
    """Clear the unallocated part of all pages, as a checkpoint does: pages of the log have forgotten texts there."""
    with part.open("r+b") as file:
        header = file.read(100)
        size = int.from_bytes(header[16:18], "big")
        size = 65536 if size == 1 else size
        has_maps = any(header[52:56])
        for number in range(1, part.stat().st_size // size + 1):
            if has_maps and is_pointer_map(number, size):
                continue
            file.seek((number - 1) * size)
            page = file.read(size)
            cleared = clear_unallocated(page, first=number == 1)
            if cleared is not page:
                file.seek((number - 1) * size)
                file.write(cleared)


def _check(part: Path, counted: dict[str, int]) -> list[str]:
    """Open the copy as a store, compare the counts, and return the problems that `doctor` would find."""
    connections = Connections(str(part))
    try:
        migrate(connections)
        with connections.read() as connection:
            found = _counts(connection)
            if found != counted:
                raise Damaged(f"the copy has other counts than the store ({found}, not {counted}); no backup was made")
            return integrity.problems(connection)
    finally:
        connections.close()


def _counts(connection: apsw.Connection) -> dict[str, int]:
    rows: list[Any] = connection.execute(
        " UNION ALL ".join(f"SELECT '{name}', count(*) FROM {name}" for name in _TABLES)  # noqa: S608 - our own names
    ).fetchall()
    return dict(rows)


def _make_durable(part: Path) -> None:
    with part.open("rb+") as file:
        os.fsync(file.fileno())


def _sync_folder(place: Path) -> None:
    if os.name == "nt":  # there, a folder cannot be opened
        return
    folder = os.open(place, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _new_name(place: Path, store: Path, at: datetime) -> Path:
    """A name with the time in it, which no backup has."""
    time = at.astimezone(UTC)
    while True:
        target = place / f"{store.stem}-{time.strftime(_TIME)}{store.suffix or '.db'}"
        if not target.exists():
            return target
        time += timedelta(seconds=1)


def _rotate(new: Path, store: Path, keep: int) -> list[str]:
    """Delete all backups of this store but the new one and the newest others, and return their paths."""
    name = _pattern(store)
    others = sorted(file for file in new.parent.iterdir() if re.fullmatch(name, file.name) and file != new)
    removed = others[: len(others) - keep + 1] if len(others) >= keep else []
    for file in removed:
        file.unlink()
    return [str(file) for file in removed]


def _remove_parts(place: Path, store: Path) -> None:
    """Delete unfinished backups of this store, with the files that SQLite creates beside them."""
    name = rf"\.{_pattern(store)}\.part(-wal|-shm|-journal)?"
    for file in place.iterdir():
        if re.fullmatch(name, file.name):
            file.unlink()


def _pattern(store: Path) -> str:
    """A regular expression for the names of the backups of this store."""
    return rf"{re.escape(store.stem)}-\d{{8}}T\d{{6}}Z{re.escape(store.suffix or '.db')}"
