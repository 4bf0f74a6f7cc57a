"""A page as a story: its blocks run from top to bottom, in one folder, on one store, with one service."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
from typer.testing import CliRunner

from retentive.cli.app import app
from retentive.engine import Engine
from retentive.inference.embedders import Embedder
from retentive.settings import Settings, load_settings
from retentive.stores import open_store
from tests.documents.alike import alike, holds
from tests.documents.blocks import ROOT, Block
from tests.documents.command_lines import commands_of, needs_shell, until
from tests.surfaces.chatting import chat_service
from tests.surfaces.model_server import model_server

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]

_SERVICE = re.compile(r"http://(?:localhost|127\.0\.0\.1|memory\.example):4000")


class Story:
    """Where a page's blocks run, and what the last one gave."""

    def __init__(self, folder: Path, model: Embedder, stack: contextlib.ExitStack) -> None:
        self.folder = folder
        self._model = model
        self._stack = stack
        self._names: dict[str, Any] = {"__name__": "a page"}
        self._url: str | None = None
        self._output = ""
        self._shim = self._make_program()

    def run(self, block: Block) -> None:
        """Run a block as its language and its comment ask for."""
        file, code = block.said("file"), int(block.said("exits") or 0)
        if file is not None:
            (self.folder / file).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / file).write_text(block.text, encoding="utf-8")
        if block.note == "output":
            self._compare(block)
        elif block.language in COMMANDS:
            for command, shown in commands_of(block):
                self._output = self._command(command, code)
                assert not shown.strip() or alike(shown, self._output), f"{block}: {command}\n{self._output}"
        elif file is None or block.language in RUNNERS:
            RUNNERS[block.language](self, block)

    def _compare(self, block: Block) -> None:
        if block.language == "json":
            assert holds(json.loads(block.text), json.loads(self._output)), f"{block}:\n{self._output}"
        else:
            assert alike(block.text, self._output), f"{block}:\n{self._output}"

    def python(self, block: Block) -> None:
        """Run a program; later blocks of the page know its names."""
        program = _SERVICE.sub(lambda found: self.url, block.text)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(program, str(block), "exec", dont_inherit=True), self._names)
        self._output = printed.getvalue()

    def json(self, block: Block) -> None:
        """Read it: every object of it, one after the other."""
        rest = block.text.strip()
        while rest:
            _, end = json.JSONDecoder().raw_decode(rest)
            rest = rest[end:].strip()

    def toml(self, block: Block) -> None:
        """Load it as the config file that it is."""
        file = self.folder / "a block.toml"
        file.write_text(block.text, encoding="utf-8")
        load_settings({}, environment={}, config=file)

    @property
    def url(self) -> str:
        """The address of a service on the page's store, with a model behind it; it is there until the page ends."""
        if self._url is None:
            store = str(self.folder / "store.db")
            engine = Engine(open_store(store), self._model, settings=Settings(store=store))
            self._stack.callback(engine.close)
            model = self._stack.enter_context(model_server())
            self._url = self._stack.enter_context(chat_service(engine, model.url))
            self._names["_secret"] = engine.tokens.create(access="admin")[1]
        return self._url

    def _command(self, line: str, code: int) -> str:
        """What a command prints, on both of its channels."""
        words = shlex.split(line, comments=True)
        given = {}
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            name, _, value = words.pop(0).partition("=")
            given[name] = value
        assert words, f"there is no command in {line!r}"
        if needs_shell(line):
            return self._shell(line, code)
        assert words[0] in PROGRAMS, f"a command of an unknown kind: {line!r}; there are {', '.join(PROGRAMS)}"
        return PROGRAMS[words[0]](self, words[1:], given, code)

    def retentive(self, words: list[str], given: dict[str, str], code: int) -> str:
        """Run the program in this process, or as one of its own where it stays until it is ended."""
        stays = next((STAYS[word] for word in words if word in STAYS), None)
        if stays and code == 0 and not ENDS.intersection(words):
            return self._stay([*words, "--port", "0"] if "serve" in words else words, given, stays)
        done = CliRunner().invoke(app, words, env=given)
        assert done.exit_code == code, (words, done.exit_code, done.output, done.exception)
        return done.output

    def _stay(self, words: list[str], given: dict[str, str], ready: str) -> str:
        """Start it for real, wait until it is ready, ask a service whether it is well, and end it."""
        with subprocess.Popen(
            [str(self._shim), *words],
            env=os.environ | given | {"PYTHONUNBUFFERED": "1"},
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            try:
                said = until(ready, process.stdout)
                assert ready in said, said
                if port := re.search(r"serves http://[^:]+:(\d+)", said):
                    assert httpx2.get(f"http://127.0.0.1:{port[1]}/healthz").status_code == 200
            finally:
                process.terminate()
        assert process.returncode == 0, said
        return said

    def call(self, words: list[str], given: dict[str, str], code: int) -> str:
        """Call the page's service with the real curl."""
        del given
        url = self.url
        made = [_SERVICE.sub(url, word).replace("rtv_…", str(self._names["_secret"])) for word in words]
        done = subprocess.run(["curl", "-sS", "--fail-with-body", *made], capture_output=True, text=True, check=False)
        assert (done.returncode == 0) == (code == 0), (words, done.stdout, done.stderr)
        return done.stdout

    def make(self, words: list[str], given: dict[str, str], code: int) -> str:
        """See to it that there is such a target, and how it would be made."""
        del given, code
        own = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
        done = subprocess.run(
            ["make", "--dry-run", *words], env=own, cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (words, done.stderr)
        return ""

    def pip(self, words: list[str], given: dict[str, str], code: int) -> str:
        """See to it that what is installed is us, and the extras are there.

        On PyPI, `retentive` is another program. By name only an extra is added, where ours is installed.
        """
        del given, code
        for package in words[1:]:
            named = re.fullmatch(r"(?:\.|retentive(?=\[))(?:\[([\w,-]+)\])?", package)
            assert words[0] == "install", words
            assert named, f"{package} is not ours"
            assert set((named[1] or "server").split(",")) <= EXTRAS.keys(), package
        return ""

    def _shell(self, line: str, code: int) -> str:
        """Run a line that needs a shell in one."""
        found = os.environ | {"PATH": f"{self._shim.parent}:{os.environ['PATH']}"}
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", line],
            env=found,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, (line, done.stdout, done.stderr)
        return done.stdout

    def _make_program(self) -> Path:
        """`retentive` as a program of its own, of this very source."""
        shim = self.folder / "bin" / "retentive"
        shim.parent.mkdir()
        source = shlex.quote(str(ROOT / "src"))
        shim.write_text(f'#!/bin/sh\nPYTHONPATH={source} exec {shlex.quote(sys.executable)} -m retentive "$@"\n')
        shim.chmod(0o755)
        return shim


Runner = Callable[[Story, Block], None]

RUNNERS: dict[str, Runner] = {
    "python": Story.python,
    "json": Story.json,
    "jsonl": Story.json,
    "toml": Story.toml,
}
"""What is done with a block of each language; commands are looked at one by one."""

PROGRAMS: dict[str, Callable[[Story, list[str], dict[str, str], int], str]] = {
    "retentive": Story.retentive,
    "curl": Story.call,
    "make": Story.make,
    "pip": Story.pip,
}
"""What is done with a command of each program."""

STAYS = {"serve": "Retentive serves", "watch": "ready"}
"""Commands that stay until they are ended, and what they say when they are ready."""

ENDS = {"--once", "--dry-run", "--forget"}
"""With these they do not stay."""

COMMANDS = ("console", "sh", "bash", "curl")
