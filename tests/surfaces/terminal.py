"""A real terminal for a program: a pseudo-terminal of a width, what is typed into it, and what it shows."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager

_STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
LIMIT = 90.0


def _control() -> None:
    """Let Ctrl-C become a signal in a new process. A shell may have started the tests with that signal ignored."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Terminal:
    """A program that runs in a pseudo-terminal."""

    def __init__(self, words: tuple[str, ...], columns: int, env: dict[str, str]) -> None:
        self._fd, inside = pty.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        program = [sys.executable, "-m", "retentive", *words]
        own = {**os.environ, "TERM": "xterm-256color", **env}
        self.process = subprocess.Popen(
            program,
            stdin=inside,
            stdout=inside,
            stderr=inside,
            env=own,
            start_new_session=True,
            preexec_fn=_control,
        )
        os.close(inside)
        self.raw = ""

    @property
    def text(self) -> str:
        """What it has shown, without styles."""
        return _STYLE.sub("", self.raw).replace("\r\n", "\n")

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def until(self, text: str) -> str:
        """Wait until it shows a text after what it showed before; return everything since then."""
        seen = len(self.text)
        deadline = time.monotonic() + LIMIT
        while text not in self.text[seen:]:
            assert time.monotonic() < deadline, self.text
            assert self._read() or text in self.text[seen:], self.text
        return self.text[seen:]

    def end(self, *, press: str = "") -> int:
        """Press a key and wait until the program has ended; return its exit code.

        The key is pressed again after a while: Python loses a signal that comes just before it waits for input.
        """
        deadline = time.monotonic() + LIMIT
        again = 0.0
        while True:
            if press and time.monotonic() >= again:
                self.type(press)
                again = time.monotonic() + LIMIT / 4
            if not self._read():
                break
            assert time.monotonic() < deadline, self.text
        return self.process.wait(LIMIT)

    def _read(self) -> bool:
        """Read what there is; False if the program has closed its terminal."""
        if not select.select([self._fd], [], [], 1.0)[0]:
            return True
        try:
            found = os.read(self._fd, 65536)
        except OSError:
            return False
        self.raw += found.decode(errors="replace")
        return bool(found)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(LIMIT)
        os.close(self._fd)


@contextmanager
def terminal(*words: str, columns: int = 80, **env: str) -> Iterator[Terminal]:
    """Run the program in a terminal."""
    opened = Terminal(words, columns, env)
    try:
        yield opened
    finally:
        opened.close()
