"""The environments of the peers: one folder each, made and filled when it is first needed."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import venv
from pathlib import Path

from platformdirs import user_cache_path

REQUIREMENTS = Path(__file__).parent / "requirements"
OURS = "retentive"
OURS_TOO = ("retentive", "retentive_one_vector")
"""The adapters that run in this interpreter."""

_DONE = "installed.txt"


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
    python, wanted = folder / "bin" / "python", _digest(file)
    done = folder / _DONE
    if not done.is_file() or done.read_text(encoding="utf-8") != wanted:
        venv.create(folder, clear=True, with_pip=True)
        _install(python, file)
        done.write_text(wanted, encoding="utf-8")
    return python


def _install(python: Path, file: Path) -> None:
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(file)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode:
        last = finished.stderr.strip().splitlines()[-1:] or ["pip gave no reason"]
        raise NotInstalledError(last[0])


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
