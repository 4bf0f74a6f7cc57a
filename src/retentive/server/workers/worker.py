"""One worker: `python -m retentive.server.workers.worker`, with its part of the plan on standard input."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from typing import Any

from retentive.engine import Engine
from retentive.inference.embedders import LocalSessions
from retentive.pipeline.recall import FairLimiter
from retentive.server.run import serve
from retentive.settings import ServerSettings


def main() -> None:
    """Serve until the supervisor stops this process, or ends."""
    plan: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    cores = max(1, (os.cpu_count() or 1) // plan["server"]["workers"])
    FairLimiter.default = _recalls_at_once(cores, plan["store"])
    LocalSessions.default = cores
    with Engine.open(**plan["arguments"]) as engine:
        server = ServerSettings.model_validate({**engine.settings.server.model_dump(), **plan["server"]})
        settings = engine.settings.model_copy(update={"server": server})
        serve(engine, settings, started=lambda _: _report_ready(), worker=True)


def _recalls_at_once(cores: int, store: str) -> int:
    """Return how many recalls one worker runs at once: the others queue, which costs less than competing for a core.

    With two workers on two cores, a request took 18.4 ms of processor time with one recall at once, 22.2 with two and
    25.8 with three. A recall on a database server waits for it, and another one can run meanwhile.
    """
    return cores + ("://" in store)


def _report_ready() -> None:
    print("ready", flush=True)
    threading.Thread(target=_stop_with_supervisor, name="supervisor", daemon=True).start()


def _stop_with_supervisor() -> None:
    """Stop if the supervisor was killed, which closes the pipe.

    The file is not read through `sys.stdin`: Python aborts at its end if a thread holds the lock of that object.
    """
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
