"""Exports memories as a folder of Markdown: a file for each session, and one for each project's other memories.

It is for reading and not complete: metadata, importance, use and vectors are left out. Export JSON Lines to import it
again.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

from retentive.errors import Conflict, Invalid
from retentive.models import Memory, Scope
from retentive.stores.base import Store
from retentive.stores.damage import Damage
from retentive.stores.rules import pages, scan_pages
from retentive.stores.values import Session
from retentive.transfer.exporting.jsonl import ExportFilter, ExportResult

PAGE = 500
FEW = 20
"""How many memories of a session are read at once: each may have a million characters."""


def export_markdown(
    store: Store, path: Path, filter: ExportFilter, *, progress: Callable[[int], None] = lambda done: None
) -> ExportResult:
    """Write to a new folder, which exists only when it is complete."""
    written, damaged = 0, list[Damage]()
    with _new_folder(path) as folder:

        def home(profile: str) -> Path:
            return folder / _file_name(profile) if filter.profile is None else folder

        for profile in [one.name for one in store.profiles()] if filter.profile is None else [filter.profile]:
            written += _write_sessions(store, profile, filter, home(profile), progress, damaged)
        if filter.session is None:
            written += _write_others(store, filter, home, progress, damaged)
    left_out = tuple(dict.fromkeys(damaged))
    return ExportResult(str(path), filter.profile, written, 0, 0, 0, filter.omitted_profiles(store), left_out)


def _write_sessions(
    store: Store,
    profile: str,
    filter: ExportFilter,
    folder: Path,
    progress: Callable[[int], None],
    damaged: list[Damage],
) -> int:
    written = 0
    sessions = store.sessions(profile, project=filter.project)
    counts = Counter(session.name for session in sessions)
    for session in sessions:
        if filter.session not in (None, session.name) or not session.memories:
            continue
        places = sorted(_places(store, session, damaged))
        name = _session_file(session, several=counts[session.name] > 1)
        (folder / "sessions").mkdir(parents=True, exist_ok=True)
        with (folder / "sessions" / f"{name}.md").open("w", encoding="utf-8") as file:
            file.write(_head(session.name, session.project))
            for at in range(0, len(places), FEW):
                file.writelines(map(_section, store.get([id for _, id in places[at : at + FEW]])))
        written += len(places)
        progress(len(places))
    return written


def _places(store: Store, session: Session, damaged: list[Damage]) -> Iterator[tuple[int, str]]:
    """Yield the position and the id of each memory of a session; all texts at once may be larger than the memory."""
    project = session.project
    scope = Scope(session.profile, project, (session.name,), only_sessions=True, outside_projects=project is None)
    for page in pages(lambda cursor: store.list(scope, cursor=cursor, limit=PAGE)):
        yield from ((memory.position or 0, memory.id) for memory in page.memories)
        damaged += page.damaged


def _write_others(
    store: Store,
    filter: ExportFilter,
    home: Callable[[str], Path],
    progress: Callable[[int], None],
    damaged: list[Damage],
) -> int:
    """Write the memories without a session, to a file for each project."""
    written = 0
    for page in scan_pages(store, limit=PAGE):
        damaged += filter.damaged(store, page)
        for memory in (record.memory for record in page.records):
            if memory.session is None and filter.includes(memory):
                folder = home(memory.profile)
                folder.mkdir(parents=True, exist_ok=True)
                file = folder / f"{'memories' if memory.project is None else _file_name(memory.project)}.md"
                head = "" if file.exists() else _head(memory.project or "Memories", memory.project)
                with file.open("a", encoding="utf-8") as opened:
                    opened.write(head + _section(memory))
                written += 1
                progress(1)
    return written


def _head(title: str, project: str | None) -> str:
    lines = ["---", f"title: {_one_line(title)}", *([f"project: {_one_line(project)}"] if project else []), "---", ""]
    return "\n".join(lines) + "\n"


def _section(memory: Memory) -> str:
    parts = [memory.when.strftime("%Y-%m-%d %H:%M"), memory.speaker, None if memory.kind == "episodic" else memory.kind]
    return f"## {' · '.join(_one_line(part) for part in parts if part)}\n\n{memory.text.strip()}\n\n"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _session_file(session: Session, *, several: bool) -> str:
    """Return the name of the file of a session; with its project if several have one of this name."""
    names = (session.project, session.name) if several and session.project else (session.name,)
    return _file_name(*names)


def _file_name(*names: str) -> str:
    """Return a name that is valid on every file system, and different for different names."""
    plain = re.sub(r"[^a-z0-9]+", "-", "/".join(names).lower()).strip("-")[:60]
    whole = names[0] if len(names) == 1 else json.dumps(names)
    return f"{plain or 'session'}-{hashlib.blake2b(whole.encode(), digest_size=4).hexdigest()}"


@contextmanager
def _new_folder(path: Path) -> Iterator[Path]:
    """Make a folder that gets its name when it is complete; only its owner can read it."""
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise Conflict(f"{path} already exists and is not an empty folder; name another one")
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
