"""Results in notebooks: HTML with bars and escaped texts, tables of other libraries, and progress."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from retentive import MissingExtra, show_progress
from retentive.engine import Engine
from retentive.evaluation.evaluate import Evaluation, SystemResult
from retentive.evaluation.evaluation_set import CorpusStats, EvaluationQuery
from retentive.evaluation.metrics import METRICS
from retentive.evaluation.run import SystemRun
from retentive.evaluation.search_space import TuningScores
from retentive.evaluation.statistics import ConfidenceInterval
from retentive.evaluation.tune import HeldOut, TuningResult
from retentive.notebook import STEP_COLOURS, recall_columns
from retentive.ranking import Tuning

EVIL = "<script>alert('x')</script> & \"more\""


@pytest.fixture
def engine() -> Engine:
    opened = Engine.open("memory://", embedder="none")
    opened.remember(f"The key {EVIL}", project="<b>home", speaker="<i>Ana", session="s", occurred="2026-05-08")
    opened.remember("The key is under the pot", importance=1.0)
    return opened


def widths(html: str) -> list[int]:
    return [int(width) for width in re.findall(r"width:(\d+)px", html)]


def test_a_recall_is_a_table_with_a_bar_of_the_parts_of_each_score(engine):
    recall = engine.recall("where is the key?")
    html = recall._repr_html_()

    assert html.count("<tr>") == 1 + len(recall) == 3
    assert STEP_COLOURS["keyword"] in html
    assert f"{recall[0].score:.3f}" in html
    assert max(widths(html)) <= 220
    assert "keyword-only: no embedder is configured" in html
    assert engine.recall("zebra")._repr_html_().endswith("<p>no hits</p>")


@pytest.mark.parametrize("what", ["recall", "hit", "explanation"])
def test_texts_are_escaped(engine, what):
    recall = engine.recall(f"key {EVIL}")
    hit = next(hit for hit in recall if "alert" in hit.memory.text)
    shown = {"recall": recall, "hit": hit, "explanation": engine.explain(f"key {EVIL}", hit.id)}[what]
    html = shown._repr_html_()

    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt; &amp; &quot;more&quot;" in html
    assert "<script" not in html
    assert "<b>home" not in html
    assert "<i>Ana" not in html


def test_a_hit_shows_every_step_with_its_arithmetic(engine):
    hit = engine.recall("where is the key?")[0]
    html = hit._repr_html_()

    for reason in hit.why:
        assert f">{reason.step}</td>" in html
        assert f"{reason.change:+.4f}" in html


def test_an_explanation_says_why_a_memory_does_not_appear(engine):
    attic = engine.remember("The attic is dusty")
    explanation = engine.explain("where is the key?", attic.id)

    html = explanation._repr_html_()

    assert explanation.outcome == "not_found"
    assert "no term of the query occurs in it" in html
    assert "The attic is dusty" in html


def evaluation() -> Evaluation:
    values = {name: np.array([0.5]) for name in METRICS}
    runs = [SystemRun(name, Tuning(), {}, values, np.array([2.0])) for name in ("keyword", "<default>")]
    intervals = {name: ConfidenceInterval(0.4, 0.6) for name in METRICS}
    rows = tuple(
        SystemResult(run, {**dict.fromkeys(METRICS, share), "p50_ms": 2.0, "p95_ms": 3.0}, intervals, None, {})
        for run, share in zip(runs, (0.25, 0.5), strict=True)
    )
    query = EvaluationQuery("q", "where?", {"d": 1})
    return Evaluation("set & more", (query,), CorpusStats(4, 0, 0, 3.0, 4.0), None, {}, rows, "keyword", {})


def test_an_evaluation_is_a_table_with_bars_in_proportion():
    html = evaluation()._repr_html_()

    assert "&lt;default&gt;" in html
    assert widths(html) == [60, 120]
    assert "set &amp; more: 1 query over 4 memories" in html


def test_the_result_of_a_search_for_parameters_has_the_gain_and_the_changes():
    interval = ConfidenceInterval(0.1, 0.3)
    one = HeldOut(0.5, interval, 0.7, interval, 0.2, interval, 0.004)
    best = Tuning().with_parameters(keyword_weight=2.0)
    scores = TuningScores.__new__(TuningScores)
    result = TuningResult("own", "nDCG@10", 20, 20, 5, "query", 9, Tuning(), best, {"nDCG@10": one}, scores)

    html = result._repr_html_()

    assert "+0.200 (+0.100 to +0.300)" in html
    assert f"keyword_weight: {Tuning().keyword_weight} → 2.0" in html


def test_a_recall_has_a_column_for_each_field_and_each_step(engine):
    recall = engine.recall("where is the key?")
    columns = recall_columns(recall)

    assert columns["rank"] == [1, 2]
    assert columns["id"] == [hit.id for hit in recall]
    assert columns["when"][columns["session"].index("s")] == datetime(2026, 5, 8, tzinfo=UTC)
    changes = [values for name, values in columns.items() if name.endswith("_change")]
    for at, hit in enumerate(recall):
        assert sum(values[at] or 0 for values in changes) == pytest.approx(hit.score)


@pytest.mark.parametrize(
    ("method", "package", "function"), [("to_pandas", "pandas", "DataFrame"), ("to_arrow", "pyarrow", "table")]
)
def test_a_recall_is_a_table_of_another_library_that_is_imported_when_it_is_used(
    engine, monkeypatch, method, package, function
):
    recall = engine.recall("where is the key?")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"{method}\(\) needs {package}: pip install {package}"):
        getattr(recall, method)()

    library = ModuleType(package)
    setattr(library, function, lambda columns: ("table", columns))
    monkeypatch.setitem(sys.modules, package, library)
    assert getattr(recall, method)() == ("table", recall_columns(recall))


def test_progress_is_a_bar_in_a_notebook_that_is_drawn_in_its_own_place(monkeypatch):
    shown: list[dict[str, str]] = []
    module, display = ModuleType("IPython"), ModuleType("IPython.display")
    module.get_ipython = lambda: SimpleNamespace(kernel=object())
    display.display = lambda data, **_: SimpleNamespace(update=lambda data, raw: shown.append(data))
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setitem(sys.modules, "IPython.display", display)

    with show_progress("<recalling>", total=200) as advance:
        for _ in range(200):
            advance(1)

    assert len(shown) <= 103
    assert shown[-1]["text/plain"] == "<recalling>: 200 of 200"
    assert "&lt;recalling&gt;: 200 of 200" in shown[-1]["text/html"]
    assert [widths(one["text/html"])[0] for one in (shown[0], shown[-1])] == [0, 220]


def test_progress_prints_nothing_where_there_is_neither_a_notebook_nor_a_terminal(capsys):
    with show_progress("recalling", total=None) as advance:
        advance(3)

    assert capsys.readouterr() == ("", "")
