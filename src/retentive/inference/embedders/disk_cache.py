"""Vectors kept on disk by the text they are of, for work that embeds the same texts again and again.

Only measuring uses it. An ordinary store keeps its vectors inside itself: what a user forgets must be gone.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from time import monotonic, sleep
from typing import TypeVar

import apsw
import numpy as np
from platformdirs import user_cache_path

from retentive.inference.embedders import Embedder, Matrix
from retentive.models import Model

log = logging.getLogger(__name__)

WAIT_MS = 60_000
"""How long one process waits for another that writes."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS vectors (model TEXT, text BLOB, vector BLOB NOT NULL, PRIMARY KEY (model, text))
"""
_GET = "SELECT vector FROM vectors WHERE model = ? AND text = ?"
_PUT = "INSERT OR IGNORE INTO vectors (model, text, vector) VALUES (?, ?, ?)"

_T = TypeVar("_T")


def default_cache() -> Path:
    """Where vectors are kept if nothing else is said."""
    return user_cache_path("retentive") / "embeddings.db"


class DiskCachedEmbedder:
    """An embedder that asks another one only for texts whose vectors are not in a file.

    The file is keyed by the model and by a digest of the text; no text is written. Threads and processes may share it.
    A file that cannot be used costs time and never an error.
    """

    def __init__(self, inner: Embedder, path: Path | None = None) -> None:
        self._inner = inner
        self._path = path or default_cache()
        self._lock = threading.Lock()
        self._file: apsw.Connection | None = None
        self._file = self._try(self._open, None)

    @property
    def model(self) -> Model:
        """Whose vectors these are."""
        return self._inner.model

    def embed(self, texts: Sequence[str]) -> Matrix:
        """One unit vector a text; only distinct texts not in the file reach the embedder, in one call."""
        if not texts:
            return self._inner.embed(texts)
        digests = {text: hashlib.blake2b(text.encode(), digest_size=20).digest() for text in texts}
        rows = self._read(digests)
        missing = [text for text in digests if text not in rows]
        if missing:
            made = self._inner.embed(missing)
            rows |= dict(zip(missing, made, strict=True))
            self._write([(digests[text], rows[text]) for text in missing])
        return np.stack([rows[text] for text in texts])

    def split(self, text: str) -> list[str]:
        """The text in parts that the model can read whole."""
        return self._inner.split(text)

    def close(self) -> None:
        """Let go of the file and close the embedder behind."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None
        self._inner.close()

    @cached_property
    def _key(self) -> str:
        # The revision too: a local model pooled in another way has the same weights and other vectors.
        return f"{self.model.fingerprint}/{self.model.revision}/{self.model.dimension}"

    def _open(self) -> apsw.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = apsw.Connection(str(self._path))
        try:
            file.set_busy_timeout(WAIT_MS)
            _use_wal(file)
            file.execute("PRAGMA synchronous = NORMAL")
            file.execute(_SCHEMA)
        except apsw.Error:
            file.close()
            raise
        return file

    def _read(self, digests: dict[str, bytes]) -> dict[str, Matrix]:
        size = 4 * self.model.dimension

        def read() -> dict[str, Matrix]:
            found = {}
            for text, digest in digests.items():
                for (blob,) in self._file.execute(_GET, (self._key, digest)) if self._file else ():
                    if isinstance(blob, bytes) and len(blob) == size:
                        found[text] = np.frombuffer(blob, "<f4")
            return found

        return self._try(read, {})

    def _write(self, rows: Sequence[tuple[bytes, Matrix]]) -> None:
        def write() -> None:
            if self._file is not None:
                # One transaction, and one that takes the lock at once: a reader that turns writer cannot wait.
                self._file.execute("BEGIN IMMEDIATE")
                try:
                    given = [(self._key, digest, np.asarray(row, "<f4").tobytes()) for digest, row in rows]
                    self._file.executemany(_PUT, given)
                    self._file.execute("COMMIT")
                except BaseException:
                    self._file.execute("ROLLBACK")
                    raise

        self._try(write, None)

    def _try(self, work: Callable[[], _T], otherwise: _T) -> _T:
        """What the work gives, one thread at a time; if the file fails, it is not asked again."""
        with self._lock:
            try:
                return work()
            except (apsw.Error, OSError) as error:
                log.warning("embeddings are not cached: %s: %s", self._path, error)
                if self._file is not None:
                    self._file.close()
                    self._file = None
                return otherwise


def _use_wal(file: apsw.Connection) -> None:
    """Let readers go on while somebody writes."""
    deadline = monotonic() + WAIT_MS / 1000
    while True:
        try:
            file.execute("PRAGMA journal_mode = WAL").fetchall()
            return
        except apsw.BusyError:
            # SQLite does not wait here by itself: processes that make the file at once would fail.
            if monotonic() > deadline:
                raise
        sleep(0.005)
