"""Optional packages: whether an import failed because one is not installed, and the command that installs it."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from retentive.errors import MissingExtra


@contextmanager
def needs_extra(what: str, extra: str) -> Iterator[None]:
    """Raise `MissingExtra` if a package that is imported here is not installed.

    A package that lacks a module or a name is installed, in another version: that error stays as it is.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "retentive").partition(".")[0]
        if sys.modules.get(package) is not None:
            raise
        raise MissingExtra(what, extra) from error


def pip_install(extra: str = "", *, options: str = "") -> str:
    """Return the command that installs Retentive from where it was installed, with an extra and options of pip.

    That is a folder, a wheel or a repository if it was not found by its name on an index (PEP 610).
    """
    origin = _origin()
    url, suffix = str(origin.get("url", "")), f"[{extra}]" if extra else ""
    if url.startswith("file:"):
        from urllib.parse import unquote, urlsplit

        place = unquote(urlsplit(url).path) + suffix
        editable = "-e " if origin.get("dir_info", {}).get("editable") else ""
    else:
        vcs = origin.get("vcs_info", {}).get("vcs")
        place = f"retentive{suffix}" + (f" @ {vcs + '+' if vcs else ''}{url}" if url else "")
        editable = ""
    return f"pip install {options and options + ' '}{editable}{shlex.quote(place)}"


def _origin() -> dict[str, Any]:
    """What `direct_url.json` of the installed package says; nothing if there is none."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        return dict(json.loads(distribution("retentive").read_text("direct_url.json") or "{}"))
    except (PackageNotFoundError, ValueError):
        return {}
