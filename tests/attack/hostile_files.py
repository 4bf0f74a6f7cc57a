"""Files to import that are spoiled, cut off, wrongly encoded, deeply nested, very long, or of another kind."""

from __future__ import annotations

import io
import json
import os
import random
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import apsw

from tests.attack.harness import words
from tests.stores.build import id_of
from tests.transfer.formats.test_invalid_input import LINES, WHOLE

STRANGE: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 10**40, "", " ", "x", "\ud800", "\0", "user", "2026-13-99", [], {}, [[]], {"a": {"b": []}},
    "9" * 600, "../../etc/passwd", "'); DROP TABLE memories;--", "x" * 1_100_000, {"__proto__": 1}, "\u202e\u200b",
)  # fmt: skip

FORMATS = tuple(WHOLE)


def spoiled_value(value: Any, dice: random.Random) -> Any:
    """A value with one thing in it replaced by something strange, or taken away."""
    if isinstance(value, dict) and value and dice.random() < 0.8:
        key = dice.choice(sorted(value))
        if dice.random() < 0.2:
            return {name: one for name, one in value.items() if name != key}
        return {**value, key: spoiled_value(value[key], dice)}
    if isinstance(value, list) and value and dice.random() < 0.8:
        at = dice.randrange(len(value))
        return [*value[:at], spoiled_value(value[at], dice), *value[at + 1 :]]
    return dice.choice(STRANGE)


def written(format: str, dice: random.Random, *, spoil: bool = True) -> bytes:
    """A file of a format, in which up to three things are wrong."""
    whole = json.loads(json.dumps(WHOLE[format]))
    for _ in range(dice.randrange(1, 4) if spoil else 0):
        at = dice.randrange(1 if format == "jsonl" else 0, len(whole))
        whole[at] = spoiled_value(whole[at], dice)
    return ("\n".join(map(json.dumps, whole)) + "\n" if format in LINES else json.dumps(whole)).encode()


def cut(format: str, dice: random.Random) -> bytes:
    """A file that is cut off."""
    content = written(format, dice, spoil=False)
    return content[: dice.randrange(len(content))]


def flipped(format: str, dice: random.Random) -> bytes:
    """A file with other bytes at some places."""
    content = bytearray(written(format, dice, spoil=False))
    for _ in range(dice.choice((1, 5, 50))):
        content[dice.randrange(len(content))] = dice.randrange(256)
    return bytes(content)


def recoded(format: str, dice: random.Random) -> bytes:
    """A file in another encoding than UTF-8, or in two."""
    text = written(format, dice, spoil=False).decode().replace("x", "ä")
    encodings = ("utf-16", "utf-16-le", "utf-32", "latin-1", "utf-8-sig", "cp037", "utf-7")
    content = text.encode(dice.choice(encodings), errors="replace")
    return content + text.encode("utf-16-be") if dice.random() < 0.2 else content


