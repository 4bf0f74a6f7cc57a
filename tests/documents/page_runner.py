"""`PageRunner`: runs the blocks of one page from top to bottom, in one folder, on one store, with one service."""

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
from tests.documents.blocks import ROOT, Block
from tests.documents.command_lines import commands_of, needs_shell, read_until
from tests.documents.comparison import matches_json, matches_text
from tests.surfaces.chatting import chat_service
from tests.surfaces.model_server import model_server

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]

_SERVICE = re.compile(r"http://(?:localhost|127\.0\.0\.1|memory\.example):4000")


class PageRunner:
    """Runs the blocks of one page. Later blocks see the files, memories and Python names of earlier ones."""

    def __init__(self, folder: Path, model: Embedder, stack: contextlib.ExitStack) -> None:
        self.folder = folder
        self._model = model
        self._stack = stack
        self._names: dict[str, Any] = {"__name__": "a page"}
        self._url: str | None = None
        self._output = ""
        self._program = self._make_program()

    def run(self, block: Block) -> None:
        """Run a block according to its language and its comment."""
        file, code = block.option("file"), int(block.option("exits") or 0)
        if file is not None:
            (self.folder / file).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / file).write_text(block.text, encoding="utf-8")
        if block.note == "output":
            self._compare(block)
        elif block.language in COMMANDS:
            for command, shown in commands_of(block):
                self._output = self._command(command, code)
                assert not shown.strip() or matches_text(shown, self._output), f"{block}: {command}\n{self._output}"
        elif file is None or block.language in RUNNERS:
            RUNNERS[block.language](self, block)

    def _compare(self, block: Block) -> None:
        if block.language == "json":
            assert matches_json(json.loads(block.text), json.loads(self._output)), f"{block}:\n{self._output}"
        else:
            assert matches_text(block.text, self._output), f"{block}:\n{self._output}"

    def python(self, block: Block) -> None:
        """Run a Python program."""
        program = _SERVICE.sub(lambda found: self.url, block.text)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(program, str(block), "exec", dont_inherit=True), self._names)
        self._output = printed.getvalue()

    def json(self, block: Block) -> None:
        """Parse JSON: one value, or several in sequence."""
        rest = block.text.strip()
        while rest:
            _, end = json.JSONDecoder().raw_decode(rest)
            rest = rest[end:].strip()

    def toml(self, block: Block) -> None:
        """Load a config file."""
        file = self.folder / "a block.toml"
        file.write_text(block.text, encoding="utf-8")
        load_settings({}, environment={}, config=file)

    @property
    def url(self) -> str:
        """The address of a service on the page's store, with an LLM server; started at the first use."""
        if self._url is None:
            store = str(self.folder / "store.db")
            engine = Engine(open_store(store), self._model, settings=Settings(store=store))
            self._stack.callback(engine.close)
            model = self._stack.enter_context(model_server())
            self._url = self._stack.enter_context(chat_service(engine, model.url))
            self._names["_secret"] = engine.tokens.create(access="admin")[1]
        return self._url

    def _command(self, line: str, code: int) -> str:
        """Run a command line and return its output, including standard error."""
        words = shlex.split(line, comments=True)
        environment = {}
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            name, _, value = words.pop(0).partition("=")
            environment[name] = value
        assert words, f"there is no command in {line!r}"
        if needs_shell(line):
            return self._shell(line, code)
        assert words[0] in PROGRAMS, f"unknown command: {line!r}; the commands are {', '.join(PROGRAMS)}"
        return PROGRAMS[words[0]](self, words[1:], environment, code)

    def retentive(self, words: list[str], environment: dict[str, str], code: int) -> str:
        """Run the program in this process, or in its own process if it runs until it is stopped."""
        ready = next((LONG_RUNNING[word] for word in words if word in LONG_RUNNING), None)
        if ready and code == 0 and not SHORT_OPTIONS.intersection(words):
            return self._long_running([*words, "--port", "0"] if "serve" in words else words, environment, ready)
        result = CliRunner().invoke(app, words, env=environment)
        assert result.exit_code == code, (words, result.exit_code, result.output, result.exception)
        return result.output

    def _long_running(self, words: list[str], environment: dict[str, str], ready: str) -> str:
        """Start the program, wait until it is ready, check the health of a service, and stop it."""
        with subprocess.Popen(
            [str(self._program), *words],
            env=os.environ | environment | {"PYTHONUNBUFFERED": "1"},
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            try:
                output = read_until(ready, process.stdout)
                assert ready in output, output
                if port := re.search(r"serves http://[^:]+:(\d+)", output):
                    assert httpx2.get(f"http://127.0.0.1:{port[1]}/healthz", timeout=90).status_code == 200
            finally:
                process.terminate()
        assert process.returncode == 0, output
        return output

    def curl(self, words: list[str], environment: dict[str, str], code: int) -> str:
        """Call the page's service with curl. `rtv_…` is replaced with a token."""
        del environment
        url = self.url
        arguments = [_SERVICE.sub(url, word).replace("rtv_…", str(self._names["_secret"])) for word in words]
        result = subprocess.run(
            ["curl", "-sS", "--fail-with-body", *arguments], capture_output=True, text=True, check=False
        )
        assert (result.returncode == 0) == (code == 0), (words, result.stdout, result.stderr)
        return result.stdout

    def make(self, words: list[str], environment: dict[str, str], code: int) -> str:
        """Check that the target exists and can be made."""
        del environment, code
        own = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
        result = subprocess.run(
            ["make", "--dry-run", *words], env=own, cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, (words, result.stderr)
        return ""

    def pip(self, words: list[str], environment: dict[str, str], code: int) -> str:
        """Check that only this project is installed, with extras that exist."""
        del environment, code
        for package in words[1:]:
            named = re.fullmatch(r"(?:\.|retentive)(?:\[([\w,-]+)\])?", package)
            assert words[0] == "install", words
            assert named, f"{package} is another project"
            assert set((named[1] or "server").split(",")) <= EXTRAS.keys(), package
        return ""

    def _shell(self, line: str, code: int) -> str:
        """Run a line in a shell."""
        environment = os.environ | {"PATH": f"{self._program.parent}:{os.environ['PATH']}"}
        result = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", line],
            env=environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == code, (line, result.stdout, result.stderr)
        return result.stdout

    def _make_program(self) -> Path:
        """Write an executable `retentive` that runs this source."""
        program = self.folder / "bin" / "retentive"
        program.parent.mkdir()
        source = shlex.quote(str(ROOT / "src"))
        program.write_text(f'#!/bin/sh\nPYTHONPATH={source} exec {shlex.quote(sys.executable)} -m retentive "$@"\n')
        program.chmod(0o755)
        return program


RUNNERS: dict[str, Callable[[PageRunner, Block], None]] = {
    "python": PageRunner.python,
    "json": PageRunner.json,
    "jsonl": PageRunner.json,
    "toml": PageRunner.toml,
}
"""How a block of each language is run."""

PROGRAMS: dict[str, Callable[[PageRunner, list[str], dict[str, str], int], str]] = {
    "retentive": PageRunner.retentive,
    "curl": PageRunner.curl,
    "make": PageRunner.make,
    "pip": PageRunner.pip,
}
"""How a command of each program is run."""

LONG_RUNNING = {"serve": "Retentive serves", "watch": "ready"}
"""Commands that run until they are stopped, and what they print when they are ready."""

SHORT_OPTIONS = {"--once", "--dry-run", "--forget"}
"""With these options they end by themselves."""

COMMANDS = ("console", "sh", "bash", "curl")
"""Languages of blocks that consist of command lines."""
