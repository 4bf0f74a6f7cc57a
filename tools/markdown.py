"""Small pieces of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

GENERATED = "<!-- Written by `make references` from the program itself; a change here is overwritten. -->"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; a bar in a cell is escaped, or it would end the cell."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def code(text: object) -> str:
    """Text as it is typed; nothing for nothing."""
    return f"`{text}`" if str(text) else ""


def page(*parts: str) -> str:
    """Parts of a page with a blank line between them."""
    return "\n\n".join(part.strip("\n") for part in parts if part.strip()) + "\n"
