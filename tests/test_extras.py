"""What is said if an optional package is missing: the line to type, which installs from where Retentive came from."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from retentive.errors import MissingExtra
from retentive.extras import needs_extra, pip_install


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, "pip install 'retentive[server]'"),
        ({"url": "file:///a%20b/retentive", "dir_info": {}}, "pip install '/a b/retentive[server]'"),
        ({"url": "file:///src", "dir_info": {"editable": True}}, "pip install -e '/src[server]'"),
        (
            {"url": "file:///dist/retentive-1-py3-none-any.whl", "archive_info": {}},
            "pip install '/dist/retentive-1-py3-none-any.whl[server]'",
        ),
        (
            {"url": "https://host/retentive", "vcs_info": {"vcs": "git", "commit_id": "0"}},
            "pip install 'retentive[server] @ git+https://host/retentive'",
        ),
    ],
)
def test_the_advice_installs_the_extra_from_where_the_program_was_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, origin: dict[str, Any] | None, command: str
):
    folder = tmp_path / "retentive-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.4\nName: retentive\nVersion: 1\n", encoding="utf-8")
    if origin is not None:
        (folder / "direct_url.json").write_text(json.dumps(origin), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))

    assert pip_install("server") == command
    assert str(MissingExtra("retentive serve", "server")).endswith(f": {command}")


def test_a_package_that_is_installed_in_another_version_is_not_missing(tmp_path: Path):
    """An older fastapi has no module telemetry, an older mcp lacks a class."""
    (tmp_path / "fastapi").mkdir()
    (tmp_path / "fastapi" / "__init__.py").touch()
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import retentive.server.run"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert done.returncode == 1
    assert "pip install" not in done.stderr
    assert "ImportError: cannot import name 'FastAPI'" in done.stderr or "No module named 'fastapi." in done.stderr


def test_only_a_package_that_is_not_installed_is_missing():
    with pytest.raises(MissingExtra), needs_extra("x", "server"):
        import nothing_of_this_name
    with pytest.raises(ModuleNotFoundError), needs_extra("x", "server"):
        import json.nothing_of_this_name  # noqa: F401
    with pytest.raises(ImportError), needs_extra("x", "server"):
        from json import nothing_of_this_name  # noqa: F401
