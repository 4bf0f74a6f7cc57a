"""Work in the background of the service: on its own thread, until it ends, fails or is stopped."""

from __future__ import annotations

import logging
import threading
from typing import Literal

from retentive.errors import RetentiveError, describe_error
from retentive.server.http.problems import UNEXPECTED

log = logging.getLogger(__name__)

Outcome = Literal["done", "failed", "stopped"]

STOP_SECONDS = 5.0
"""How long to wait for work to stop. It calls `check` often, at every memory or batch that it processes."""


class Stopped(Exception):
    """The work was stopped."""


class BackgroundWork:
    """One piece of work on a thread of its own. A subclass does it in `work` and learns in `ended` how it ended."""

    def __init__(self, name: str) -> None:
        self._stop = threading.Event()
        self._name = name
        # A daemon, so that it cannot keep the process alive if it does not stop in time.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def work(self) -> None:
        """Do the work. It calls `check` often."""
        raise NotImplementedError

    def ended(self, outcome: Outcome, detail: str | None) -> None:
        """Record how the work ended, with the reason if it failed."""
        raise NotImplementedError

    def start(self) -> None:
        """Start the work."""
        self._thread.start()

    def stop(self, *, seconds: float = STOP_SECONDS) -> None:
        """Stop the work and wait until it has ended."""
        self._stop.set()
        self._thread.join(seconds)

    def check(self) -> None:
        """Raise `Stopped` if the work was stopped."""
        if self._stop.is_set():
            raise Stopped

    def _run(self) -> None:
        try:
            self.work()
            self.ended("done", None)
        except Stopped:
            self.ended("stopped", None)
        except RetentiveError as error:
            self.ended("failed", str(error))
        except Exception as error:
            log.error("%s failed: %s", self._name, describe_error(error))
            self.ended("failed", UNEXPECTED)
