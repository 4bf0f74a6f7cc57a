"""A recall on the command line by the running service of the store, and which modules a command imports."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from retentive.cli import recall
from retentive.cli.app import app
from retentive.engine import Engine
from retentive.inference.embedders import Embedder
from retentive.server.http.app import create_app
from retentive.server.runtime_file import announced, equal_service
from retentive.settings import configured, load_settings, search_settings
from tests.surfaces.serving import listening
from tests.surfaces.test_cli import run

TEXTS = (
    ("The spare key is under the blue pot", "home", "monday", "Ana"),
    ("The dentist is on Thursday at nine", "home", "tuesday", None),
    ("The cat eats wet food, {no} dry food", "pets", None, "Ben"),
)
QUERY = "where is the key?"
LOADED = """
import os, sys
def end(code):
    print(code, *(name for name in {names!r} if name in sys.modules), file=sys.stderr)
    sys.stdout.flush()
    os.kill(os.getpid(), 9)
os._exit = end
sys.argv = ["retentive", *{words!r}]
from retentive.cli import main
main()
"""
"""Runs the program, and prints its exit code and which of some modules it has imported."""


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "store.db")


@pytest.fixture
def engine(store: str, model: Embedder) -> Iterator[Engine]:
    """The engine of the service, with a few memories."""
    with Engine.open(store, embedder=model) as engine:
        names = ("text", "project", "session", "speaker")
        engine.remember_many([dict(zip(names, values, strict=True)) for values in TEXTS])
        engine.remember("The key of the other one", profile="other", metadata={"topic": "lock"})
        yield engine


@pytest.fixture
def service(engine: Engine, store: str) -> Iterator[str]:
    """The address of a service of the store that has announced itself."""
    with (
        listening(create_app(engine)) as port,
        announced(store, f"http://127.0.0.1:{port}", search=engine.settings.search),
    ):
        yield f"http://127.0.0.1:{port}"


def loaded(words: tuple[str, ...], names: tuple[str, ...], stdin: str = "") -> tuple[str, str]:
    """Return the output of the program, and its exit code with those modules that it has imported."""
    script = LOADED.format(words=list(words), names=names)
    done = subprocess.run([sys.executable, "-c", script], input=stdin, capture_output=True, text=True, check=False)
    return done.stdout, done.stderr.splitlines()[-1]


Ask = Callable[..., str | None]


@pytest.fixture
def by_service(monkeypatch: pytest.MonkeyPatch) -> Ask:
    """A function that recalls, and returns what was printed if the service has answered; None if the engine has."""
    answers: list[bool] = []
    ask = recall.recall_by_service

    def asked(*given: Any) -> Any:
        answer = ask(*given)
        answers.append(answer is not None)
        return answer

    def by_service(*words: str, query: str = QUERY) -> str | None:
        answers.clear()
        result = CliRunner().invoke(app, ["recall", query, *words])
        return result.stdout if any(answers) else None

    monkeypatch.setattr(recall, "recall_by_service", asked)
    return by_service


def without_measures(value: Any) -> Any:
    """Return a result without what differs from one recall to the next: durations, and the use of memories."""
    if isinstance(value, dict):
        left_out = ("elapsed_ms", "stages", "accessed", "access_count")
        return {name: without_measures(item) for name, item in value.items() if name not in left_out}
    return [without_measures(item) for item in value] if isinstance(value, list) else value


WORDS = [
    ("--json",),
    ("--json", "--project=home", "--session", "monday", "--only-session", "--limit", "2", "--kind", "episodic"),
    ("--json", "--profile", "other", "--metadata", "topic=lock", "--since", "2020-01-01", "--until=2099-01-01"),
    ("--json", "--preset", "classic-rrf", "--set", "rrf_k=9", "--include-retired", "--as-of", "2099-01-01"),
]


@pytest.mark.usefixtures("service")
def test_a_recall_by_the_service_prints_what_the_engine_prints(by_service: Ask) -> None:
    for words in WORDS:
        printed = without_measures(json.loads(by_service(*words) or ""))
        assert printed == without_measures(json.loads(run("recall", QUERY, *words, "--local").stdout))
        assert printed["hits"]

    dated = "the key in 2024"
    printed = json.loads(by_service("--json", query=dated) or "")
    assert printed["period"] == json.loads(run("recall", dated, "--json", "--local").stdout)["period"]
    assert printed["period"]["words"] == "in 2024"

    shown = by_service("--limit=3") or ""
    assert shown == run("recall", QUERY, "--limit=3", "--local").stdout
    assert "{no} dry food" in shown
    steps = (by_service("--explain") or "").partition("\nretriever ")[0]
    assert steps == run("recall", QUERY, "--explain", "--local").stdout.partition("\nretriever ")[0]


@pytest.mark.usefixtures("service")
def test_by_the_service_nothing_of_the_engine_is_imported() -> None:
    names = ("onnxruntime", "numpy", "rich", "retentive.engine", "http.client", "asyncio")
    out, seen = loaded(("recall", QUERY, "--json"), names)
    assert (seen, json.loads(out)["hits"][0]["memory"]["text"]) == ("0", TEXTS[0][0])

    out, seen = loaded(("recall", QUERY), names)
    assert (seen, TEXTS[0][0] in out) == ("0 rich", True)


LEFT_TO_THE_ENGINE: tuple[tuple[str, ...], ...] = (
    ("--local",),
    ("--limit", "0"),
    ("--limit", "many"),
    ("--exclude", "0190a1b2"),
    ("--explain", "--json"),
    ("--embedder", "none"),
    ("--config", "missing.toml"),
    ("--set", "keyword_weight=null"),
    ("--set", "no_such=1"),
    ("--project", "nowhere"),
    ("--session", "monday", "--session", "never"),
    ("--kind", "wrong"),
    ("--profile", " other"),
    ("--help",),
    ("--store",),
    ("another",),
)


@pytest.mark.usefixtures("service")
def test_what_only_the_engine_can_answer_is_left_to_it(by_service: Ask) -> None:
    assert [words for words in LEFT_TO_THE_ENGINE if by_service(*words)] == []
    assert by_service()


@pytest.mark.usefixtures("service")
def test_a_file_of_a_hit_is_found_by_the_engine(engine: Engine, by_service: Ask) -> None:
    engine.remember("The key fits the shed", metadata={"file": "notes.md", "lines": [3]})

    assert not by_service()
    assert by_service("--json")


def test_without_a_service_that_searches_as_the_engine_would_the_engine_runs(
    engine: Engine, store: str, monkeypatch: pytest.MonkeyPatch, by_service: Ask
) -> None:
    search = engine.settings.search
    assert not by_service("--json")
    with socket.create_server(("127.0.0.1", 0)) as gone:
        address = f"http://127.0.0.1:{gone.getsockname()[1]}"
    with announced(store, address, search=search):
        assert equal_service(store, search) == address
        assert not by_service("--json")  # the service has ended and left its file
        assert equal_service(store, {**search, "tuning": {"rrf_k": 9}}) is None
        with monkeypatch.context() as other:
            other.setattr("retentive.server.runtime_file.__version__", "9.9")
            assert equal_service(store, search) is None
        Path(store).rename(f"{store}.old")
        assert equal_service(store, search) is None
        Path(store).write_bytes(b"")  # another file at the same path
        assert equal_service(store, search) is None
    for url in ("http://192.0.2.1:4000", "http://127.0.0.1.example.org:4000", "https://127.0.0.1:4000"):
        with announced(store, url, search=search):
            assert equal_service(store, search) is None
    with announced("memory://", address, search=search):
        assert equal_service("memory://", search) is None


def test_a_service_of_another_store_at_the_same_address_refuses(
    engine: Engine, service: str, tmp_path: Path, by_service: Ask
) -> None:
    with Engine.open(tmp_path / "other.db", embedder="none") as other:
        store, search = other.settings.store, engine.settings.search
        with announced(store, service, search=search):  # as a file that a killed service has left
            assert equal_service(store, search) == service
            assert not by_service("--json", "--store", store)
    assert by_service("--json")


def test_a_service_that_requires_a_token_is_not_used(engine: Engine, store: str, by_service: Ask) -> None:
    server = engine.settings.server.model_copy(update={"require_token": True})
    app = create_app(engine, engine.settings.model_copy(update={"server": server}))
    with listening(app) as port, announced(store, f"http://127.0.0.1:{port}", search=engine.settings.search):
        assert not by_service("--json")


def test_the_command_and_the_service_describe_the_same_configuration_in_the_same_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "retentive.toml"
    file.write_text('[embedder]\nname = "local:model"\napi_key = "secret"\n[tuning]\npreset = "classic-rrf"\n')
    monkeypatch.chdir(tmp_path)

    described = search_settings(configured({"store": "x"}))

    assert described == load_settings({"store": "x"}).search
    assert described["embedder"] == {"name": f"local:{tmp_path / 'model'}"}
    assert described["tuning"]["fusion"] == "rrf"


def test_a_command_imports_only_its_own_module(empty_store_path: str) -> None:
    others = ("fastapi", "mcp", "httpx2", "asyncio", "rich", "retentive.evaluation", "retentive.cli.serve")
    words = ("recall", "apples", "--json", "--embedder", "none", "--local")
    out, seen = loaded(words, (*others, "onnxruntime", "retentive.pipeline.explain"))
    assert (seen, json.loads(out)["hits"]) == ("0", [])

    for words in (("--help",), ("nonsense",)):
        _, seen = loaded(words, (*others, "numpy", "onnxruntime", "retentive.engine", "retentive.cli.recall"))
        assert seen == ("0" if words == ("--help",) else "2")
    del empty_store_path


def test_a_hook_imports_the_standard_library_only() -> None:
    sent = json.dumps({"session_id": "s", "cwd": "/x"})
    names = ("numpy", "onnxruntime", "pydantic", "typer", "rich", "retentive.engine", "retentive.cli.app", "typing")
    _, seen = loaded(("hook", "prompt", "--client=claude-code"), names, stdin=sent)
    assert seen == "0"


@pytest.fixture
def empty_store_path(store: str) -> str:
    Engine.open(store, embedder="none").close()
    assert os.environ["RETENTIVE_STORE"] == store
    return store


@pytest.mark.parametrize("words", ["recall tea", "remember recall", "list --project explain"])
def test_no_command_runs_without_the_collection_of_garbage(words):
    program = (
        "import gc, os, sys; from retentive.cli import main\n"
        f"sys.argv[1:] = {['--embedder', 'none', *words.split()]}\n"
        "os._exit = lambda code: print('collected:', gc.isenabled())\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert "collected: True" in done.stdout
