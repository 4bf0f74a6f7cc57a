"""Watches a folder: syncs it whenever something in it changes, and holds a lock so that one process does so.

The events of the file system only tell when to sync: each sync lists the whole folder. So a lost event, a folder that
was moved in, or a disk without events delays a change by some seconds, and no change is missed.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from platformdirs import user_cache_path

from retentive.errors import Conflict, MissingExtra, RetentiveError, Unavailable
from retentive.pipeline.embeddings import Embeddings
from retentive.transfer.formats.text_files import SUFFIXES
from retentive.transfer.watching.retries import FIRST_WAIT, MAX_WAIT
from retentive.transfer.watching.sync import FileChange, FolderSync

TICK = 1.0
SYNC_INTERVAL = 60.0
"""Without any event, the folder is synced this often."""

SYNC_INTERVAL_WITHOUT_EVENTS = 5.0
"""The interval if the system reports no events."""

Report = Callable[[FileChange], None]


@contextmanager
def folder_lock(store: str, folder: Path) -> Iterator[None]:
    """Lock a folder for a store; `Conflict` if another process holds the lock. The system releases it at exit."""
    from filelock import FileLock, Timeout

    address = store if "://" in store else str(Path(store).resolve())
    name = hashlib.blake2b(f"{address}\0{folder}".encode(errors="replace"), digest_size=12).hexdigest()
    path = user_cache_path("retentive") / "watch" / f"{name}.lock"
    lock = FileLock(path, mode=0o600)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(blocking=False)
    except Timeout:
        raise Conflict(f"another process watches {folder} for {store}; stop it first") from None
    except OSError as error:
        raise Unavailable(f"the lock file {path} cannot be created: {error.strerror}") from None
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        lock.release()


class StopFlag:
    """A request to stop, which a signal handler can set at any time.

    Not a `threading.Event`: setting one in a signal handler can wait forever for a lock of its own thread.
    """

    def __init__(self) -> None:
        self._set = False

    def set(self) -> None:
        """Request to stop."""
        self._set = True

    def is_set(self) -> bool:
        """Whether a stop was requested."""
        return self._set

    def wait(self, seconds: float) -> None:
        """Sleep this long, or until a stop is requested."""
        until = time.monotonic() + seconds
        while not self._set and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))


def watch_folder(
    sync: FolderSync, embeddings: Embeddings, *, report: Report, stop: StopFlag, debounce: float = 0.5
) -> None:
    """Sync the folder until `stop` is set. A failure is reported once and retried.

    Changes are collected until there was none for `debounce` seconds, for at most ten times as long.
    """
    if find_spec("watchfiles") is None:
        raise MissingExtra("retentive watch", "watch")
    schedule = _Schedule(sync, embeddings, report, stop)
    schedule.sync()
    without_events = False
    while not stop.is_set():
        identity = _identity(sync.folder)
        if identity is None:
            stop.wait(TICK)
            schedule.sync()
            continue
        try:
            for relevant in _events(sync.folder, stop, debounce):
                if _identity(sync.folder) != identity:
                    break  # the folder was replaced by another one of the same name
                if relevant or schedule.is_due():
                    schedule.sync()
        except (OSError, RuntimeError) as error:
            if not without_events:
                reason = f"no file system events ({error}): syncing every {SYNC_INTERVAL_WITHOUT_EVENTS:g} seconds"
                report(FileChange("waiting", "", reason=reason))
            without_events = True
            stop.wait(SYNC_INTERVAL_WITHOUT_EVENTS)
            schedule.sync()


class _Schedule:
    """Runs syncs, and decides when the next one is due without an event."""

    def __init__(self, sync: FolderSync, embeddings: Embeddings, report: Report, stop: StopFlag) -> None:
        self._sync = sync
        self._embeddings = embeddings
        self._report = report
        self._stop = stop
        self._wait = FIRST_WAIT
        self._next = 0.0
        self._ready = False
        self._failure: str | None = None
        self._to_embed = True

    def is_due(self) -> bool:
        """Whether it is time for a sync without an event."""
        retry = self._sync.next_due()
        return time.monotonic() >= (self._next if retry is None else min(self._next, retry))

    def sync(self) -> None:
        """Sync the folder. If something is unavailable, report it when it begins, and try again later."""
        try:
            changes = self._sync_folder()
            if self._to_embed:
                _embed_missing(self._embeddings)
                self._to_embed = False
        except RetentiveError as error:
            if self._failure != str(error):
                self._failure = str(error)
                self._report(FileChange("waiting", "", reason=self._failure))
            self._next = time.monotonic() + self._wait
            self._wait = min(self._wait * 2, MAX_WAIT)
            return
        self._failure = None
        self._wait = FIRST_WAIT
        # Files in a folder that was just created may have no event, so the next sync is soon.
        self._next = time.monotonic() + (TICK if changes else SYNC_INTERVAL)

    def _sync_folder(self) -> int:
        changes = 0
        for change in self._sync.sync():
            self._report(change)
            changes += 1
            self._to_embed = True
            if self._stop.is_set():
                return changes
        if not self._ready:
            self._ready = True
            self._report(self._sync.ready())
            changes += 1  # a file may have changed between this sync and the first event
        return changes


def _embed_missing(embeddings: Embeddings) -> None:
    """Embed memories that were stored while the embedder was unavailable, unless the store has another model."""
    embedder = embeddings.embedder()
    if embedder is None:
        return
    _ = embedder.model  # `Unavailable` if it does not answer, where `problem` would only return a sentence
    # After an outage it is tried; it raises `Unavailable` if the service is still down.
    if embeddings.problem() in (None, embedder.outage) and embeddings.count_missing():
        embeddings.reembed()


def _events(folder: Path, stop: StopFlag, debounce: float) -> Iterator[bool]:
    """Yield whether something relevant happened, at least once per tick."""
    from watchfiles import watch

    step = max(int(debounce * 1000), 10)
    for changes in watch(
        folder,
        watch_filter=None,
        debounce=step * 10,
        step=step,
        stop_event=stop,
        rust_timeout=int(TICK * 1000),
        yield_on_timeout=True,
        raise_interrupt=False,
        ignore_permission_denied=True,
    ):
        yield any(_is_relevant(folder, path) for _, path in changes)


def _is_relevant(folder: Path, path: str) -> bool:
    """Whether an event may concern a text file: nothing hidden, and a text file, a folder, or a deleted path.

    The store itself may be in the folder; its writes must not cause a sync.
    """
    file = Path(path)
    parts = file.parts[len(folder.parts) :]
    if any(part.startswith(".") for part in parts):
        return False
    return path.lower().endswith(SUFFIXES) or not file.is_file()


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
