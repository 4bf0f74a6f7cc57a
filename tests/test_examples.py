"""Every script in examples/ runs and prints what it is about."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.surfaces.model_server import ModelServer, model_server

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def llm() -> Iterator[ModelServer]:
    with model_server() as server:
        yield server


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "example.db")


def test_every_script_says_what_it_shows_and_is_listed_and_tested():
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    tests = Path(__file__).read_text(encoding="utf-8")

    assert len(SCRIPTS) == 5
    for script in SCRIPTS:
        text = script.read_text(encoding="utf-8")
        assert f"]({script.name})" in listed
        assert f'load("{script.stem}")' in tests
        assert f"python examples/{script.name}" in (ast.get_docstring(ast.parse(text)) or "")
        assert len(text.splitlines()) < 100


def test_the_chatbot_puts_what_it_was_told_into_the_next_prompt(llm, store, capsys):
    chatbot = load("chatbot")
    chatbot.main(llm.url, "stand-in", store, ["The spare key is under the blue pot"])
    chatbot.main(llm.url, "stand-in", store, ["Where is the spare key?"])

    assert capsys.readouterr().out.splitlines()[-1] == "You said: Where is the spare key?"
    assert "The spare key is under the blue pot" in llm.context


def test_the_agent_knows_in_a_later_turn_what_it_was_told(llm, store, capsys):
    load("langgraph_agent").main(llm.url, "stand-in", store)

    shown = capsys.readouterr().out
    last = shown[shown.index("Where is my dentist?") :]
    assert "My dentist is at the harbour." in last.partition("answer:")[0]
    assert "- My dentist is at the harbour." in llm.prompt[0]["content"]
    assert "Where is my dentist?" not in shown.partition("Where is my dentist?")[0]


def test_measuring_and_tuning_prints_metrics_of_own_queries(store, capsys):
    load("measure_and_tune").main(store, budget=5)

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "24 memories imported"
    figures = {line.split()[0]: float(line.split()[2]) for line in lines[1:4]}
    assert figures["default"] > 0.5
    assert figures.keys() == {"keyword", "semantic", "default"}
    assert lines[4].startswith("held out: nDCG@10 ")


def test_an_export_of_mem0_is_moved_once_and_recalled(store, capsys):
    load("from_mem0").main(store=store)

    shown = capsys.readouterr().out
    assert "mem0: 4 would be added, 1 skipped" in shown
    assert "4 added; a second import adds 0" in shown
    assert "1. Sam prefers morning meetings" in shown


def test_a_team_shares_a_memory_and_each_token_allows_what_it_says(store, capfd):
    load("team_memory").main(store)

    shown = capfd.readouterr().out
    assert "Ben recalls: We deploy on Tuesdays, after the stand-up." in shown
    assert "Ben writes: 403" in shown
    assert "Carol recalls: []" in shown
    assert "without a token: 401" in shown
