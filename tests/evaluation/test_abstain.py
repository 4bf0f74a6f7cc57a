"""What `eval --abstain` measures: how relevance separates what answers from what does not, and what a prompt gets."""

from __future__ import annotations

import json

import numpy as np
import pytest

from retentive.engine import Engine
from retentive.errors import Invalid
from retentive.evaluation import evaluate, read_evaluation_set
from retentive.evaluation.abstain import abstain, auroc, calibration_error, other_projects
from retentive.evaluation.own_judgements import evaluate_own
from retentive.evaluation.report import report_html, report_markdown
from retentive.evaluation.run import load
from retentive.models import JUDGED_MIN_RELEVANCE
from retentive.stores.in_memory import InMemoryStore
from tests.evaluation.build import MEMORY_LINES, QUERIES, QUERY_LINES, write_set

CATEGORIES = {"q3": "adversarial", "q4": "prompt"}
UNANSWERABLE = [
    ("n1", "anna", "never", "Where is the dentist?"),
    ("n2", "carl", "never", "Which opera has the piano?"),
    ("i1", "anna", "idle", "Shorten the letter to the plumber"),
    ("i2", "carl", "idle", "Sort the flight list"),
]


class Answers:
    """A judge that knows the answers: certain of them, unsure of the piano, and sure that nothing else helps."""

    name = "answers"

    def score(self, query, readings, *, deadline):
        texts = {line["_id"]: line["text"] for line in MEMORY_LINES}
        right = {texts[id] for _, _, _, asked, answers in QUERIES if asked == query for id in answers}
        unsure = {text for text in right if "piano" in text}
        return [-5.0 if one.text in unsure else 12.0 if one.text in right else -12.0 for one in readings]


@pytest.fixture
def folder(tmp_path):
    """The tiny set with a trap, a prompt, and queries without an answer."""
    queries = [
        {**line, "metadata": {**line["metadata"], "category": CATEGORIES.get(line["_id"], "answer")}}
        for line in QUERY_LINES
    ]
    folder = write_set(tmp_path / "set", queries=queries)
    unanswerable = [
        {"_id": id, "text": text, "metadata": {"project": project, "category": category}}
        for id, project, category, text in UNANSWERABLE
    ]
    (folder / "unanswerable.json").write_text(json.dumps(unanswerable), encoding="utf-8")
    return folder


def measured(folder, judge=None, parameters=None):
    """The set in an engine of words, with a judge that knows the answers."""
    read = read_evaluation_set(folder)
    with Engine(InMemoryStore(), None, judge=judge or Answers()) as engine:
        load(engine, read)
        return abstain(engine, read, parameters=parameters)


def test_auroc_is_the_share_of_pairs_in_the_right_order():
    assert auroc(np.array([0.9, 0.4]), np.array([0.5, 0.4])) == pytest.approx((2 + 0 + 0.5) / 4)


def test_the_calibration_error_is_the_mean_distance_of_the_bins():
    values, labels = np.array([0.95, 0.95, 0.15, 0.15]), np.array([1.0, 0.0, 0.0, 0.0])

    assert calibration_error(values, labels) == pytest.approx(0.5 * 0.45 + 0.5 * 0.15)


def test_queries_without_an_answer_are_part_of_a_set_and_of_no_other_metric(folder):
    read = read_evaluation_set(folder)

    assert [(query.id, query.kind) for query in read.unanswerable] == [
        ("n1", "never"),
        ("n2", "never"),
        ("i1", "idle"),
        ("i2", "idle"),
    ]
    assert [query.kind for query in read.queries] == ["answer", "answer", "never", "prompt", "answer", "answer"]
    assert read.notes == ()
    done = evaluate(read, names=["keyword"])
    assert done.to_dict()["n"] == 6
    assert done.rows[0].run.found.keys() == {"q1", "q2", "q3", "q4", "q5", "q6"}


def test_a_list_of_unanswerable_queries_that_is_none_is_refused(folder):
    (folder / "unanswerable.json").write_text('{"_id": "n1"}', encoding="utf-8")

    with pytest.raises(Invalid, match=r"unanswerable\.json: expected a list"):
        read_evaluation_set(folder)


def test_three_protocols_compare_answerable_queries_with_others_at_the_threshold_of_prompts(folder):
    found = measured(folder)

    assert (found.judged, found.min_relevance) == (True, JUDGED_MIN_RELEVANCE)
    by_name = {one.protocol: one for one in found.protocols}
    assert {name: (one.answerable, one.unanswerable) for name, one in by_name.items()} == {
        "never": (4, 3),  # the trap counts as never said
        "idle": (1, 2),  # against the prompt
        "elsewhere": (5, 5),
    }
    assert by_name["idle"].auroc == 1.0
    assert by_name["never"].lost == 0.25  # the piano, of which the judge is unsure
    assert by_name["idle"].abstained == 1.0
    assert by_name["elsewhere"].abstained == 0.6  # there is a key in both households
    assert by_name["never"].abstained == pytest.approx(2 / 3)  # the judge falls for the trap


