"""Generate the reference pages: `python -m tools.references` writes them, `--check` only compares."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.cli_reference import cli_reference
from tools.mcp_answers import PAGE, mcp_answers
from tools.settings_reference import settings_reference

DOCS = Path(__file__).parents[1] / "docs"


def references() -> dict[Path, str]:
    """Return the text of each generated page by its path."""
    return {DOCS / "cli-reference.md": cli_reference(), DOCS / "settings.md": settings_reference(), PAGE: mcp_answers()}


def stale() -> list[Path]:
    """Return the generated pages that are out of date."""
    return [page for page, text in references().items() if not page.exists() or page.read_text("utf-8") != text]


def main(arguments: list[str]) -> None:
    """Write the pages that are out of date, or only name them."""
    old = stale()
    if "--check" in arguments:
        sys.exit(f"out of date: {', '.join(page.name for page in old)}; run: make references" if old else 0)
    texts = references() if old else {}
    for page in old:
        page.write_text(texts[page], encoding="utf-8")
        print(f"wrote {page.relative_to(DOCS.parent)}")


if __name__ == "__main__":
    main(sys.argv[1:])
