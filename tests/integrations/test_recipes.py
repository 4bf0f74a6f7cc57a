"""Every program in the recipes runs unchanged and prints the output shown below it."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "docs/recipes").glob("*.md"))
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", RECIPES, ids=lambda page: page.stem)
def test_every_program_of_a_recipe_prints_what_the_page_shows(page, tmp_path):
    text = page.read_text(encoding="utf-8")
    programs = re.findall(r"```python\n(.*?)```\n+```text\n(.*?)```", text, flags=re.DOTALL)

    for program, shown in programs:
        file = tmp_path / "program.py"
        file.write_text(program, encoding="utf-8")
        done = subprocess.run([sys.executable, file], cwd=tmp_path, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, shown), done.stderr

    assert len(programs) == text.count("```python\n") > 0
    assert text.count("```") == 4 * len(programs), "a block that nobody runs"


def test_every_adapter_has_a_recipe_that_the_readme_links_to():
    folder = Path(importlib.import_module("retentive.integrations").__path__[0])
    adapters = {file.stem.replace("_", "-") for file in folder.glob("*.py")} - {"--init--", "documents"}

    assert {page.stem for page in RECIPES} == adapters
    for page in RECIPES:
        assert f"(docs/recipes/{page.name})" in README


@pytest.mark.parametrize("page", RECIPES, ids=lambda page: page.stem)
def test_a_recipe_names_the_extra_that_it_needs(page):
    assert f"`pip install 'retentive[{page.stem}]'`" in page.read_text(encoding="utf-8")
    assert re.search(rf"^{page.stem} = \[", (ROOT / "pyproject.toml").read_text(encoding="utf-8"), flags=re.MULTILINE)


def test_every_link_of_a_recipe_is_to_an_existing_file():
    for page in RECIPES:
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert link.startswith("http") or (page.parent / link).exists(), (page.name, link)
