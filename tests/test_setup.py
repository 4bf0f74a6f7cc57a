"""`make run` installs what serving needs, `make test` the rest, and constraints.txt pins all of it."""

from __future__ import annotations

import os
import re
import subprocess
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PINNED = re.compile(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.]+)")


def installed_by(target: str) -> list[str]:
    """Return the extras that a target would install into a new environment, in order."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    command = ["make", "--dry-run", "VENV=/nonexistent", target]
    done = subprocess.run(command, env=own, cwd=ROOT, capture_output=True, text=True, check=True)
    return re.findall(r"pip install .* -c constraints\.txt -e '\.\[(.+)\]'", done.stdout)


def requirements(name: str, extras: set[str]) -> dict[str, set[str]]:
    """Return the names of all packages that a package with these extras needs, with the extras it needs of them."""
    found: dict[str, set[str]] = {}
    waiting = [(name, extras)]
    while waiting:
        package, wanted = waiting.pop()
        for text in distribution(package).requires or ():
            needed = Requirement(text)
            applies = needed.marker is None or any(needed.marker.evaluate({"extra": one}) for one in wanted | {""})
            known = found.get(canonicalize_name(needed.name))
            if applies and (known is None or needed.extras - known):
                found[canonicalize_name(needed.name)] = (known or set()) | needed.extras
                waiting.append((needed.name, found[canonicalize_name(needed.name)]))
    return found


def test_running_installs_the_service_alone_and_testing_installs_everything():
    assert installed_by("run") == ["server,eval,import,watch"]
    assert installed_by("pytest") == ["dev"]


def test_every_package_that_development_needs_is_pinned_to_the_version_that_is_installed():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    pins = {canonicalize_name(pin[1]): pin[2] for line in lines if (pin := PINNED.fullmatch(line))}
    assert len(pins) == len(lines)

    needed = requirements("retentive", {"dev"}).keys() - {"retentive"}

    assert len(needed) > 100
    assert {name: pins.get(name) for name in needed} == {name: version(name) for name in needed}


def version(name: str) -> str:
    try:
        return distribution(name).version
    except PackageNotFoundError:
        return "not installed"
