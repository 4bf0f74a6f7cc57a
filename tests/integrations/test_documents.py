"""Functions that the adapters share, and that no adapter is loaded unless it is imported."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from retentive.errors import Invalid
from retentive.extras import pip_install
from retentive.integrations.documents import HIT_FIELDS, check_options, hit_metadata, profile_view
from retentive.tenancy import ProfileView

FRAMEWORKS = {
    "haystack": "haystack",
    "langchain": "langchain_core",
    "langgraph": "langgraph",
    "llama_index": "llama_index",
    "pydantic_ai": "pydantic_ai",
}
"""The package that each adapter is for."""


def test_the_view_of_an_engine_is_that_of_its_own_profile(household):
    assert profile_view(household).profile == "default"


def test_a_view_is_used_as_it_is(household):
    view = ProfileView(household, "neighbours", project="garden")

    assert profile_view(view) is view


def test_the_fields_of_a_hit_are_added_to_the_metadata_of_its_memory(household):
    hit = household.recall("where is the key?", limit=1).hits[0]

    metadata = hit_metadata(hit)

    assert metadata["room"] == "porch"
    assert (metadata["rank"], metadata["score"], metadata["speaker"], metadata["project"]) == (
        1,
        hit.score,
        "Ana",
        "home",
    )
    assert metadata["when"] == metadata["created"] == "2026-06-01T12:00:00+00:00"
    assert "session" not in metadata
    assert "source" not in metadata


def test_metadata_cannot_replace_a_field_of_the_hit(engine):
    engine.remember("The key is under the pot", metadata=dict.fromkeys(HIT_FIELDS, "forged"))

    metadata = hit_metadata(engine.recall("key").hits[0])

    assert "forged" not in metadata.values()


def test_an_unknown_option_is_refused_with_the_valid_ones():
    with pytest.raises(Invalid, match="unexpected option 'profile'; valid options: limit, project, session"):
        check_options({"limit": 3, "profile": "neighbours"})


@pytest.mark.parametrize(("adapter", "package"), FRAMEWORKS.items())
def test_without_its_framework_an_adapter_says_what_to_install(adapter, package):
    program = f"import sys; sys.modules['{package}'] = None; import retentive.integrations.{adapter}"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert done.returncode == 1
    assert pip_install(adapter.replace("_", "-")) in done.stderr.splitlines()[-1]


def test_every_adapter_is_among_those_tested_here():
    folder = Path(importlib.import_module("retentive.integrations").__path__[0])

    assert {file.stem for file in folder.glob("*.py")} == {*FRAMEWORKS, "__init__", "documents"}


def test_the_library_and_the_command_line_load_no_framework():
    packages = list(FRAMEWORKS.values())
    program = (
        "import sys, retentive, retentive.engine, retentive.aio, retentive.tenancy, retentive.cli.app\n"
        "retentive.Engine\n"
        f"print([name for name in sys.modules if name.split('.')[0] in {packages} or 'integrations' in name])"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
