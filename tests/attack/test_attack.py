"""A short form of each attack with a fixed seed; `make attack` runs them for longer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.attack.__main__ import ATTACKS
from tests.attack.changes import Expected
from tests.attack.harness import Run, run_attack
from tests.attack.kill import open_engine
from tests.stores.build import id_of


@pytest.mark.parametrize("name", ATTACKS)
def test_nothing_goes_wrong_in_one_round_of_an_attack(name: str):
    run = run_attack(name, seed=7, seconds=600, rounds=1)

    assert run.problems == []
    assert run.passed
    assert all(run.counts[what] for what in list(run.counts)[:1])


def test_an_attack_is_a_program_that_prints_its_result_as_json():
    done = subprocess.run(
        [sys.executable, "-m", "tests.attack.embedder_faults", "--rounds", "1", "--seed", "7", "--json"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )

    result = json.loads(done.stdout)
    assert (done.returncode, result["attack"], result["seed"], result["passed"]) == (0, "embedder_faults", 7, True)
    assert result["counts"]["calls"] == 30


def test_what_was_acknowledged_and_is_not_there_fails_the_attack(tmp_path: Path):
    run = Run(
        "kill", 7, 60, tmp_path, counts={"kills": 1000}, wrong=dict.fromkeys(("lost", "half written", "problems"), 0)
    )
    assert run.verdict == "kill: 1,000 kills, 0 lost, 0 half written, 0 problems, seed 7: PASS"
    expected = Expected({id_of(1): "stored", id_of(2): "never stored"}, unknown=[{id_of(3): "one", id_of(4): "two"}])
    with open_engine(tmp_path / "store.db") as engine:
        engine.remember("stored", id=id_of(1))
        engine.remember("one", id=id_of(3))

        expected.compare(engine, run)

    assert run.verdict == "kill: 1,000 kills, 1 lost, 1 half written, 0 problems, seed 7: FAIL"
