"""Vectors are cached by text, across processes, and an unusable file is ignored."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import numpy as np
import pytest

from retentive.errors import Unavailable
from retentive.inference.embedders import Embedder, Matrix
from retentive.inference.embedders.disk_cache import DiskCachedEmbedder, default_cache
from retentive.inference.embedders.prefixes import PrefixedEmbedder
from retentive.models import Model


class Counting(Embedder):
    """An embedder that writes down what it is asked for."""

    def __init__(self, *, fingerprint: str = "f0", revision: str = "") -> None:
        self.model = Model("counting", revision, 3, fingerprint)
        self.asked: list[list[str]] = []
        self.down = False
        self.closed = False

    def embed(self, texts: Sequence[str]) -> Matrix:
        self.asked.append(list(texts))
        if self.down:
            raise Unavailable("down")
        rows = [[len(text), sum(text.encode()) % 97, 1.0] for text in texts]
        matrix = np.array(rows, np.float32).reshape(len(texts), 3)
        return matrix / np.linalg.norm(matrix, axis=1, keepdims=True)

    def split(self, text: str) -> list[str]:
        return text.split("|")

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "embeddings.db"


def test_a_second_run_embeds_nothing_and_gets_identical_vectors(path: Path):
    first, second = Counting(), Counting()
    cached = DiskCachedEmbedder(first, path)
    made = cached.embed(["tea", "coffee"])
    cached.close()

    again = DiskCachedEmbedder(second, path).embed(["coffee", "tea"])

    assert first.asked == [["tea", "coffee"]]
    assert second.asked == []
    assert np.array_equal(again, made[::-1])
    assert again.dtype == np.float32


def test_distinct_missing_texts_are_embedded_in_one_call_and_rows_keep_their_order(path: Path):
    inner = Counting()
    cached = DiskCachedEmbedder(inner, path)
    cached.embed(["b"])

    rows = cached.embed(["c", "b", "a", "c"])

    assert inner.asked == [["b"], ["c", "a"]]
    assert np.array_equal(rows, Counting().embed(["c", "b", "a", "c"]))


@pytest.mark.parametrize("other", [{"fingerprint": "f1"}, {"revision": "mean"}])
def test_vectors_of_another_model_are_not_used(path: Path, other: dict[str, str]):
    DiskCachedEmbedder(Counting(), path).embed(["tea"])
    inner = Counting(**other)

    DiskCachedEmbedder(inner, path).embed(["tea"])

    assert inner.asked == [["tea"]]


def test_no_text_is_written_to_the_file(path: Path):
    cached = DiskCachedEmbedder(Counting(), path)
    cached.embed(["a very private sentence"])
    cached.close()

    assert b"private" not in path.read_bytes()


def test_a_failure_is_raised_and_nothing_is_cached(path: Path):
    inner = Counting()
    cached = DiskCachedEmbedder(inner, path)
    inner.down = True
    with pytest.raises(Unavailable, match="down"):
        cached.embed(["tea"])
    inner.down = False

    assert np.array_equal(cached.embed(["tea"]), Counting().embed(["tea"]))


def test_a_file_that_is_not_a_cache_is_ignored_and_not_changed(path: Path, caplog):
    path.parent.mkdir()
    path.write_text("these are my notes and not a database\n" * 100)
    inner = Counting()

    cached = DiskCachedEmbedder(inner, path)

    assert np.array_equal(cached.embed(["tea"]), Counting().embed(["tea"]))
    assert "embeddings are not cached" in caplog.text
    assert path.read_text().startswith("these are my notes")


def test_a_folder_that_cannot_be_created_is_ignored(tmp_path: Path):
    (tmp_path / "file").write_text("")

    cached = DiskCachedEmbedder(Counting(), tmp_path / "file" / "embeddings.db")

    assert cached.embed(["tea"]).shape == (1, 3)


def test_a_vector_of_the_wrong_length_is_computed_again(path: Path):
    cached = DiskCachedEmbedder(Counting(), path)
    cached.embed(["tea"])
    cached.close()
    with apsw.Connection(str(path)) as file:
        file.execute("UPDATE vectors SET vector = x'00'")
    file.close()

    inner = Counting()

    assert DiskCachedEmbedder(inner, path).embed(["tea"]).shape == (1, 3)
    assert inner.asked == [["tea"]]


def test_threads_share_it(path: Path):
    cached = DiskCachedEmbedder(Counting(), path)

    def work(at: int) -> bool:
        texts = [str((at + step) % 13) for step in range(40)]
        return all(np.array_equal(cached.embed([text]), Counting().embed([text])) for text in texts)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))


def test_processes_share_it(path: Path):
    script = (
        "import sys; from pathlib import Path; from tests.inference.embedders.test_disk_cache import Counting\n"
        "from retentive.inference.embedders.disk_cache import DiskCachedEmbedder\n"
        "cached = DiskCachedEmbedder(Counting(), Path(sys.argv[1]))\n"
        "for at in range(100): cached.embed([f'{sys.argv[2]} {at}'])\n"
        "assert cached._file is not None\n"
    )
    root = Path(__file__).parents[3]
    started = [subprocess.Popen([sys.executable, "-c", script, str(path), name], cwd=root) for name in "abc"]
    assert [process.wait(60) for process in started] == [0, 0, 0]
    inner = Counting()

    DiskCachedEmbedder(inner, path).embed([f"{name} {at}" for name in "abc" for at in range(100)])

    assert inner.asked == []


def test_no_texts_give_no_rows_and_model_split_and_close_are_those_of_the_wrapped_embedder(path: Path):
    inner = Counting()
    cached = DiskCachedEmbedder(inner, path)

    assert cached.embed([]).shape == (0, 3)
    assert (cached.model, cached.split("a|b")) == (inner.model, ["a", "b"])
    cached.close()
    assert inner.closed


def test_the_default_file_is_in_the_users_cache_folder(monkeypatch, tmp_path: Path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    assert default_cache().name == "embeddings.db"
    assert default_cache().is_relative_to(tmp_path) or sys.platform != "linux"


def test_queries_with_another_prefix_are_embedded_again(path: Path):
    def embed(inner: Counting, prefix: str) -> Matrix:
        cached = DiskCachedEmbedder(PrefixedEmbedder(inner, query=prefix, document=""), path)
        return cached.embed_queries(["tea"])

    first, other, again = Counting(), Counting(), Counting()
    made = embed(first, "query: ")
    embed(other, "search: ")

    assert np.array_equal(embed(again, "query: "), made)
    assert (first.asked, other.asked, again.asked) == ([["query: tea"]], [["search: tea"]], [])
