"""Check that memories, keyword index and vector index of a SQLite store agree, and that every text can be read."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import numpy as np

from retentive.models import Memory, counted
from retentive.stores.damage import NOT_ITS_TEXT, Damage, damage_sentences
from retentive.stores.rules import stale_vectors
from retentive.stores.sql_codec import SCOPE_TOKENS
from retentive.stores.sqlite.connections import SIDE_FILES
from retentive.stores.sqlite.listing import scan_page
from retentive.stores.sqlite.memory_table import by_keys
from retentive.stores.sqlite.vector_blocks import WRONG_LENGTHS, record_type, signs, stale_keys
from retentive.text.normal_form import content_hash
from retentive.text.terms import index_terms


def problems(connection: apsw.Connection) -> list[str]:
    """Return one sentence for each problem."""
    pages = page_problems(connection)
    connection.execute("BEGIN")  # one snapshot for all checks
    try:
        texts = damage_sentences(find_damage(connection))
        if pages:  # the other checks would read damaged pages
            return [*pages, *texts]
        return [
            *texts,
            *_words(connection),
            *_totals(connection),
            *_vectors(connection),
            *_blocks(connection),
            *stale_vectors(len(stale_keys(connection))),
        ]
    except apsw.CorruptError as error:
        return [*pages, f"SQLite: {error}"]
    finally:
        connection.execute("ROLLBACK")


def permission_problems(path: str) -> list[str]:
    """One sentence for each file of a store that others may read, and for a folder in which they may replace it."""
    if os.name == "nt":
        return []
    file = Path(path).resolve()
    files = [Path(f"{file}{end}") for end in SIDE_FILES]
    found = [
        f"{one} can be read or written by other users of this machine; run: chmod 600 {one}"
        for one in files
        if one.exists() and one.stat().st_mode & 0o077
    ]
    mode = file.parent.stat().st_mode
    if mode & 0o002 and not mode & stat.S_ISVTX:
        found.append(f"other users of this machine can replace files in {file.parent}; run: chmod o-w {file.parent}")
    return found


def page_problems(connection: apsw.Connection) -> list[str]:
    """Return one sentence for each problem that SQLite finds in the pages of the file."""
    try:
        # FTS5 checks against the index structure it read last, and only a search makes it read the current one: without
        # this, a second check on a connection would report what was written in between as damage.
        connection.execute("SELECT rowid FROM words WHERE words MATCH 'x' LIMIT 1").fetchall()
        return [f"SQLite: {line}" for (line,) in connection.execute("PRAGMA integrity_check") if line != "ok"]
    except (apsw.CorruptError, UnicodeDecodeError) as error:
        return [f"SQLite: {error}"]


def find_damage(connection: apsw.Connection) -> list[Damage]:
    """Return all memories that are damaged."""
    damaged: list[Damage] = []
    for memories in memory_pages(connection, damaged):
        unhashed: list[Any] = connection.execute(
            "SELECT key, CAST(terms AS BLOB) FROM memories WHERE text_hash IS NULL AND key BETWEEN ? AND ?",
            (min(memories, default=0), max(memories, default=-1)),
        ).fetchall()
        damaged += [
            Damage(memories[key].id, NOT_ITS_TEXT)
            for key, terms in unhashed
            if key in memories and _differs(memories[key], terms)
        ]
    return damaged


def memory_pages(connection: apsw.Connection, damaged: list[Damage]) -> Iterator[dict[int, Memory]]:
    """Yield all memories in pages, by key. Those that are damaged are left out and added to `damaged`."""
    last: int | None = 0
    while last is not None:
        keys, last = scan_page(connection, after=last, limit=500)
        yield by_keys(connection, keys, damaged)


def _differs(memory: Memory, terms: bytes) -> bool:
    """Whether a memory that was stored without a hash of its text has neither its content hash nor its terms."""
    if not memory.content_hash or content_hash(memory.text) == memory.content_hash:
        return False
    return " ".join(index_terms(memory.indexed_text)).encode() != terms


def _words(connection: apsw.Connection) -> list[str]:
    missing = connection.execute(
        "SELECT count(*) FROM memories AS m LEFT JOIN words_docsize AS d ON d.id = m.key WHERE d.id IS NULL"
    ).get
    stray = connection.execute(
        "SELECT count(*) FROM words_docsize AS d LEFT JOIN memories AS m ON m.key = d.id WHERE m.key IS NULL"
    ).get
    lines = [counted(missing, "memory is", "memories are") + " missing from the keyword index"] if missing else []
    entries = ("entry of the keyword index belongs to no memory", "entries of the keyword index belong to no memory")
    return [*lines, counted(stray, *entries)] if stray else lines


def _totals(connection: apsw.Connection) -> list[str]:
    frequencies: Counter[tuple[int, str]] = Counter()
    totals: dict[int, tuple[int, int]] = {}
    for profile, text in connection.execute("SELECT profile, CAST(terms AS BLOB) FROM memories"):
        terms = (text or b"").decode(errors="replace").split()  # a damaged row may have none
        frequencies.update((profile, term) for term in set(terms))
        memories, length = totals.get(profile, (0, 0))
        totals[profile] = memories + 1, length + len(terms) + SCOPE_TOKENS
    stored = connection.execute("SELECT profile, term, memories FROM term_counts")
    lines = []
    if {(profile, term): memories for profile, term, memories in stored} != frequencies:
        lines.append("the document frequencies differ from the memories")
    in_use = connection.execute("SELECT id, memories, terms FROM profiles WHERE memories <> 0 OR terms <> 0")
    if {profile: (memories, terms) for profile, memories, terms in in_use} != totals:
        lines.append("the count of memories is wrong")
    return lines


def _vectors(connection: apsw.Connection) -> list[str]:
    stray = connection.execute(
        "SELECT count(*) FROM vectors AS v LEFT JOIN memories AS m ON m.key = v.memory WHERE m.key IS NULL"
    ).get
    wrong = connection.execute(f"SELECT count(DISTINCT memory) FROM ({WRONG_LENGTHS})").get  # noqa: S608 - our own
    lines = [counted(stray, "vector belongs", "vectors belong") + " to no memory"] if stray else []
    if wrong:
        memories = counted(wrong, "memory has a vector", "memories have vectors")
        lines.append(f"{memories} of the wrong length, which no search uses; run: retentive doctor --repair")
    return lines


def _blocks(connection: apsw.Connection) -> list[str]:
    """Compare every slot of the blocks with its vector and its memory."""
    wrong = 0
    models: list[Any] = connection.execute("SELECT id, dimension FROM models").fetchall()
    for model, dimension in models:
        expected = {
            slot: (memory, profile, project, session, kind, half)
            for slot, half, memory, profile, project, session, kind in connection.execute(
                """
                SELECT v.slot, v.embedding, m.key, m.profile, coalesce(m.project, 0), coalesce(m.session, 0), m.kind
                FROM vectors AS v JOIN memories AS m ON m.key = v.memory WHERE v.slot >> 40 = ?
                """,
                (model,),
            )
        }
        blocks = connection.execute("SELECT id * 1024, slots FROM blocks WHERE model = ?", (model,))
        for first, data in blocks:
            records = np.frombuffer(data, record_type(dimension))
            for at in np.flatnonzero(records["memory"]):
                record = records[at]
                *scope, half = expected.pop(first + int(at), (0, 0, 0, 0, 0, b""))
                if half and len(half) != 2 * dimension:
                    continue  # reported with the vectors
                stored = [int(record[name]) for name in ("memory", "profile", "project", "session", "kind")]
                vector = np.frombuffer(half, "<f2").astype(np.float32)
                wrong += stored != scope or not np.array_equal(signs(vector[None, :])[0], record["code"])
        wrong += len(expected)
    entries = (
        "entry of the vector index does not match its vector",
        "entries of the vector index do not match their vectors",
    )
    return [counted(wrong, *entries)] if wrong else []
