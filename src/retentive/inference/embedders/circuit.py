"""A circuit breaker: after a service has failed, calls fail at once for some seconds, without a request."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from retentive.errors import Unavailable

OPEN_SECONDS = 5.0
"""How long calls fail at once after a failure. A recall that has no vector is answered by keywords meanwhile."""


class CircuitBreaker:
    """Closed while the service works, open for some seconds after a failure, then half open.

    While it is half open, one call at a time may try the service, once. It closes when the service has answered.
    """

    def __init__(self, *, seconds: float = OPEN_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._lock = threading.Lock()
        self._failure: str | None = None
        self._open_until = 0.0
        self._probing = False

    @property
    def failure(self) -> str | None:
        """The failure of the last call; None if the service has answered since."""
        return self._failure

    @contextmanager
    def call(self) -> Iterator[bool]:
        """Enter a call to the service; yields whether it is the single attempt of a half-open circuit.

        `Unavailable`, with the last failure, while the circuit is open.
        """
        with self._lock:
            probe = self._failure is not None
            if probe and (self._probing or self._clock() < self._open_until):
                raise Unavailable(f"{self._failure} It is not called for {self._seconds:g} s after a failure.")
            self._probing = self._probing or probe
        try:
            yield probe
        finally:
            if probe:
                with self._lock:
                    self._probing = False

    def trip(self, failure: str) -> None:
        """Open the circuit: the service could not be reached, or failed."""
        with self._lock:
            self._failure, self._open_until = failure, self._clock() + self._seconds

    def reset(self) -> None:
        """Close the circuit: the service has answered."""
        with self._lock:
            self._failure = None
