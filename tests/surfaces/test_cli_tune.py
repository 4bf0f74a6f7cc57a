"""`retentive tune`."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET

import pytest

from retentive.engine import Engine
from retentive.evaluation import run as evaluation_run
from retentive.inference.embedders import disk_cache
from tests.evaluation.build import write_set
from tests.evaluation.test_tune import NoisyEmbedder
from tests.surfaces.test_cli import json_of, run

CODES = [f"{letter}{number}{letter}" for letter in "qxzjkvw" for number in (17, 29, 43)]
LEANING = ("keyword_weight=0", "neighbour_weight=0", "session_weight=0")


@pytest.fixture(autouse=True)
def _noise(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """A model to which nothing is like anything, so that whoever leans on meaning finds little."""
    monkeypatch.setattr("retentive.engine.open_embedder", lambda _: NoisyEmbedder())
    monkeypatch.setattr(evaluation_run, "open_embedder", lambda _: NoisyEmbedder())
    monkeypatch.setattr(disk_cache, "default_cache", lambda: tmp_path / "vectors.db")


@pytest.fixture
def judged_set(tmp_path) -> str:
    corpus = [
        {
            "_id": code,
            "text": f"Ticket {code} was closed after the usual checks.",
            "metadata": {"project": f"p{at % 2}"},
        }
        for at, code in enumerate(CODES)
    ]
    queries = [
        {"_id": f"of {code}", "text": f"What became of {code}?", "metadata": {"project": f"p{at % 2}"}}
        for at, code in enumerate(CODES)
    ]
    qrels = "".join(f"of {code}\t{code}\t1\n" for code in CODES)
    return str(write_set(tmp_path / "tickets", corpus=corpus, queries=queries, qrels=qrels))


def tune(*words: str, **options):
    return json_of("tune", *words, "--budget", "8", "--metric", "any@1", **options)


def test_a_better_tuning_is_saved_on_request(judged_set):
    run("config", "set", *LEANING)

    done = tune(judged_set, "--save")

    assert (done["verdict"], done["saved"], done["overridden"]) == ("better", True, [])
    figures = done["held_out"]["any@1"]
    assert figures["gain_interval"][0] > 0
    assert figures["before"] < figures["after"] == 1.0
    assert (done["set"], done["n"], done["folds"], done["folds_by"]) == ("tickets", 21, 2, "project")
    now = json_of("config")["tuning"]
    assert {parameter: now[parameter] for parameter in done["parameters"]} == {
        name: parameter["after"] for name, parameter in done["parameters"].items()
    }
    assert now["keyword_weight"] > 0


@pytest.mark.parametrize("words", [(), ("--dry-run",), ("--dry-run", "--save")])
def test_nothing_is_saved_unasked(judged_set, words):
    run("config", "set", *LEANING)
    before = json_of("config")["saved"]

    done = tune(judged_set, *words)

    assert (done["verdict"], done["saved"]) == ("better", False)
    assert json_of("config")["saved"] == before


def test_without_a_gain_the_tuning_does_not_change(judged_set):
    run("config", "set", "--preset", "keyword-only")

    result = run("tune", judged_set, "--budget", "4", "--metric", "any@1", "--save")

    assert "the tuning does not change" in result.stdout
    assert "held out" in result.stdout
    assert json_of("config")["tuning"]["semantic_weight"] == 0


def test_the_changes_are_printed_and_that_they_are_not_saved(judged_set):
    run("config", "set", *LEANING)

    shown = run("tune", judged_set, "--budget", "8", "--metric", "any@1").stdout

    assert "better on held-out queries in any@1" in shown
    assert re.search(r"keyword_weight: 0\.0 → \d", shown)
    assert "not saved" in shown


def test_own_judgements_are_tuned_on_in_the_own_store():
    with Engine.open() as engine:
        drafts = [{"text": f"Ticket {code} was closed after the usual checks."} for code in CODES]
        for code, memory in zip(CODES, engine.remember_many(drafts), strict=True):
            engine.judge(f"What became of {code}?", good=[memory.id])
        engine.tuning.save({"keyword_weight": 0})

    done = tune("--own", "--save")

    assert (done["set"], done["n"], done["folds"], done["folds_by"]) == ("own", 21, 5, "query")
    assert (done["verdict"], done["saved"]) == ("better", True)
    assert json_of("list")["memories"][0]["access_count"] == 0


def test_a_parameter_that_the_environment_sets_is_named(judged_set, monkeypatch):
    monkeypatch.setenv("RETENTIVE_TUNING_KEYWORD_WEIGHT", "0")

    assert tune(judged_set, "--save")["overridden"] == ["keyword_weight"]


@pytest.mark.parametrize("name", ["plot.svg", "plot.html"])
def test_the_sensitivity_is_plotted(judged_set, tmp_path, name):
    tune(judged_set, "--plot", str(tmp_path / name))

    drawn = (tmp_path / name).read_text()
    svg = ET.fromstring(re.search(r"<svg.*</svg>", drawn, flags=re.DOTALL).group())
    titles = [text.text for text in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert {"keyword_weight", "fusion", "min_candidates"} <= set(titles)
    assert "<script" not in drawn


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--own"),
        (("SET", "--own"), "--own"),
        (("--own",), "retentive judge"),
        (("SET", "--metric", "accuracy"), "the metrics are"),
        (("SET", "--plot", "plot.png"), ".html or .svg"),
        (("SET", "--budget", "0"), "budget"),
    ],
)
def test_invalid_options_are_refused(judged_set, words, said):
    run("remember", "a store without judgements")
    result = run("--json", "tune", *(judged_set if word == "SET" else word for word in words), code=2)

    assert said in json.loads(result.stderr)["error"]["message"]
