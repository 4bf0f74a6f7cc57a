"""The runtime of the models."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

LOAD = "from retentive.inference.onnx_sessions import MODELS, open_session; open_session(MODELS / 'memory-small')"


def test_the_runtime_collects_nothing_about_its_use(tmp_path: Path) -> None:
    """Otherwise it has an id of the machine, and events to send, in the cache of the user."""
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", "ORT_DISABLE_TELEMETRY")}
    folders = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"), str(tmp_path))
    subprocess.run([sys.executable, "-c", LOAD], env={**kept, **folders}, check=True, timeout=120)
    assert [path.name for path in tmp_path.rglob("*") if "icrosoft" in str(path)] == []