def test_what_kinds_of_queries_get_is_counted_with_the_filter_and_without(folder):
    found = measured(folder)
    unfiltered = measured(folder, parameters={"judge": "order", "min_relevance": 0})

    assert found.given["idle"].notes == found.given["idle"].tokens == 0
    assert found.given["answer"].notes == 0.25  # the key; words do not find the pet and the race
    assert found.given["answer"].tokens > 10
    assert unfiltered.given["idle"].notes > 0
    assert unfiltered.given["answer"].tokens > found.given["answer"].tokens


def test_evidence_is_what_fits_into_a_budget_best_first(tmp_path):
    """The judge finds two long notes that answer, but is surer of the one that is not labelled."""
    corpus = [
        {"_id": "best", "text": "The key: " + "under the pot " * 300},
        {"_id": "labelled", "text": "The key again: " + "under the pot " * 60},
    ]
    queries = [{"_id": "q", "text": "Where is the key?"}]
    folder = write_set(
        tmp_path / "set", corpus=corpus, queries=queries, qrels="query-id\tcorpus-id\tscore\nq\tlabelled\t1\n"
    )

    class Both:
        name = "both"

        def score(self, query, readings, *, deadline):
            return [5.0 if "again" not in one.text else 4.0 for one in readings]

    (elsewhere,) = measured(folder, Both()).protocols

    assert elsewhere.evidence == {"400": 0.0, "1000": 0.0, "2000": 1.0}
    assert measured(folder, Both()).given["answer"].notes == 2


def test_calibration_is_measured_by_kind_of_text(tmp_path):
    long = "The key " + "and the door " * 20
    corpus = [
        {"_id": "note", "text": "The key is here"},
        {"_id": "turn", "text": "The key is there", "metadata": {"speaker": "Ana"}},
        {"_id": "long", "text": long, "metadata": {"speaker": "Ana"}},
    ]
    queries = [{"_id": "q", "text": "Where is the key?"}]
    folder = write_set(
        tmp_path / "set", corpus=corpus, queries=queries, qrels="query-id\tcorpus-id\tscore\nq\tturn\t1\n"
    )

    class Sure:
        name = "sure"

        def score(self, query, readings, *, deadline):
            return [14.0] * len(readings)

    found = measured(folder, Sure())

    assert {kind: one.hits for kind, one in found.calibration.items()} == {
        "notes": 1,
        "turns to 40 words": 1,
        "longer turns": 1,
    }
    assert found.calibration["notes"].error > 0.9
    assert found.calibration["turns to 40 words"].error < 0.1
    assert (found.calibration["notes"].given, found.calibration["notes"].relevant) == (1, 0.0)


def test_a_set_of_one_project_is_asked_without_the_relevant_sessions(tmp_path):
    corpus = [{"_id": f"d{at}", "text": text} for at, text in enumerate(("The key is here", "A dog has a key"))]
    queries = [{"_id": "q", "text": "Where is the key?"}]
    folder = write_set(tmp_path / "set", corpus=corpus, queries=queries, qrels="query-id\tcorpus-id\tscore\nq\td0\t1\n")

    found = measured(folder)

    assert found.elsewhere == "without the sessions of its relevant memories"
    assert found.given["elsewhere"].queries == 1
    assert set(other_projects(read_evaluation_set(folder).queries).values()) == set()


def test_own_judgements_of_good_and_bad_memories_measure_hits():
    with Engine(InMemoryStore(), None, judge=Answers()) as engine:
        ids = {line["_id"]: engine.remember(line["text"]).id for line in MEMORY_LINES}
        engine.judge("Where is the spare key?", good=[ids["a1"]], bad=[ids["c1"]])
        engine.judge("Which cat eats the piano?", bad=[ids["a3"], ids["c6"]])

        done = evaluate_own(engine, abstaining=True)

    found = done.abstention
    assert found is not None
    assert len(done.queries) == 1
    assert sum(one.hits for one in found.calibration.values()) == 4
    assert found.hit_auroc > 0.8  # the judge takes both keys for right


def test_the_reports_have_the_figures_and_the_real_judge_gives_them(folder):
    done = evaluate(read_evaluation_set(folder), names=["default"], abstaining=True)

    found = done.to_dict()["abstain"]
    assert found["judged"]
    assert [one["protocol"] for one in found["protocols"]] == ["never", "idle", "elsewhere"]
    assert found["protocols"][2]["auroc"] > 0.6
    assert found["given"]["answer"]["notes"] >= 0.5
    assert found["protocols"][0]["evidence"].keys() == {"400", "1000", "2000"}
    assert "never said in the same conversation" in report_html(done)
    page = report_markdown(done)
    assert "| never said in the same conversation | 4 + 3 |" in page
    assert "## Given to a query, on average" in page
