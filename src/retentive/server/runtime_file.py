"""Where the service of a store listens, in a small private file that other programs of the same user read.

The file is beside a store that is a file, and else in the user's state folder. It imports the standard library only: a
hook reads it in each of its runs, which take a few hundredths of a second.
"""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType


def beside(store: str, suffix: str) -> str:
    """Return the path of a file beside the store, or in the user's state folder if the store is an address."""
    if "://" not in store:
        return os.path.abspath(os.path.expanduser(store)) + suffix
    import hashlib

    from platformdirs import user_state_dir

    name = hashlib.sha256(store.encode()).hexdigest()[:16]
    return os.path.join(user_state_dir("retentive"), name + suffix)


class announced:  # noqa: N801 - it is used as a function; `contextlib` would take a twentieth of a hook's time
    """Write the file while the service runs. A folder that cannot be written is no error: the file only saves time."""

    def __init__(self, store: str, url: str) -> None:
        self._path = beside(store, ".service.json")
        self._url = url

    def __enter__(self) -> None:
        try:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            write_private(self._path, json.dumps({"url": self._url, "pid": os.getpid()}))
        except OSError:
            return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        found = _read(self._path)
        if found is not None and found.get("pid") == os.getpid():  # and not of a service that was started since
            remove(self._path)


def running_service(store: str) -> str | None:
    """Return the address of the service of a store, or None if there is none on this machine."""
    found = _read(beside(store, ".service.json"))
    url, pid = (found or {}).get("url"), (found or {}).get("pid")
    if not isinstance(url, str) or not isinstance(pid, int):
        return None
    try:
        os.kill(pid, 0)
    except OSError:  # there is none, or it belongs to another user
        return None
    return url


def remove(path: str) -> None:
    """Remove a file, if it exists."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def write_private(path: str, text: str) -> None:
    """Replace a file by one that only this user can read."""
    part = f"{path}.{os.getpid()}"
    remove(part)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(part, path)


def _read(path: str) -> dict[str, object] | None:
    """Return the contents of the file; None if there is none, or if another user could have written it."""
    try:
        with open(path, encoding="utf-8") as file:
            if os.name == "posix":
                state = os.fstat(file.fileno())
                if state.st_uid != os.getuid() or state.st_mode & 0o022:
                    return None
            found = json.load(file)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
