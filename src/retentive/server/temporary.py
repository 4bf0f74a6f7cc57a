"""Temporary folders of the service. One that a former run left behind, because it was killed, is removed later."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "retentive-service-"
_LOCK = "lock"
"""A file that is locked while the run that made the folder lasts."""


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a folder that is removed at the end of the block."""
    made = tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True)
    with made as name, (Path(name) / _LOCK).open("w") as lock:
        with suppress(OSError):
            _lock(lock.fileno())
        yield Path(name)


def remove_abandoned_folders() -> None:
    """Remove the folders of runs of this user that have ended."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            with (folder / _LOCK).open("r+") as lock:
                _lock(lock.fileno())
                shutil.rmtree(folder, ignore_errors=True)


def _lock(file: int) -> None:
    """Lock a file until it is closed; `OSError` if it is locked, or if this system has no such locks."""
    try:
        import fcntl
    except ImportError:
        raise OSError("no file locks") from None
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
