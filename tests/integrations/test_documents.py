"""What the adapters share, and that nothing of them is loaded unasked."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from retentive.errors import Invalid
from retentive.integrations.documents import FACTS, check_asked, confined, facts
from retentive.tenancy import ProfileView

FRAMEWORKS = {
    "haystack": "haystack",
    "langchain": "langchain_core",
    "langgraph": "langgraph",
    "llama_index": "llama_index",
    "pydantic_ai": "pydantic_ai",
}
"""The package that each adapter is for."""


def test_the_wall_goes_around_the_profile_of_the_engine(household):
    assert confined(household).profile == "default"


def test_a_wall_that_is_there_stays_as_it_is(household):
    wall = ProfileView(household, "neighbours", project="garden")

    assert confined(wall) is wall


def test_the_facts_of_a_hit_stand_beside_its_own_metadata(household):
    hit = household.recall("where is the key?", limit=1).hits[0]

    told = facts(hit)

    assert told["room"] == "porch"
    assert (told["rank"], told["score"], told["speaker"], told["project"]) == (1, hit.score, "Ana", "home")
    assert told["when"] == told["created"] == "2026-06-01T12:00:00+00:00"
    assert "session" not in told
    assert "source" not in told


def test_metadata_cannot_pose_as_a_fact(engine):
    engine.remember("The key is under the pot", metadata=dict.fromkeys(FACTS, "forged"))

    told = facts(engine.recall("key").hits[0])

    assert "forged" not in told.values()


def test_what_is_no_part_of_a_query_is_refused_with_what_is():
    with pytest.raises(Invalid, match="not asked with 'profile'; it is with limit, project, session"):
        check_asked({"limit": 3, "profile": "neighbours"})  # type: ignore[typeddict-unknown-key]


@pytest.mark.parametrize(("adapter", "package"), FRAMEWORKS.items())
def test_without_its_framework_an_adapter_says_what_to_install(adapter, package):
    program = f"import sys; sys.modules['{package}'] = None; import retentive.integrations.{adapter}"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert done.returncode == 1
    assert f"pip install 'retentive[{adapter.replace('_', '-')}]'" in done.stderr.splitlines()[-1]


def test_every_adapter_is_among_those_tested_here():
    folder = Path(importlib.import_module("retentive.integrations").__path__[0])

    assert {file.stem for file in folder.glob("*.py")} == {*FRAMEWORKS, "__init__", "documents", "langgraph_filters"}


def test_the_library_and_the_command_line_load_no_framework():
    packages = list(FRAMEWORKS.values())
    program = (
        "import sys, retentive, retentive.engine, retentive.aio, retentive.tenancy, retentive.cli.app\n"
        "retentive.Engine\n"
        f"print([name for name in sys.modules if name.split('.')[0] in {packages} or 'integrations' in name])"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
