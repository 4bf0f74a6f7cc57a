"""`retentive judge` and `retentive eval --own`."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from retentive.engine import Engine
from tests.stores.test_damage import flip
from tests.surfaces.test_cli import json_of, remember, run

WORDS = ("--embedder", "none")


@pytest.fixture
def ids() -> list[str]:
    texts = ("The spare key is under the blue pot", "The red key opens the shed", "The cat likes tuna")
    with Engine.open(os.environ["RETENTIVE_STORE"], embedder="none") as engine:
        return [engine.remember(text, project="home").id for text in texts]


def judge(*words: str, **options):
    return json_of(*WORDS, "judge", *words, **options)


def listed(*words: str) -> list[tuple[str, str | None, str, int]]:
    found = judge("--list", *words)["judgements"]
    return [(one["query"], one["project"], one["text"], one["relevance"]) for one in found]


def test_memories_are_judged_by_their_ids(ids):
    key, shed, cat = ids

    said = judge(
        "--query", "where is the key?", "--good", f"{key}=3", "--good", shed, "--bad", cat, "--project", "home"
    )

    assert {one["memory"]: one["relevance"] for one in said["judged"]} == {key: 3, shed: 1, cat: 0}
    assert sorted(relevance for *_, relevance in listed("--project", "home")) == [0, 1, 3]
    assert listed("--project", "elsewhere") == []


def test_a_later_judgement_replaces_an_earlier_one_and_can_be_removed(ids):
    judge("--query", "what does the cat eat?", "--good", ids[2])
    judge("--query", " what does the cat eat? ", "--bad", ids[2])

    assert listed() == [("what does the cat eat?", None, "The cat likes tuna", 0)]
    assert judge("--query", "what does the cat eat?", "--remove", ids[2]) == {"removed": 1}
    assert listed() == []


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--good", "0190"), 2, "--query"),
        (("--query", "q?", "--good", "0190"), 3, "no memory 0190"),
        (("--query", "q?", "--good", "KEY=4"), 2, "1 to 3"),
        (("--query", "q?", "--good", "KEY", "--bad", "KEY"), 2, "good and bad at once"),
        (("--query", "q?", "--good", "KEY", "--project", "work"), 2, "not in project 'work'"),
        (("--query", "q?", "--good", "KEY", "--asked-at", "yesterday"), 2, "not a time"),
        (("--export", "nowhere"), 2, "nothing is judged yet"),
    ],
)
def test_invalid_judgements_are_refused_and_nothing_is_saved(ids, words, code, said):
    result = run(*WORDS, "judge", *(word.replace("KEY", ids[0]) for word in words), code=code)

    assert said in result.stderr
    assert listed() == []


def test_a_person_types_queries_and_the_numbers_of_hits(ids):
    typed = "where is the spare key?\n7 x\n1 -2\n\nwhat does the cat like?\n1\nq\n"

    result = run(*WORDS, "judge", "--project", "home", stdin=typed)

    assert "1  The spare key is under the blue pot" in result.stderr
    assert "type numbers from 1 to" in result.stderr
    assert "3 judgements saved" in result.stdout
    assert listed() == [
        ("where is the spare key?", "home", "The spare key is under the blue pot", 1),
        ("where is the spare key?", "home", "The red key opens the shed", 0),
        ("what does the cat like?", "home", "The cat likes tuna", 1),
    ]


def test_a_given_query_is_the_only_one_and_the_end_of_the_input_ends_it(ids):
    assert len(judge("--query", "the cat?", stdin="1")["judged"]) == 1
    assert judge("--query", "zebras?", stdin="")["judged"] == []


def test_judging_is_not_use(ids):
    run(*WORDS, "judge", stdin="the cat?\n1\n\n")

    assert json_of("get", ids[2])["access_count"] == 0


def test_a_forgotten_memory_is_no_longer_judged(ids):
    judge("--query", "the cat?", "--good", ids[2])

    run("forget", ids[2], "--yes")

    assert listed() == []


def judge_all(ids):
    for query, id in (("where is the spare key?", ids[0]), ("what opens the shed?", ids[1]), ("the cat?", ids[2])):
        judge("--query", query, "--good", id, "--project", "home")
    judge("--query", "what is red?", "--bad", ids[0])


def test_own_judgements_are_evaluated_in_the_own_store(ids):
    judge_all(ids)

    done = json_of(*WORDS, "eval", "--own")

    assert (done["set"], done["n"], done["model"]) == ("own", 3, "none")
    assert done["corpus"]["memories"] == 3
    assert [row["name"] for row in done["rows"]] == ["keyword"]
    assert done["rows"][0]["metrics"]["any@1"] == 1.0
    assert json_of("get", ids[0])["access_count"] == 0


def test_relevance_is_measured_on_own_judgements_of_good_and_bad_memories(ids, tmp_path):
    judge_all(ids)
    page = tmp_path / "own.md"

    found = json_of(*WORDS, "eval", "--own", "--abstain", "--report", str(page), "--set", "min_relevance=0.4")[
        "abstain"
    ]

    assert found["min_relevance"] == 0.4
    assert found["calibration"]["notes"]["hits"] == 3
    assert "| notes | 3 |" in page.read_text(encoding="utf-8")
    assert "another conversation" in run(*WORDS, "eval", "--own", "--abstain").stdout


def test_a_saved_tuning_has_a_row_of_its_own(ids):
    judge_all(ids)
    run("config", "set", "--preset", "keyword-only", "rrf_k=33")

    assert [row["name"] for row in json_of(*WORDS, "eval", "--own")["rows"]] == ["keyword", "current"]


def test_the_default_has_a_row_with_the_judge_and_none_of_a_saved_tuning(ids):
    judge_all(ids)
    run("reembed")

    rows = [row["name"] for row in json_of("eval", "--own")["rows"]]

    assert rows[-2:] == ["default", "judged"]


def test_judgements_are_exported_as_a_set_that_eval_reads(ids, tmp_path):
    judge_all(ids)
    folder = tmp_path / "out"

    assert judge("--export", str(folder)) == {"set": str(folder), "queries": 4}

    done = json_of(*WORDS, "eval", str(folder))
    assert (done["n"], done["corpus"]["memories"], done["corpus"]["projects"]) == (3, 3, 1)
    assert done["rows"][0]["metrics"]["any@1"] == 1.0
    lines = [json.loads(line) for line in (folder / "corpus.jsonl").read_text().splitlines()]
    assert {line["_id"] for line in lines} == set(ids)
    assert "already has an evaluation set" in run(*WORDS, "judge", "--export", str(folder), code=4).stderr


def test_a_project_is_exported_without_the_others(ids, tmp_path):
    judge_all(ids)
    remember("The plumber comes on Monday", "--project", "work")

    judge("--export", str(tmp_path / "out"), "--project", "home")

    assert len((tmp_path / "out" / "corpus.jsonl").read_text().splitlines()) == 3
    assert len((tmp_path / "out" / "queries.jsonl").read_text().splitlines()) == 3


def test_eval_needs_a_set_or_own_judgements():
    assert "--own" in run(*WORDS, "eval", code=2).stderr
    assert "--own" in run(*WORDS, "eval", "folder", "--own", code=2).stderr
    remember("apples")
    assert "retentive judge" in run(*WORDS, "eval", "--own", code=2).stderr


def test_at_a_real_terminal_queries_are_asked_for(ids):
    ours, theirs = pty.openpty()
    typed = b"where is the spare key?\n1\n\nq\n"
    command = [sys.executable, "-c", "from retentive.cli import main; main()", *WORDS, "judge"]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        os.write(ours, typed)
        assert process.wait(90) == 0
    os.close(ours)

    assert listed() == [("where is the spare key?", None, "The spare key is under the blue pot", 1)]


def test_judgements_are_listed_also_where_the_text_of_a_memory_is_damaged(ids):
    key, shed, _ = ids
    judge("--query", "key", "--good", key, "--bad", shed)
    flip(Path(os.environ["RETENTIVE_STORE"]), b"The spare key is under", to=b"The spare key is above")

    shown = run(*WORDS, "judge", "--list").stdout

    assert listed() == [("key", None, None, 1), ("key", None, "The red key opens the shed", 0)]
    assert "retentive doctor" in shown
    assert "The red key opens the shed" in shown