def nested(format: str, dice: random.Random) -> bytes:
    """A file that is nested very deeply, alone or in a field."""
    depth = dice.choice((1_000, 100_000))
    deep = dice.choice(("[" * depth, "[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth))
    whole = written(format, dice, spoil=False).decode()
    return dice.choice((deep, whole.replace('"x"', deep, 1), whole + deep)).encode()


def long(format: str, dice: random.Random) -> bytes:
    """A file with one very long line, text or number."""
    size = dice.choice((1_000_000, 3_000_000, 40_000_000))
    filler = dice.choice(("a" * size, "[1]," * (size // 4), "\\u0041" * (size // 6), "\n" * min(size, 1_000_000)))
    return written(format, dice, spoil=False).decode().replace('"x"', f'"{filler}"', 1).encode()


def noise(format: str, dice: random.Random) -> bytes:
    """Random bytes, zeros, or another kind of file."""
    return dice.choice(
        (b"", bytes(5000), dice.randbytes(5000), b"%PDF-1.7\n", b"\x89PNG\r\n\x1a\n", b"\x1f\x8b\x08" + bytes(9))
    )


def zipped(format: str, dice: random.Random) -> bytes:
    """An archive: of a good or a spoiled file, of names that leave the folder, of very many zeros, or damaged."""
    buffer = io.BytesIO()
    inner = written(format, dice, spoil=dice.random() < 0.5)
    names = (
        "conversations.json",
        "../conversations.json",
        "/etc/passwd",
        "a/" * 500 + "b",
        "conversations.json",
        "\u202e",
    )
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", inner)
        for name in dice.sample(names[1:4], dice.randrange(3)):
            archive.writestr(name, inner)
        if dice.random() < 0.2:
            archive.writestr("users.json", bytes(60_000_000))
    content = bytearray(buffer.getvalue())
    if dice.random() < 0.5:
        content[dice.randrange(len(content))] ^= 255
    if dice.random() < 0.2:
        del content[dice.randrange(len(content)) :]
    return bytes(content)


def database(format: str, dice: random.Random) -> bytes:
    """A SQLite file of other tables, perhaps damaged."""
    with apsw.Connection(":memory:") as connection:
        connection.execute("CREATE TABLE memories (id, content, created_at, embedding)")
        for number in range(30):
            row = (number, dice.choice(("a text", "", None, b"\xff", 5, "x" * 5000)), dice.choice(STRANGE[:5]), b"\0")
            connection.execute("INSERT INTO memories VALUES (?, ?, ?, ?)", tuple(map(_bindable, row)))
        content = bytearray(connection.serialize("main"))
    for _ in range(dice.choice((0, 1, 30))):
        content[dice.randrange(len(content))] = dice.randrange(256)
    return bytes(content)


def _bindable(value: Any) -> Any:
    return str(value) if isinstance(value, int) and abs(value) > 2**62 else value


KINDS: Mapping[str, Callable[[str, random.Random], bytes]] = {
    "spoiled": written,
    "cut off": cut,
    "flipped": flipped,
    "recoded": recoded,
    "nested": nested,
    "long": long,
    "noise": noise,
    "zipped": zipped,
    "database": database,
}


def write_hostile(folder: Path, dice: random.Random) -> tuple[str, Path, str | None]:
    """Write a file or folder to import; return what it is, its path, and the format to name."""
    if dice.random() < 0.1:
        return "folder", _notes(folder, dice), dice.choice((None, "markdown", "openclaw"))
    kind, format = dice.choice(list(KINDS)), dice.choice(FORMATS)
    folder.mkdir()
    endings = {"zipped": "zip", "database": dice.choice(("db", "sqlite"))}
    name = "corpus.jsonl" if format == "beir" else f"file.{endings.get(kind, dice.choice(('json', 'jsonl')))}"
    (folder / name).write_bytes(KINDS[kind](format, dice))
    named = {"database": "sqlite"}.get(kind, format) if dice.random() < 0.8 else None
    return f"{kind} {format}", folder if format == "beir" and kind != "database" else folder / name, named


def _notes(folder: Path, dice: random.Random) -> Path:
    """A folder of notes with links in a circle, a pipe, strange names and strange contents."""
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "circle").symlink_to(folder)
    (folder / "passwd.md").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe.md")
    contents = (
        b"# Title\n\ntext",
        b"\xff\xfe\xff",
        b"---\n" + b"a: [" * 5000,
        b"# " * 5000,
        b"> " * 3000 + b"x",
        b"\0" * 99,
    )
    for number, content in enumerate(dice.sample(contents, 4)):
        (folder / f"note{number}.md").write_bytes(content)
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff\xfe.md")).write_bytes(b"a note with a strange name")
    (folder / "line\nbreak.md").write_text("a note\n\n" + words(dice, 400))
    return folder


def good_lines(path: Path, number: int) -> None:
    """A good file of many memories."""
    memories = ({"id": id_of(at), "text": f"line {at}", "session": f"s{at % 9}"} for at in range(number))
    path.write_text("".join(json.dumps(memory) + "\n" for memory in memories))
