"""The cache embeds each text once, keeps the order, and stores no failure."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from retentive.errors import Unavailable
from retentive.inference.embedders import CachedEmbedder, Embedder, Matrix
from retentive.inference.embedders.disk_cache import DiskCachedEmbedder
from retentive.models import Model


class Counting(Embedder):
    """An embedder that records its calls."""

    model = Model(name="counting", revision="", dimension=2, fingerprint="c0")

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.down = False
        self.closed = False

    def embed(self, texts: Sequence[str]) -> Matrix:
        self.calls.append(list(texts))
        if self.down:
            raise Unavailable("down")
        return np.array([vector(text) for text in texts], dtype=np.float32).reshape(len(texts), 2)

    def split(self, text: str) -> list[str]:
        return text.split("|")

    def close(self) -> None:
        self.closed = True


def vector(text: str) -> list[float]:
    angle = float(sum(text.encode()))
    return [float(np.cos(angle)), float(np.sin(angle))]


@pytest.fixture
def inner() -> Counting:
    return Counting()


def test_a_text_seen_before_is_not_embedded_again(inner: Counting) -> None:
    cached = CachedEmbedder(inner)
    first = cached.embed(["tea"])
    assert np.array_equal(cached.embed(["tea"]), first)
    assert inner.calls == [["tea"]]


def test_distinct_missing_texts_are_embedded_in_one_call_and_rows_keep_their_order(inner: Counting) -> None:
    cached = CachedEmbedder(inner)
    cached.embed(["b"])
    rows = cached.embed(["c", "b", "a", "c", "b"])
    assert inner.calls == [["b"], ["c", "a"]]
    assert np.allclose(rows, [vector(text) for text in "cbacb"])


def test_the_least_recently_used_text_is_evicted_first(inner: Counting) -> None:
    cached = CachedEmbedder(inner, size=2)
    cached.embed(["a"])
    cached.embed(["b"])
    cached.embed(["a"])
    cached.embed(["c"])
    cached.embed(["a"])
    cached.embed(["b"])
    assert inner.calls == [["a"], ["b"], ["c"], ["b"]]


def test_a_call_larger_than_the_cache_is_answered_whole(inner: Counting) -> None:
    rows = CachedEmbedder(inner, size=1).embed(["a", "b", "c"])
    assert np.allclose(rows, [vector(text) for text in "abc"])


@pytest.mark.parametrize("texts", [["a"], ["a", "b"]])
def test_the_result_is_read_only(inner: Counting, texts: list[str]) -> None:
    with pytest.raises(ValueError, match="read-only"):
        CachedEmbedder(inner).embed(texts)[0, 0] = 9


def test_a_cached_row_is_returned_without_copying_and_does_not_keep_its_batch_in_memory(inner: Counting) -> None:
    cached = CachedEmbedder(inner)
    cached.embed(["a", "b"])
    first, second = cached.embed(["a"]), cached.embed(["a"])
    assert np.shares_memory(first, second)
    assert first.base is not None
    assert first.base.nbytes == first.nbytes


def test_a_failure_is_raised_and_nothing_is_cached(inner: Counting) -> None:
    cached = CachedEmbedder(inner)
    inner.down = True
    with pytest.raises(Unavailable, match="down"):
        cached.embed(["a"])
    inner.down = False
    assert np.allclose(cached.embed(["a"]), [vector("a")])


def test_no_texts_give_no_rows(inner: Counting) -> None:
    assert CachedEmbedder(inner).embed([]).shape == (0, 2)


def test_model_split_and_close_are_those_of_the_wrapped_embedder(inner: Counting) -> None:
    cached = CachedEmbedder(inner)
    assert cached.model == inner.model
    assert cached.split("a|b") == ["a", "b"]
    cached.close()
    assert inner.closed


def test_a_cached_text_is_not_split_because_it_was_embedded_whole(inner: Counting) -> None:
    cached = CachedEmbedder(inner)
    cached.embed(["a|b"])
    assert cached.split("a|b") == ["a|b"]
    assert cached.split("b|c") == ["b", "c"]


@pytest.mark.parametrize(
    "wrap", [CachedEmbedder, DiskCachedEmbedder, lambda one: DiskCachedEmbedder(CachedEmbedder(one))]
)
def test_a_wrapper_computes_in_process_if_the_wrapped_embedder_does(
    inner: Counting, wrap: Callable[[Embedder], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    local = Counting()
    local.in_process = True
    remote, here = wrap(inner), wrap(local)
    assert (remote.in_process, here.in_process) == (False, True)
    remote.close()
    here.close()


def test_abilities_of_a_wrapped_embedder_are_found_through_any_number_of_wrappers(
    inner: Counting, tmp_path: Path
) -> None:
    class Tokenizing(Counting):
        has_tokenizer = True

        def count_tokens(self, text: str) -> int:
            return len(text.split())

        def reads_whole(self, text: str) -> bool:
            return len(text) < 4

    tokenizing = Tokenizing()
    wrapped = CachedEmbedder(DiskCachedEmbedder(CachedEmbedder(tokenizing), tmp_path / "vectors.db"))
    assert wrapped.has_tokenizer
    assert wrapped.count_tokens("one two") == 2
    assert wrapped.reads_whole("tea")
    assert not wrapped.reads_whole("coffee")
    assert not CachedEmbedder(inner).has_tokenizer
    assert not CachedEmbedder(inner).reads_whole("a|b")
    wrapped.close()


def test_threads_share_it_and_all_get_the_right_rows(inner: Counting) -> None:
    cached = CachedEmbedder(inner, size=3)
    together = threading.Barrier(4)

    def work(offset: int) -> bool:
        together.wait()
        texts = [str((offset + step) % 7) for step in range(200)]
        return all(np.allclose(cached.embed([text]), [vector(text)]) for text in texts)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))
