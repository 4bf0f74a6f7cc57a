"""`retentive eval`: a table, JSON on standard output alone, a report, and a second run that embeds nothing."""

from __future__ import annotations

import json
import sys

import pytest
from typer.testing import CliRunner

from retentive.cli.app import app
from retentive.engine import Engine
from retentive.evaluation.metrics import METRICS
from retentive.extras import pip_install
from retentive.inference.embedders.onnx import OnnxEmbedder
from retentive.ranking import PRESETS
from tests.evaluation.build import QUERY_LINES, write_set


@pytest.fixture
def tiny(tmp_path, monkeypatch) -> str:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return str(write_set(tmp_path / "tiny"))


def run(*words: str, code: int = 0):
    result = CliRunner().invoke(app, ["eval", *words])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def test_the_help_describes_the_command():
    assert "a row for each system" in " ".join(run("--help").stdout.split())


def test_json_has_the_set_the_model_and_a_row_for_each_system(tiny: str):
    result = run(tiny, "--json", "--by", "category")
    value = json.loads(result.stdout)

    assert (value["set"], value["n"], value["model"]) == ("tiny", 6, "memory-small")
    assert value["corpus"] == {"memories": 12, "projects": 2, "sessions": 3, "median_words": 8.0, "searched": 6.0}
    assert value["versions"].keys() == {"retentive", "python", "ir_measures"}
    rows = {row["name"]: row for row in value["rows"]}
    assert rows.keys() == (PRESETS.keys() - {"keyword-only", "semantic-only"}) | {"keyword", "semantic", "judged"}
    for row in rows.values():
        assert row["metrics"].keys() == {*METRICS, "p50_ms", "p95_ms"}
        assert row["by"].keys() == {"what", "when", "where"}
        assert row["intervals"].keys() == set(METRICS)
        for name in METRICS:
            low, high = row["intervals"][name]
            assert 0 <= low <= row["metrics"][name] <= high <= 1
        assert (row["p_value"] is None) == (row["name"] == value["baseline"] == "classic-rrf")
    assert rows["default"]["metrics"]["any@5"] == 1


def test_the_table_has_uncut_figures_and_a_description_of_the_set(tiny: str):
    shown = run(tiny, "--preset", "keyword", "--preset", "default", "--by", "category").stdout

    for expected in ("any@1", "nDCG@10", "p95 ms", "n = 6 queries over 12 memories in 2 projects", "median 8 words"):
        assert expected in shown
    for expected in ("memory-small (384 d", "ir_measures", "95 % bootstrap intervals", "where (n = 3)"):
        assert expected in shown
    assert "…" not in shown
    assert "100.0" in shown


def test_parameters_that_are_set_make_a_row_of_their_own(tiny: str):
    value = json.loads(run(tiny, "--json", "--preset", "default", "--set", "min_score=10").stdout)

    assert [(row["name"], row["metrics"]["any@5"]) for row in value["rows"]] == [("default", 1), ("min_score=10", 0)]


def test_an_unknown_parameter_is_named(tiny: str):
    assert "there is no parameter 'judgee'" in run(tiny, "--set", "judgee=off", code=2).output


def test_a_second_run_embeds_nothing(tiny: str, monkeypatch):
    asked: list[int] = []
    embed = OnnxEmbedder.embed
    monkeypatch.setattr(OnnxEmbedder, "embed", lambda self, texts: asked.append(len(texts)) or embed(self, texts))

    run(tiny, "--preset", "default")
    first = sum(asked)
    run(tiny, "--preset", "default")

    assert first == 12 + 9 + 5  # nine turns have one before them; two of the six queries are the same
    assert sum(asked) == first
    run(tiny, "--preset", "default", "--no-cache")
    assert sum(asked) == 2 * first


def test_the_report_shows_the_queries_as_text(tiny: str, tmp_path):
    attack = {**QUERY_LINES[1], "text": "What food does <script>alert(1)</script> like?"}
    folder = write_set(tmp_path / "attacked", queries=[QUERY_LINES[0], attack])

    run(str(folder), "--report", str(tmp_path / "page.html"))

    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Retentive on attacked" in page
    assert "<script" not in page


def test_the_users_own_store_is_not_used_and_a_named_one_is_not_deleted(tiny: str, tmp_path):
    run(tiny, "--preset", "keyword", "--embedder", "none")
    assert not (tmp_path / "store.db").exists()

    kept = str(tmp_path / "kept.db")
    for _ in range(2):
        run(tiny, "--preset", "keyword", "--embedder", "none", "--store", kept)

    with Engine.open(kept, embedder="none") as engine:
        assert engine.stats().memories == 12


def test_the_number_of_queries_can_be_limited(tiny: str):
    value = json.loads(run(tiny, "--json", "--limit-queries", "2", "--preset", "default").stdout)

    assert (value["n"], value["corpus"]["memories"]) == (2, 12)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--preset", "nonsense"], "there is no preset 'nonsense'"),
        (["--baseline", "nonsense"], "there is no preset 'nonsense'"),
        (["--by", "colour"], "category or project"),
        (["--limit-queries", "0"], "limit_queries"),
        (["--report", "/nowhere/page.html"], "/nowhere/page.html"),
    ],
)
def test_invalid_options_are_reported_before_anything_is_embedded(tiny: str, monkeypatch, words, says):
    monkeypatch.setattr(OnnxEmbedder, "embed", lambda self, texts: pytest.fail("embedded"))

    result = run(tiny, *words, code=2)

    assert says in result.stderr
    assert result.stdout == ""


def test_an_error_in_a_set_names_the_file_and_line(tmp_path):
    folder = write_set(tmp_path / "bad", corpus=["{"])

    assert "corpus.jsonl, line 1: it is not JSON" in run(str(folder), code=2).stderr
    assert f"there is no {tmp_path / 'nowhere'}; an evaluation set is" in run(str(tmp_path / "nowhere"), code=3).stderr


def test_without_the_extra_the_error_names_the_package_to_install(tiny: str, monkeypatch):
    monkeypatch.setitem(sys.modules, "ir_measures", None)

    assert pip_install("eval") in run(tiny, code=6).stderr
