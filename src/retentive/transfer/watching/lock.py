"""One watcher a folder and store: a lock that the system lets go of when its holder ends, however it ends."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from platformdirs import user_cache_path

from retentive.errors import Conflict, Unavailable


@contextmanager
def alone(store: str, folder: Path) -> Iterator[None]:
    """Hold the folder for this store, for the length of the block; `Conflict` if somebody else does."""
    where = store if "://" in store else str(Path(store).resolve())
    name = hashlib.blake2b(f"{where}\0{folder}".encode(errors="replace"), digest_size=12).hexdigest()
    path = user_cache_path("retentive") / "watch" / f"{name}.lock"
    descriptor = _take(path)
    if descriptor is None:
        raise Conflict(f"{folder} is being watched already, for {store}; end that one first")
    try:
        yield
    finally:
        with suppress(OSError):  # Windows keeps a file that is open
            path.unlink()
        os.close(descriptor)


def _take(path: Path) -> int | None:
    """The lock, or None if somebody has it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                _lock(descriptor)
            except OSError:
                os.close(descriptor)
                return None
            # Whoever had it before may have removed the file meanwhile: then this is the lock of nothing.
            if path.exists() and os.path.samestat(path.stat(), os.fstat(descriptor)):
                return descriptor
            os.close(descriptor)
    except OSError as error:
        raise Unavailable(f"{path} cannot be made ({error.strerror}); it keeps two watchers apart") from None


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
