"""The machine and the versions of a measurement."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import apsw
import psutil


def versions() -> dict[str, str]:
    """Return the versions of all packages involved."""
    found = {"python": platform.python_version(), "sqlite": apsw.sqlite_lib_version()}
    for name in ("retentive", "lancedb", "psycopg", "numpy", "onnxruntime"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def machine() -> dict[str, str]:
    """Return the processor, its cores, the memory and the system."""
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": platform.platform(),
    }


def load_average() -> float:
    """Return the load average of the last minute."""
    return psutil.getloadavg()[0]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
