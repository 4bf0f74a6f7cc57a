"""Compiles the library of `src/retentive/native` when the package is built.

It needs a C compiler on an x86-64 system (GCC 12, Clang 14 or newer) or on one with a 64-bit ARM processor (GCC 12,
Clang 16 or newer). Elsewhere the package is built without it, and onnxruntime and numpy compute the same. `CC` names
another compiler, if need be with options; `RETENTIVE_NATIVE=0` leaves the library out.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = "src/retentive/native"
MACOS = "11.0"
"""The oldest version of macOS on which the library runs: the first one for ARM."""

PROCESSORS = {"x86_64": "x86", "AMD64": "x86", "aarch64": "arm", "arm64": "arm"}
"""The folder of sources for each processor, by what Python calls it."""

# No contraction: products and sums are fused only where the source says so, so that every compiler gives equal vectors.
FLAGS = ("-O3", "-std=gnu11", "-ffp-contract=off", "-fvisibility=hidden", "-shared", "-fPIC")


class CompileLibrary(BuildHookInterface[Any]):
    """Adds the library to the wheel, whose name then says for which systems it is."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's signature
        """Compile before the files of a wheel or of an editable install are collected."""
        library = Path(self.root, FOLDER, "library.so")
        if self.target_name != "wheel" or not compile_library(library):
            return
        build_data["artifacts"].append(f"{FOLDER}/{library.name}")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{wheel_platform()}"


def wheel_platform() -> str:
    """Return the name of this system in the name of a wheel."""
    if sys.platform == "darwin":  # Python may be for older systems and for two processors; the library is not
        return f"macosx_{MACOS.replace('.', '_')}_{platform.machine()}"
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


def compile_library(library: Path) -> bool:
    """Compile the library from the sources beside it; tell whether there is one now."""
    compiled = _compile(library)
    if not compiled:
        library.unlink(missing_ok=True)  # it may be of other sources
    return compiled


def _compile(library: Path) -> bool:
    """Compile the library to another name and then replace the old one, so that no process loads a part of it."""
    processor = PROCESSORS.get(platform.machine())
    if processor is None or os.environ.get("RETENTIVE_NATIVE") == "0":
        return False
    try:
        compiler = shlex.split(os.environ.get("CC", "")) or ["cc"]
    except ValueError:  # a quotation mark without its counterpart
        compiler = [os.environ["CC"]]
    if not shutil.which(compiler[0]):
        print(f"Retentive is built without its compiled library: there is no C compiler {compiler[0]}")
        return False
    folder = library.parent
    sources = sorted(str(source) for source in (*folder.glob("*.c"), *folder.glob(f"{processor}/*.c")))
    system = [f"-mmacosx-version-min={MACOS}"] if sys.platform == "darwin" else []
    unfinished = library.with_suffix(f".{os.getpid()}")
    command = [*compiler, *FLAGS, *system, f"-I{folder}", "-o", str(unfinished), *sources, "-lm"]
    compiled = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - the user's compiler
    if compiled.returncode or not unfinished.is_file():
        print(f"Retentive is built without its compiled library; {compiler[0]} said:\n{compiled.stderr}")
        unfinished.unlink(missing_ok=True)
        return False
    unfinished.replace(library)
    return True
