"""The public names of the package: importable, listed, typed and loaded only when they are used."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import retentive
from retentive import AccessTokens, AsyncEngine, Engine, GivenLog, Imports, JudgementLog, ProfileView, SavedTuning

ROOT = Path(__file__).parents[1]


def test_every_public_name_can_be_imported_and_is_listed():
    assert all(getattr(retentive, name) is not None for name in retentive.__all__)
    assert sorted(retentive.__all__) == sorted(name for names in retentive._MODULES.values() for name in names.split())
    assert set(retentive.__all__) <= set(dir(retentive))
    assert "_MODULES" not in dir(retentive)
    with pytest.raises(AttributeError, match="nonsense"):
        retentive.nonsense  # noqa: B018


def test_importing_the_package_loads_none_of_its_modules():
    program = "import sys, retentive; print([name for name in sys.modules if name.startswith('retentive.')])"

    assert _run([sys.executable, "-c", program]).stdout.strip() == "[]"


PYTHON = {"Any", "Callable", "IO", "Iterable", "Mapping", "None", "P", "PathLike", "Sequence", "T", "True", "Unpack"}
OTHERS = PYTHON | {"KeyValue", "Opening"}
"""Names of Python; the store protocol of a group; and `Opening`, which is awaited or entered at once."""


@pytest.mark.parametrize(
    "owner", [Engine, AsyncEngine, ProfileView, SavedTuning, AccessTokens, JudgementLog, GivenLog, Imports]
)
def test_every_type_in_a_public_signature_is_exported(owner: type[object]):
    names = [name for name in dir(owner) if not name.startswith("_") or name == "__init__"]
    members = [inspect.getattr_static(owner, name) for name in names]
    functions = [_function(member) for member in members]
    signatures = [inspect.signature(function) for function in functions if callable(function)]
    annotations = [
        str(annotation)
        for signature in signatures
        for annotation in (signature.return_annotation, *(one.annotation for one in signature.parameters.values()))
    ]
    used = {name for text in annotations for name in re.findall(r"\b[A-Z]\w*", text)}

    assert used - OTHERS <= set(retentive.__all__)


def test_the_groups_of_the_engine_are_exported(tmp_path: Path):
    with Engine.open(tmp_path / "store.db") as engine:
        groups = [engine.tuning, engine.tokens, engine.judgements, engine.given, engine.imports, engine.embeddings]

    assert {type(group).__name__ for group in groups} <= set(retentive.__all__)


def test_an_async_engine_opens_in_an_async_with_block_and_by_await(tmp_path: Path):
    async def run() -> list[str]:
        async with AsyncEngine.open(tmp_path / "store.db", embedder="none") as engine:
            await engine.remember("Minka, our cat, only eats salmon")
            found = [hit.memory.text for hit in await engine.recall("salmon")]
        again = await AsyncEngine.open(tmp_path / "store.db", embedder="none")
        found += [hit.memory.text for hit in await again.recall("cat")]
        await again.close()
        return found

    assert asyncio.run(run()) == ["Minka, our cat, only eats salmon"] * 2


TYPED = """
from collections.abc import Sequence
from retentive import AsyncEngine, Draft, Engine, Hit, Kind, Memory, Query, Recall, Tuning

def use(engine: Engine, kind: Kind) -> None:
    memory: Memory = engine.remember("x", kind="semantic", importance=0.9, occurred="2026-05-08")
    engine.remember("x", kind=kind)
    recall: Recall = engine.recall("x", kinds=["semantic", kind], tuning={"keyword_weight": 2}, exclude=[memory.id])
    query: Query = engine.query("x", session=["a", "b"], only_session=True)
    hits: list[Hit] = list(engine.recall(query))
    best: Hit = recall[0]
    engine.update(memory.id, kind="identity")
    engine.remember_many([Draft("x", kind="episodic"), {"text": "y"}])
    tuning: Tuning = engine.tuning.save({"keyword_weight": 1.0})
    token, secret = engine.tokens.create(access="write")

async def use_async() -> None:
    async with AsyncEngine.open("x.db") as engine:
        await engine.remember("x", kind="semantic")
        recall: Recall = await engine.recall("x", kinds=["semantic"])
        removed: Sequence[str] = await engine.forget("id", "other")

async def mistakes_async(engine: AsyncEngine) -> None:
    await engine.remember("x", colour="red")  # wrong
    await engine.recall("x", kind=["semantic"])  # wrong
    await engine.supersede("old", "new", resaon="x")  # wrong
    await engine.update("id", kind="foo")  # wrong

def mistakes(engine: Engine) -> None:
    engine.remember("x", kind="foo")  # wrong
    engine.remember("x", importance="high")  # wrong
    engine.remember("x", colour="red")  # wrong
    engine.recall("x", kinds=["foo"])  # wrong
    engine.recall("x", recent=["id"])  # wrong
    engine.recall(5)  # wrong
    engine.update("id", kind="foo")  # wrong
    engine.tokens.create(access="everything")  # wrong
    engine.timeline(by="week")  # wrong
"""


def test_mypy_accepts_correct_calls_and_rejects_wrong_ones(tmp_path: Path):
    pytest.importorskip("mypy")
    file = tmp_path / "calls.py"
    file.write_text(TYPED)
    wrong = [number for number, line in enumerate(TYPED.split("\n"), 1) if line.endswith("# wrong")]

    checked = _run([sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(file)])

    found = re.findall(r"calls\.py:(\d+): error", checked.stdout)
    assert [int(number) for number in found] == wrong, checked.stdout + checked.stderr


def _function(member: object) -> object:
    """The function of a class method, a static method, a property or a cached property."""
    for name in ("__func__", "fget", "func"):
        member = getattr(member, name, member)
    return member


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "MYPYPATH": str(ROOT / "src")}
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
