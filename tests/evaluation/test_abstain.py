"""How well relevance separates queries with an answer from those without one."""

from __future__ import annotations

import numpy as np
import pytest

from retentive.evaluation import evaluate, read_evaluation_set
from retentive.evaluation.abstain import auroc, bins, calibration_error, other_projects
from retentive.evaluation.report import report_html
from tests.evaluation.build import write_set


def test_auroc_is_the_share_of_pairs_in_the_right_order():
    assert auroc(np.array([0.9, 0.4]), np.array([0.5, 0.4])) == pytest.approx((2 + 0 + 0.5) / 4)


def test_the_calibration_error_is_the_mean_distance_of_the_bins():
    values, labels = np.array([0.95, 0.95, 0.15, 0.15]), np.array([1.0, 0.0, 0.0, 0.0])

    assert calibration_error(values, labels) == pytest.approx(0.5 * 0.45 + 0.5 * 0.15)
    assert [one.count for one in bins(values, labels)] == [0, 2, 0, 0, 0, 0, 0, 0, 0, 2]


def test_each_query_is_asked_in_another_project_and_the_report_draws_the_diagram(tmp_path):
    read = read_evaluation_set(write_set(tmp_path / "set"))

    done = evaluate(read, names=["default"], abstaining=True)

    assert set(other_projects(read.queries).values()) == {"anna", "carl"}
    found = done.to_dict()["abstain"]
    assert found["elsewhere"] == "in another project"
    assert found["queries"] == 6
    assert {"auroc", "lost", "abstained", "calibration_error"} < found.keys()
    assert found["auroc"] > 0.6
    assert len(found["bins"]) == 10
    page = report_html(done)
    assert "Reliability" in page
    assert "answerable" in page


def test_a_set_of_one_project_is_asked_without_the_relevant_sessions(tmp_path):
    corpus = [
        {"_id": f"d{at}", "title": "", "text": text} for at, text in enumerate(("The key is here", "A dog barks"))
    ]
    queries = [{"_id": "q", "text": "Where is the key?"}]
    folder = write_set(tmp_path / "set", corpus=corpus, queries=queries, qrels="query-id\tcorpus-id\tscore\nq\td0\t1\n")

    done = evaluate(read_evaluation_set(folder), names=["default"], abstaining=True)

    assert done.abstention is not None
    assert done.abstention.elsewhere == "without the sessions of its relevant memories"
    assert done.abstention.auroc == 1.0
