"""Compiling the library when the package is built."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from retentive.native import INSTRUCTION_SETS, VERSION

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "src" / "retentive" / "native"

PROCESSOR = {"x86_64": "x86", "aarch64": "arm", "arm64": "arm"}.get(platform.machine())

with_compiler = pytest.mark.skipif(
    PROCESSOR is None or shutil.which("cc") is None, reason="needs a C compiler on an x86-64 or 64-bit ARM system"
)
CROSS_COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
with_emulator = pytest.mark.skipif(
    not (shutil.which(CROSS_COMPILER) and shutil.which(EMULATOR)),
    reason="needs Debian's packages gcc-aarch64-linux-gnu and qemu-user",
)
# AddressSanitizer and UndefinedBehaviorSanitizer end the program at the first error.
SANITIZED = "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined"


@pytest.fixture(scope="module")
def hook():
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def sources(tmp_path):
    return Path(
        shutil.copytree(FOLDER, tmp_path / "native", ignore=shutil.ignore_patterns("*.so", "*.py", "__pycache__"))
    )


@with_compiler
def test_the_library_is_compiled_from_the_sources_beside_it(hook, sources):
    assert hook.compile_library(sources / "library.so")
    assert ctypes.CDLL(str(sources / "library.so")).library_version() == VERSION
    assert {path.suffix for path in sources.iterdir() if path.is_file()} == {".c", ".h", ".so"}


@with_compiler
@pytest.mark.parametrize("named", ["", "cc", "cc -g0", f"'{shutil.which('cc')}' -Wall -Wextra -Werror"])
def test_a_compiler_can_be_named_with_options(hook, sources, monkeypatch, named):
    monkeypatch.setenv("CC", named)

    assert hook.compile_library(sources / "library.so")


@pytest.mark.parametrize("how", ["no compiler", "another processor", "switched off", "an error in the source"])
def test_without_it_the_package_is_built_all_the_same_and_an_old_library_is_removed(hook, sources, monkeypatch, how):
    (sources / "library.so").write_bytes(b"old")
    if how == "no compiler":
        monkeypatch.setenv("CC", "no-such-compiler")
    elif how == "another processor":
        monkeypatch.setattr("platform.machine", lambda: "riscv64")
    elif how == "switched off":
        monkeypatch.setenv("RETENTIVE_NATIVE", "0")
    else:
        (sources / "bert.c").write_text("this is not C")

    assert not hook.compile_library(sources / "library.so")
    assert not (sources / "library.so").exists()


def test_a_wheel_with_the_library_names_its_system(hook, sources, monkeypatch):
    library = hook.CompileLibrary(str(ROOT), {}, None, None, str(ROOT), "wheel")
    for compiled, expected in ((True, False), (False, True)):
        monkeypatch.setattr(hook, "compile_library", lambda path, compiled=compiled: compiled)
        data = {"artifacts": [], "pure_python": True}

        library.initialize("standard", data)

        assert data["pure_python"] is expected
        assert bool(data["artifacts"]) == ("tag" in data) == compiled


@with_compiler
@pytest.mark.parametrize("options", ["", SANITIZED], ids=["optimised", "sanitizers"])
def test_every_instruction_set_of_this_machine_gives_the_recorded_results(hook, tmp_path, options):
    results, _ = _results(hook, tmp_path, PROCESSOR, ["cc", *options.split()])

    assert results == RECORDED


@with_emulator
@pytest.mark.parametrize(
    ("cpu", "options", "sets"),
    [
        ("cortex-a72", "-static", {"neon"}),
        ("max", "-static", {"neon", "neon-dotprod"}),
        ("max", SANITIZED, {"neon", "neon-dotprod"}),
    ],
    ids=["neon", "dot products", "sanitizers"],
)
def test_on_an_emulated_arm_processor_the_library_gives_the_recorded_results(hook, tmp_path, cpu, options, sets):
    emulator = [EMULATOR, "-cpu", cpu, "-L", "/usr/aarch64-linux-gnu"]

    results, used = _results(hook, tmp_path, "arm", [CROSS_COMPILER, *options.split()], emulator)

    assert results == RECORDED
    assert used == sets


RECORDED = set((ROOT / "tests" / "native_results.txt").read_text().splitlines())
"""Digests of what `native_results.c` computes: the same on every processor, by every instruction set and compiler."""


def _results(
    hook: Any, folder: Path, processor: str, compiler: list[str], run: Sequence[str] = ()
) -> tuple[set[str], set[str]]:
    """What the functions of the library compute from made-up numbers, and the instruction sets that were used."""
    program = folder / "results"
    sources = [ROOT / "tests" / "native_results.c", *FOLDER.glob("*.c"), *FOLDER.glob(f"{processor}/*.c")]
    flags = [flag for flag in hook.FLAGS if flag not in ("-shared", "-fPIC")]
    command = [*compiler[:1], *flags, *compiler[1:], f"-I{FOLDER}", "-o", program, *sources, "-lm"]
    compiled = subprocess.run(command, capture_output=True, text=True, check=False)
    if compiled.returncode and "cannot find" in compiled.stderr and "san" in compiled.stderr:
        pytest.skip("the compiler has no sanitizers")
    assert compiled.returncode == 0, compiled.stderr
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
    ended = subprocess.run([*run, program], env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    lines = [line.rpartition(" ") for line in ended.stdout.splitlines()]
    numbers = {int(number) for _, _, number in lines}
    return {result for result, _, _ in lines}, {INSTRUCTION_SETS[number - 1] for number in numbers if number}


@with_compiler
def test_the_old_library_stays_until_the_new_one_is_built(hook, sources, monkeypatch):
    library = sources / "library.so"
    library.write_bytes(b"old")
    compiler = sources.parent / "compiler"
    compiler.write_text(f'#!/bin/sh\n[ "$(cat "{library}")" = old ] && exec cc "$@"\n', encoding="utf-8")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))

    assert hook.compile_library(library)
    assert ctypes.CDLL(str(library)).library_version() == VERSION


@with_compiler
@pytest.mark.parametrize("size", [0, 10, 64, 1000, 40_000, -1])
def test_a_part_of_the_library_is_not_loaded(hook, sources, size):
    from retentive.native import _is_whole

    assert hook.compile_library(sources / "library.so")
    whole = (sources / "library.so").read_bytes()
    assert _is_whole(sources / "library.so")

    (sources / "library.so").write_bytes(whole[:size])
    assert not _is_whole(sources / "library.so")


@pytest.mark.parametrize("compiler", ['"cc', "true"])
def test_with_a_compiler_that_makes_nothing_there_is_no_library(hook, sources, monkeypatch, compiler):
    monkeypatch.setenv("CC", compiler)

    assert not hook.compile_library(sources / "library.so")
    assert not (sources / "library.so").exists()
