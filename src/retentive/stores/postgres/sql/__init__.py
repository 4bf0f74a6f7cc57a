"""The SQL of the store, in files beside this one: migrations, and the named statements of each module."""

from __future__ import annotations

import re
from importlib import resources

_STATEMENT = re.compile(r"^-- name: (\w+)\n(.*?)(?=^-- name: |\Z)", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"^--.*\n", re.MULTILINE)


def read_script(name: str) -> str:
    """Return the text of a file."""
    return resources.files(__name__).joinpath(name).read_text(encoding="utf-8")


class Statements:
    """The statements of one file, each after a line `-- name: …`. Its {parts} are filled in when it is used."""

    def __init__(self, file: str) -> None:
        found = _STATEMENT.findall(read_script(f"{file}.sql"))
        self._texts = {name: _COMMENT.sub("", text).strip() for name, text in found}

    def __call__(self, name: str, /, **parts: object) -> bytes:
        """Return a statement to execute."""
        return self.text(name, **parts).encode()

    def text(self, name: str, /, **parts: object) -> str:
        """Return a statement, or a part of one, as text."""
        text = self._texts[name]
        return text.format(**parts) if parts else text
