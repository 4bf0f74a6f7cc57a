"""A Chromium for the tests: found, or else installed where that can be done. Run as a program it does the latter."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

NAMED = os.environ.get("RETENTIVE_TEST_BROWSER")
"""Read when this is loaded: tests have no settings of the user's around them."""

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")

HOW = (
    "the tests of the playground need a Chromium, and there is none: install one (Debian: apt-get install chromium; "
    "elsewhere: .venv/bin/playwright install chromium), or name one with RETENTIVE_TEST_BROWSER=/path/to/chromium"
)

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",  # whatever a page asks for
)


def find(own: str) -> str | None:
    """The path of a Chromium: the one named, or one of the machine's, or Playwright's own if it was downloaded."""
    if NAMED:
        return shutil.which(NAMED)
    known = [path for program in PROGRAMS if (path := shutil.which(program))]
    return known[0] if known else own if Path(own).exists() else None


def _own() -> str:
    with sync_playwright() as playwright:
        return playwright.chromium.executable_path


def _install() -> None:
    if hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get"):
        print("Installing Debian's chromium for the tests of the playground; this takes a minute.", flush=True)
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for words in (["update"], ["install", "--yes", "--no-install-recommends", "chromium"]):
            subprocess.run(["apt-get", "-qq", *words], env=quiet, stdout=subprocess.DEVNULL, check=False)
    if find(_own()) is None:
        print("Downloading Playwright's chromium for the tests of the playground.", flush=True)
        command = [sys.executable, "-m", "playwright", "install", "chromium"]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=False)


def main() -> None:
    """Install a Chromium if there is none."""
    if find(_own()) is None and not NAMED:
        _install()
    if find(_own()) is None:
        sys.exit(HOW)


if __name__ == "__main__":
    main()
