"""The report is one page that needs nothing else, and no text of a set can act in it."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from retentive.evaluation import CorpusStats, Evaluation, EvaluationQuery, EvaluationSet, summarise
from retentive.evaluation.metrics import METRICS, measure
from retentive.evaluation.report import Dot, panel, report_html, scatter
from retentive.evaluation.run import SystemRun, systems
from retentive.evaluation.statistics import ConfidenceInterval
from retentive.models import Model

ATTACK = "<script>alert('x')</script><img src=x onerror=\"alert(1)\">"


class Elements(HTMLParser):
    """The elements of a page with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


@pytest.fixture
def done() -> Evaluation:
    queries = (
        EvaluationQuery("q1", f"won {ATTACK}", {"a": 1}, category=ATTACK),
        EvaluationQuery("q2", "lost & found", {"b": 1}, category="other"),
        EvaluationQuery("q3", "tied", {"c": 1}, category="other"),
    )
    found = {
        "keyword": {"q1": ("x", "a"), "q2": ("b",), "q3": ("c",)},
        "semantic": {"q1": (), "q2": (), "q3": ("c",)},
        "default": {"q1": ("a",), "q2": ("x", "b"), "q3": ("c",)},
    }
    rows = [
        SystemRun(system.name, system.tuning, found[system.name], measure(queries, found[system.name]), np.ones(3))
        for system in systems(list(found))
    ]
    judged = EvaluationSet(ATTACK, queries, CorpusStats(3, 0, 0, 1.0, 3.0), lambda: iter(()), (ATTACK,))
    return summarise(judged, rows, model=Model(ATTACK, "", 2, "f" * 64), baseline="keyword")


def test_text_of_a_set_stays_text(done: Evaluation):
    page = report_html(done)

    assert "&lt;script&gt;alert(&#x27;x&#x27;)" in page
    tags = {tag for tag, _ in Elements(page).found}
    assert not tags & {"script", "img", "iframe", "link", "object"}
    assert not [name for _, attributes in Elements(page).found for name in attributes if name.startswith("on")]


def test_the_page_needs_nothing_else_and_allows_nothing_but_its_own_style(done: Evaluation):
    page = report_html(done)
    elements = Elements(page).found
    style = re.search("<style>(.*?)</style>", page, flags=re.DOTALL)
    policies = [attributes["content"] for tag, attributes in elements if "http-equiv" in attributes]

    assert style
    digest = base64.b64encode(hashlib.sha256(style.group(1).encode()).digest()).decode()
    assert policies == [f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"]
    names = {name for _, attributes in elements for name in attributes}
    assert not names & {"src", "href", "style"}


def test_wins_and_losses_are_listed_with_the_places_of_the_answers(done: Evaluation):
    page = report_html(done)

    assert "default against keyword: won 1, lost 1, tied 1" in page
    assert "default against semantic: won 2, lost 0, tied 1" in page
    lost = page.split("<summary>Lost 1</summary>")[1].split("</details>")[0]
    assert "lost &amp; found</th><td>other</td><td>#2</td><td>#1</td>" in lost


def test_there_is_a_panel_for_each_metric_and_two_for_each_category(done: Evaluation):
    titles = [attributes["aria-label"] for tag, attributes in Elements(report_html(done)).found if tag == "svg"]

    assert titles[: len(METRICS)] == list(METRICS)
    assert len(titles) == len(METRICS) + 2 * 2 + 2
    assert "other (n = 2): any@5" in titles


def test_a_dot_stands_between_the_ends_of_its_interval_and_the_best_is_furthest_right():
    dots = [
        Dot("worse", 0.2, ConfidenceInterval(0.1, 0.3)),
        Dot("better", 0.6, ConfidenceInterval(0.5, 0.7), chosen=True),
    ]

    drawn = ET.fromstring(panel("any@5", dots, metric="any@5"))

    groups = drawn.findall("g")
    places = []
    for group in groups:
        line, circle = group.find("line"), group.find("circle")
        assert line is not None
        assert circle is not None
        x = float(circle.attrib["cx"])
        assert float(line.attrib["x1"]) < x < float(line.attrib["x2"])
        places.append(x)
    assert places[0] < places[1]
    assert [group.attrib["class"] for group in groups] == ["dot", "dot chosen"]


def test_a_panel_of_values_that_are_all_the_same_can_be_drawn():
    assert "nan" not in panel("MRR", [Dot("only", 1.0, ConfidenceInterval(1.0, 1.0))], metric="MRR")


def test_queries_above_the_diagonal_were_won_and_those_below_lost():
    drawn = ET.fromstring(scatter("t", [(0, 1), (0, 1), (1, 0), (1, 1)], across="a", up="b"))

    discs = {disc.attrib["class"]: disc for disc in drawn.findall("circle")}
    assert discs.keys() == {"won", "lost", "tied"}
    assert float(discs["won"].attrib["cy"]) < float(discs["lost"].attrib["cy"])
    assert float(discs["won"].attrib["r"]) > float(discs["lost"].attrib["r"])
    title = discs["won"].find("title")
    assert title is not None
    assert title.text == "2 queries near a 0.00, b 1.00"
