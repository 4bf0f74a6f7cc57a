"""Where the service of a store listens, in a small private file that other programs of the same user read.

The file is beside a store that is a file, and else in the user's state folder. It imports the standard library only: a
hook reads it in each of its runs, which take a few hundredths of a second.
"""

from __future__ import annotations

import os
from stat import S_ISLNK

from retentive import __version__
from retentive.server.light_json import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType, TracebackType
    from typing import Any

LOOPBACK = ("http://127.0.0.1:", "http://[::1]:")


def beside(store: str, suffix: str) -> str:
    """Return the path of a file beside the store, or in the user's state folder if the store is an address."""
    if "://" not in store:
        return os.path.abspath(os.path.expanduser(store)) + suffix
    import hashlib

    name = hashlib.sha256(store.encode()).hexdigest()[:16]
    return os.path.join(user_folders().user_state_dir("retentive"), name + suffix)


def user_folders() -> ModuleType:
    """Return the module `platformdirs`. A hook runs in a Python that does not know the installed packages (`-S`)."""
    try:
        import platformdirs
    except ModuleNotFoundError:
        import site

        site.main()
        import platformdirs
    return platformdirs


class announced:  # noqa: N801 - it is used as a function; `contextlib` would take a twentieth of a hook's time
    """Write the file while the service runs. A folder that cannot be written is no error: the file only saves time.

    `search` is what decides how the service searches, see `settings.search_settings`.
    """

    def __init__(self, store: str, url: str, *, search: Mapping[str, Any] | None = None) -> None:
        self._path = beside(store, ".service.json")
        self._values = {"url": url, "version": __version__, "file": _identity(store), "search": search}

    def __enter__(self) -> None:
        try:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            write_private(self._path, dumps({**self._values, "pid": os.getpid()}))
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
    found = _running(store)
    return None if found is None else str(found["url"])


def equal_service(store: str, search: Mapping[str, Any]) -> str | None:
    """Return the address of a service that searches a store as this process would; None if there is none.

    It listens on loopback, has this version, and has the same file open and the same settings of the search.
    """
    if "://" in store and not store.startswith("postgres"):
        return None  # a store in memory is another one in each process
    found = _running(store)
    expected = {"version": __version__, "file": _identity(store), "search": search}
    if found is None or {name: found.get(name) for name in expected} != expected:
        return None
    url = str(found["url"])
    return url if url.startswith(LOOPBACK) and ("://" in store or expected["file"]) else None


def store_digest(store: str) -> str:
    """Return a hash of the path or address of a store, by which a request says which store it means."""
    import hashlib

    return hashlib.blake2b(beside(store, "").encode(errors="surrogatepass"), digest_size=16).hexdigest()


def _running(store: str) -> dict[str, object] | None:
    """Return the contents of the file, if the process that wrote it runs."""
    found = _read(beside(store, ".service.json")) or {}
    url, pid = found.get("url"), found.get("pid")
    if not isinstance(url, str) or not isinstance(pid, int):
        return None
    return found if _runs(pid) else None


def _runs(pid: int) -> bool:
    """Whether there is a process with this id, of this user."""
    try:
        os.kill(pid, 0)
    except OSError:  # there is none, or it belongs to another user
        return False
    return True


def _identity(store: str) -> list[int] | None:
    """Return what tells the file of a store from another one at its path; None if there is no file."""
    try:
        state = os.stat(os.path.abspath(os.path.expanduser(store)))
    except OSError:
        return None
    return [state.st_dev, state.st_ino]


def remove(path: str) -> None:
    """Remove a file, if it exists."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def make_private_folder(path: str) -> None:
    """Create a folder that only this user can use, or make an own one so; `PermissionError` if it is not an own one."""
    os.makedirs(path, mode=0o700, exist_ok=True)
    state = os.lstat(path)
    if S_ISLNK(state.st_mode):
        raise PermissionError(f"{path} is a link; remove it")
    if state.st_uid != os.getuid():
        raise PermissionError(f"{path} belongs to another user; remove it, or use a store in a folder of your own")
    if state.st_mode & 0o077:
        os.chmod(path, 0o700)


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
            state = os.fstat(file.fileno())
            if state.st_uid != os.getuid() or state.st_mode & 0o022:
                return None
            found = loads(file.read())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
