"""A cache of vectors on disk, for work that embeds the same texts again and again.

Only evaluation uses it. An ordinary store holds its own vectors: what a user forgets must be deleted everywhere.
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

from retentive.inference.embedders import Embedder, EmbedderWrapper, Matrix

log = logging.getLogger(__name__)

BUSY_MS = 60_000
"""How long one process waits for the write lock of another."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS vectors (model TEXT, text BLOB, vector BLOB NOT NULL, PRIMARY KEY (model, text))
"""
_GET = "SELECT vector FROM vectors WHERE model = ? AND text = ?"
_PUT = "INSERT OR IGNORE INTO vectors (model, text, vector) VALUES (?, ?, ?)"

_T = TypeVar("_T")


def default_cache() -> Path:
    """Return the default path of the cache file."""
    return user_cache_path("retentive") / "embeddings.db"


class DiskCachedEmbedder(EmbedderWrapper):
    """Calls the wrapped embedder only for texts whose vectors are not in a file.

    The key is the model and a digest of the text, for a query also of the prefix before it; no text is written. Threads
    and processes can share the file. A file that cannot be used is logged and ignored.
    """

    def __init__(self, inner: Embedder, path: Path | None = None) -> None:
        super().__init__(inner)
        self._path = path or default_cache()
        self._lock = threading.Lock()
        self._file: apsw.Connection | None = None
        self._file = self._try(self._open, None)

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return one unit vector for each text; distinct texts not in the file are embedded in one call."""
        return self._look_up(texts, self.inner.embed)

    def embed_queries(self, texts: Sequence[str]) -> Matrix:
        """Return one unit vector for each query, as `embed` does."""
        if not self.separates_queries:
            return self.embed(texts)
        prefix = hashlib.blake2b(self.query_prefix.encode(), digest_size=20).digest() if self.query_prefix else b""
        return self._look_up(texts, self.inner.embed_queries, purpose=b"query", prefix=prefix)

    def _look_up(
        self,
        texts: Sequence[str],
        embed: Callable[[Sequence[str]], Matrix],
        *,
        purpose: bytes = b"",
        prefix: bytes = b"",
    ) -> Matrix:
        if not texts:
            return embed(texts)
        digests = {
            text: hashlib.blake2b(text.encode(), digest_size=20, person=purpose, key=prefix).digest() for text in texts
        }
        rows = self._read(digests)
        missing = [text for text in digests if text not in rows]
        if missing:
            made = embed(missing)
            rows |= dict(zip(missing, made, strict=True))
            self._write([(digests[text], rows[text]) for text in missing])
        return np.stack([rows[text] for text in texts])

    def close(self) -> None:
        """Close the file and the wrapped embedder."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None
        self.inner.close()

    @cached_property
    def _key(self) -> str:
        # The revision too: a local model pooled in another way has the same weights and other vectors.
        return f"{self.model.fingerprint}/{self.model.revision}/{self.model.dimension}"

    def _open(self) -> apsw.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = apsw.Connection(str(self._path))
        try:
            file.set_busy_timeout(BUSY_MS)
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
                # The transaction takes the write lock at its start: a reader that becomes a writer cannot wait.
                self._file.execute("BEGIN IMMEDIATE")
                try:
                    values = [(self._key, digest, np.asarray(row, "<f4").tobytes()) for digest, row in rows]
                    self._file.executemany(_PUT, values)
                    self._file.execute("COMMIT")
                except BaseException:
                    self._file.execute("ROLLBACK")
                    raise

        self._try(write, None)

    def _try(self, work: Callable[[], _T], otherwise: _T) -> _T:
        """Return the result of the work, one thread at a time; if the file fails, it is closed and not used again."""
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
    """Switch to write-ahead logging, so that a writer does not block readers."""
    deadline = monotonic() + BUSY_MS / 1000
    while True:
        try:
            file.execute("PRAGMA journal_mode = WAL").fetchall()
            return
        except apsw.BusyError:
            # SQLite does not wait here by itself: processes that create the file at the same time would fail.
            if monotonic() > deadline:
                raise
        sleep(0.005)
