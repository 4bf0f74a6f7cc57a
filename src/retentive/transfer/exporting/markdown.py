"""Writes memories for people to read: a folder of Markdown, a file for each session and one for each project's rest.

It is not lossless: metadata, importance, use and vectors stay behind. What is to come back goes out as JSONL.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import mkdtemp

from retentive.errors import Conflict, Invalid
from retentive.models import Memory, Scope, Session
from retentive.stores import Store
from retentive.transfer.exporting.jsonl import Choice, Exported, left_out

PAGE = 500


def export_markdown(
    store: Store, path: Path, choice: Choice, *, progress: Callable[[int], None] = lambda done: None
) -> Exported:
    """Write what was chosen into a new folder, which is there whole or not at all."""
    written = 0
    with _new_folder(path) as folder:
        home = partial(_home, folder, choice)
        for profile in [one.name for one in store.profiles()] if choice.profile is None else [choice.profile]:
            written += _sessions(store, profile, choice, home(profile), progress)
        written += _rest(store, choice, home, progress)
    return Exported(str(path), choice.profile, written, 0, 0, 0, left_out(store, choice))


def _home(folder: Path, choice: Choice, profile: str) -> Path:
    return folder / _file_name(profile) if choice.profile is None else folder


def _sessions(store: Store, profile: str, choice: Choice, folder: Path, progress: Callable[[int], None]) -> int:
    written = 0
    for session in store.sessions(profile, project=choice.project):
        if choice.session not in (None, session.name) or not session.memories:
            continue
        memories = sorted(_listed(store, session), key=lambda memory: (memory.position or 0, memory.id))
        (folder / "sessions").mkdir(parents=True, exist_ok=True)
        with (folder / "sessions" / f"{_file_name(session.name)}.md").open("w", encoding="utf-8") as file:
            file.write(_head(session.name, session.project))
            file.writelines(map(_section, memories))
        written += len(memories)
        progress(len(memories))
    return written


def _listed(store: Store, session: Session) -> Iterator[Memory]:
    scope = Scope(session.profile, sessions=(session.name,), only_sessions=True)
    cursor: str | None = None
    while True:
        page = store.list(scope, cursor=cursor, limit=PAGE)
        yield from page.memories
        cursor = page.next_cursor
        if cursor is None:
            return


def _rest(store: Store, choice: Choice, home: Callable[[str], Path], progress: Callable[[int], None]) -> int:
    """Memories of no session, in a file for each project."""
    written = 0
    cursor: str | None = None
    while choice.session is None:
        page = store.walk(cursor=cursor, limit=PAGE)
        for memory in (record.memory for record in page.records):
            if memory.session is None and choice.holds(memory):
                folder = home(memory.profile)
                folder.mkdir(parents=True, exist_ok=True)
                file = folder / f"{'memories' if memory.project is None else _file_name(memory.project)}.md"
                head = "" if file.exists() else _head(memory.project or "Memories", memory.project)
                with file.open("a", encoding="utf-8") as opened:
                    opened.write(head + _section(memory))
                written += 1
                progress(1)
        cursor = page.next_cursor
        if cursor is None:
            break
    return written


def _head(title: str, project: str | None) -> str:
    lines = ["---", f"title: {_one_line(title)}", *([f"project: {_one_line(project)}"] if project else []), "---", ""]
    return "\n".join(lines) + "\n"


def _section(memory: Memory) -> str:
    parts = [memory.when.strftime("%Y-%m-%d %H:%M"), memory.speaker, None if memory.kind == "episodic" else memory.kind]
    return f"## {' · '.join(_one_line(part) for part in parts if part)}\n\n{memory.text.strip()}\n\n"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _file_name(name: str) -> str:
    """A name that any file system takes and that leads nowhere else; names that look alike in it stay apart."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60]
    return f"{plain or 'session'}-{hashlib.blake2b(name.encode(), digest_size=4).hexdigest()}"


@contextmanager
def _new_folder(path: Path) -> Iterator[Path]:
    """A folder that takes its name when it is complete; readable by its owner alone."""
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise Conflict(f"{path} is there already and not an empty folder; name another one")
    temporary: str | None = None
    try:
        temporary = mkdtemp(dir=path.parent, prefix=f".{path.name}.")
        yield Path(temporary)
        Path(temporary).replace(path)
        temporary = None
    except OSError as error:
        raise Invalid(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
