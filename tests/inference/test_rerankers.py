"""The real cross-encoder."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from itertools import count
from time import monotonic

import pytest

from retentive.errors import Unavailable
from retentive.extras import pip_install
from retentive.inference import rerankers
from retentive.inference.rerankers import OnnxReranker

KEY = "The spare key is under the blue pot"


@pytest.fixture(scope="module")
def reranker():
    model = OnnxReranker()
    yield model
    model.close()


def soon() -> float:
    return monotonic() + 60


def test_a_relevant_text_scores_above_an_irrelevant_one(reranker):
    key, tax = reranker.score("where is the spare key?", [KEY, "The tax return is due"], deadline=soon())

    assert key > tax
    assert key > tax + 5


def test_the_score_of_a_text_does_not_depend_on_other_texts_its_position_or_its_thread(reranker):
    texts = [f"The key number {at} is under the pot " + "and so on " * (at % 4) for at in range(9)]

    together = reranker.score("where is key number 3?", texts, deadline=soon())
    backwards = reranker.score("where is key number 3?", texts[::-1], deadline=soon())
    with ThreadPoolExecutor(4) as threads:
        ask = threads.map(lambda text: reranker.score("where is key number 3?", [text], deadline=soon())[0], texts)
        alone = list(ask)

    assert together == backwards[::-1] == alone
    assert max(range(9), key=together.__getitem__) == 3


def test_of_a_long_text_the_beginning_is_read_and_of_a_long_query_all(reranker):
    long = KEY + " and so on" * 5000
    buried = "and so on " * 5000 + KEY
    query = "Tell me about the garden first. " * 20 + "Then where the {} is."

    beginning, end = reranker.score("where is the spare key?", [long, buried], deadline=soon())
    key, tax = (reranker.score(query.format(what), [long], deadline=soon())[0] for what in ("key", "tax"))

    assert beginning > end + 1
    assert key != tax


@pytest.mark.parametrize(
    "query",
    ["", "   ", "\x00", "🎉", "東京" * 400, "x" * 1_000_000, "a b " * 250_000],
    ids=lambda query: repr(query[:8]),
)
def test_any_text_is_a_safe_query_and_the_texts_are_still_scored(reranker, query):
    scores = reranker.score(query, ["", KEY, "東京" * 2000], deadline=soon())

    assert len(set(scores)) == 3


def test_no_text_gives_no_score(reranker):
    assert reranker.score("where?", [], deadline=soon()) == []


def test_at_the_deadline_it_stops(reranker, monkeypatch):
    with pytest.raises(Unavailable, match="in time"):
        reranker.score("where?", [KEY] * 30, deadline=monotonic())
    seconds, read = count(), []
    monkeypatch.setattr(rerankers, "monotonic", lambda: next(seconds))  # a second passes with each look at the clock
    monkeypatch.setattr(
        rerankers, "_run", lambda model, query, texts: [float(read.append(text) or 0) for text in texts]
    )
    monkeypatch.setattr(type(reranker._load().model), "texts_at_once", 1)

    with pytest.raises(Unavailable, match="in time"):
        reranker.score("where?", [KEY] * 500, deadline=20)

    assert len(read) == 20


def test_nothing_is_loaded_before_the_first_query(monkeypatch):
    monkeypatch.setattr("retentive.inference.loading.load", lambda directory: pytest.fail("the model was loaded"))

    OnnxReranker().close()


def test_a_missing_a_broken_and_another_model_are_named(monkeypatch, tmp_path):
    monkeypatch.setattr("retentive.inference.loading.MODELS", tmp_path)
    with pytest.raises(Unavailable, match=re.escape(pip_install(options="--force-reinstall"))):
        OnnxReranker().score("where?", [KEY], deadline=soon())
    (tmp_path / rerankers.RERANKER).mkdir()
    (tmp_path / rerankers.RERANKER / "model.onnx").write_bytes(b"broken")
    with pytest.raises(Unavailable, match="another model than expected"):
        OnnxReranker().score("where?", [KEY], deadline=soon())
    monkeypatch.setattr("retentive.inference.rerankers.RERANKER_SHA256", sha256(b"broken").hexdigest())
    with pytest.raises(Unavailable, match="cannot be loaded"):
        OnnxReranker().score("where?", [KEY], deadline=soon())
