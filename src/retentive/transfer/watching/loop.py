"""Looks at a folder again whenever something in it changes, for as long as it is let.

The system's events only say when to look: each look goes through the whole folder. So an event that was lost, a folder
that was moved in, or a disk without events costs some seconds, never a change.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

from retentive.engine import Engine
from retentive.errors import MissingExtra, RetentiveError
from retentive.transfer.formats.text_files import SUFFIXES
from retentive.transfer.watching.retries import FIRST_WAIT, LONGEST_WAIT
from retentive.transfer.watching.sync import Change, FolderSync

TICK = 1.0
REST = 60.0
"""Without any event, a look is taken this often all the same."""

WITHOUT_EVENTS = 5.0
"""As often as this where the system gives no events."""

Tell = Callable[[Change], None]


class Stop:
    """The wish to end, which a signal may set at any moment.

    Not an `Event` of threading: setting one inside a signal's handler can wait for ever for the lock of its own thread.
    """

    def __init__(self) -> None:
        self._asked = False

    def set(self) -> None:
        """Ask to end."""
        self._asked = True

    def is_set(self) -> bool:
        """Whether that was asked."""
        return self._asked

    def wait(self, seconds: float) -> None:
        """Sleep so long, or until it is asked."""
        until = time.monotonic() + seconds
        while not self._asked and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))


def keep_in_step(sync: FolderSync, engine: Engine, *, tell: Tell, stop: Stop, debounce: float = 0.5) -> None:
    """Follow the folder until `stop` is set. What goes wrong is told once, and tried again.

    Changes are gathered until there was none for `debounce` seconds, or for ten times as long at most.
    """
    if find_spec("watchfiles") is None:
        raise MissingExtra("retentive watch", "watch")
    watch = _Watch(sync, engine, tell, stop)
    watch.look()
    without_events = False
    while not stop.is_set():
        here = _identity(sync.folder)
        if here is None:
            stop.wait(TICK)
            watch.look()
            continue
        try:
            for relevant in _events(sync.folder, stop, debounce):
                if _identity(sync.folder) != here:
                    break  # what is watched now is no longer the folder of that name
                if relevant or watch.due():
                    watch.look()
        except (OSError, RuntimeError) as error:
            if not without_events:
                reason = f"no events ({error}): looking every {WITHOUT_EVENTS:g} seconds instead"
                tell(Change("waiting", "", reason=reason))
            without_events = True
            stop.wait(WITHOUT_EVENTS)
            watch.look()


class _Watch:
    """When to look again, and what was said already."""

    def __init__(self, sync: FolderSync, engine: Engine, tell: Tell, stop: Stop) -> None:
        self._sync = sync
        self._engine = engine
        self._tell = tell
        self._stop = stop
        self._wait = FIRST_WAIT
        self._next = 0.0
        self._ready = False
        self._waiting_for: str | None = None
        self._to_embed = True

    def due(self) -> bool:
        """Whether it is time for a look that no event asked for."""
        retry = self._sync.next_due()
        return time.monotonic() >= (self._next if retry is None else min(self._next, retry))

    def look(self) -> None:
        """Bring everything into step; what is not to be had now is waited for."""
        try:
            changes = self._follow()
            if self._to_embed:
                _embed_waiting(self._engine)
                self._to_embed = False
        except RetentiveError as error:
            self._tell_once(str(error))
            self._next = time.monotonic() + self._wait
            self._wait = min(self._wait * 2, LONGEST_WAIT)
            return
        self._waiting_for = None
        self._wait = FIRST_WAIT
        # Files in a folder that has just been made may be there without an event: look once more.
        self._next = time.monotonic() + (TICK if changes else REST)

    def _follow(self) -> int:
        changes = 0
        for change in self._sync.sync():
            self._tell(change)
            changes += 1
            self._to_embed = True
            if self._stop.is_set():
                return changes
        if not self._ready:
            self._ready = True
            self._tell(self._sync.ready())
            changes += 1  # between this look and the first event there may have been a change
        return changes

    def _tell_once(self, reason: str) -> None:
        """Say what is being waited for, when it begins."""
        if self._waiting_for != reason:
            self._waiting_for = reason
            self._tell(Change("waiting", "", reason=reason))


def _embed_waiting(engine: Engine) -> None:
    """Give a vector to what was stored while the embedder did not answer; another model's store is left alone."""
    embedder = engine.embedder()
    if embedder is None:
        return
    _ = embedder.model  # `Unavailable` if it does not answer, where the next line would only say that it differs
    if engine.embedding_problem() is None and engine.count_unembedded():
        engine.reembed()


def _events(folder: Path, stop: Stop, debounce: float) -> Iterator[bool]:
    """Whether something of interest happened, at the latest after a tick."""
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
        yield any(_interesting(folder, path) for _, path in changes)


def _interesting(folder: Path, path: str) -> bool:
    """Whether a note may be behind this: nothing hidden, and a text file, a folder, or what is no longer there.

    The store itself may be in the folder; its own writes must not make it look for ever.
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
