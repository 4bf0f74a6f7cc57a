"""Find a Chromium for the browser tests; `python -m tests.browser.chromium` installs one if there is none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

CONFIGURED = os.environ.get("RETENTIVE_TEST_BROWSER")
"""Read at import, because the tests remove the settings of the user from the environment."""

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")

INSTRUCTIONS = (
    "no Chromium found for the tests of the playground: install one (Debian: apt-get install chromium; elsewhere: "
    ".venv/bin/playwright install chromium), or set RETENTIVE_TEST_BROWSER=/path/to/chromium"
)

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",  # no other host resolves
)


def find(bundled: str) -> str | None:
    """Return the path of the configured Chromium, of an installed one, or of Playwright's if it was downloaded."""
    if CONFIGURED:
        return shutil.which(CONFIGURED)
    installed = [path for program in PROGRAMS if (path := shutil.which(program))]
    return installed[0] if installed else bundled if Path(bundled).exists() else None


def _bundled() -> str:
    with sync_playwright() as playwright:
        return playwright.chromium.executable_path


def _install() -> None:
    if hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get"):
        print("Installing the chromium package for the tests of the playground; this takes a minute.", flush=True)
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for arguments in (["update"], ["install", "--yes", "--no-install-recommends", "chromium"]):
            subprocess.run(["apt-get", "-qq", *arguments], env=quiet, stdout=subprocess.DEVNULL, check=False)
    if find(_bundled()) is None:
        print("Downloading the Chromium of Playwright for the tests of the playground.", flush=True)
        command = [sys.executable, "-m", "playwright", "install", "chromium"]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=False)


def main() -> None:
    """Install a Chromium if there is none."""
    if find(_bundled()) is None and not CONFIGURED:
        _install()
    if find(_bundled()) is None:
        sys.exit(INSTRUCTIONS)


if __name__ == "__main__":
    main()
