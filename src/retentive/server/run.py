"""Run the HTTP service in this process, with one engine on one socket."""

from __future__ import annotations

import errno
import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType
from typing import Any

from retentive.engine import Engine
from retentive.errors import Invalid, RetentiveError, Unavailable
from retentive.extras import needs_extra
from retentive.pipeline.recall import recall
from retentive.settings import ServerSettings, Settings

with needs_extra("retentive serve", "server"):
    import uvicorn

    from retentive.server.connections import TimedProtocol, answer_liveness, set_keep_alive
    from retentive.server.http.app import create_app
    from retentive.server.http.request_log import log_warnings
    from retentive.server.runtime_file import announced

log = logging.getLogger(__name__)

GRACE_SECONDS = 15
"""How long running requests have to finish when the service stops. A write that has started is always finished."""

KEEP_ALIVE_SECONDS = 30
LOADING = "the embedding model is being loaded; try again in a few seconds"


OPTIONS: dict[str, Any] = {
    "log_config": None,
    "access_log": False,
    "lifespan": "on",
    "server_header": False,
    "http": TimedProtocol,
    "timeout_keep_alive": KEEP_ALIVE_SECONDS,
    "timeout_graceful_shutdown": GRACE_SECONDS,
}
"""Of uvicorn."""


def serve(engine: Engine, settings: Settings | None = None, *, started: Callable[[str], None]) -> None:
    """Serve an engine until the process is stopped. The caller closes the engine.

    `started` is called with the address when the service accepts requests.
    """
    settings = settings or engine.settings
    log_warnings(settings.server.log)
    with open_socket(settings.server) as listener, answering_liveness(settings.server):
        check_tokens(engine, settings.server)
        app = create_app(engine, settings)
        app.state.starting = LOADING

        def warm() -> None:
            warm_up(engine)
            app.state.starting = None

        def begin() -> None:
            reduce_contention()
            address = address_of(listener)
            # Not before connections are accepted.
            running.enter_context(announced(settings.store, address, search=engine.settings.search))
            started(address)
            threading.Thread(target=warm, name="warm-up", daemon=True).start()

        with _ignored_signals(), ExitStack() as running:
            _Server(uvicorn.Config(app, **OPTIONS), begin).run(sockets=[listener])


def check_tokens(engine: Engine, settings: ServerSettings) -> None:
    """Raise `Invalid` if every request needs a token and there is none."""
    why = settings.token_reason
    if why is not None and not engine.tokens.list():
        raise Invalid(
            f"every request needs a token ({why}), and there is none yet; create one first: "
            "retentive token create --access write"
        )


@contextmanager
def open_socket(settings: ServerSettings) -> Iterator[socket.socket]:
    """Bind a socket to the address in the settings; an error says what to change."""
    host, port = settings.host, settings.port
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise Invalid(
            f"'{host}' is not an address to listen on ({error}); use 127.0.0.1, or 0.0.0.0 for all addresses"
        ) from None
    with listener:
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            set_keep_alive(listener)
            listener.bind(address)
        except OSError as error:
            raise _bind_error(error, host, port) from None
        yield listener


@contextmanager
def answering_liveness(settings: ServerSettings) -> Iterator[None]:
    """Answer requests at the port for liveness, if there is one, on a thread that no work of the service delays."""
    if settings.liveness_port is None:
        yield
        return
    with open_socket(settings.model_copy(update={"port": settings.liveness_port})) as listener:
        listener.listen()
        threading.Thread(target=answer_liveness, args=(listener,), name="liveness", daemon=True).start()
        try:
            yield
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # which ends the thread


def _bind_error(error: OSError, host: str, port: int) -> RetentiveError:
    if error.errno == errno.EADDRINUSE:
        other = port + 1 if port < 65535 else 4000
        return Unavailable(
            f"port {port} on {host} is used by another process; choose another one with --port {other}, "
            "or any free one with --port 0"
        )
    if error.errno == errno.EACCES:
        return Unavailable(f"this user may not listen on port {port}; choose one above 1023 with --port")
    return Unavailable(f"cannot listen on {host}:{port} ({error.strerror}); choose another --host or --port")


def address_of(listener: socket.socket) -> str:
    """Return the address at which a socket listens."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _Server(uvicorn.Server):
    """Calls a function when it has started, and exits at once on a second interrupt."""

    def __init__(self, config: uvicorn.Config, begin: Callable[[], None]) -> None:
        super().__init__(config)
        self._begin = begin

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._begin()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit and sig == signal.SIGINT:
            # The store stays consistent: uncommitted changes are rolled back when it is next opened.
            os._exit(130)
        super().handle_exit(sig, frame)


@contextmanager
def _ignored_signals() -> Iterator[None]:
    """Ignore the signals that uvicorn raises again after it has stopped: they were handled."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def reduce_contention() -> None:
    """Tune the interpreter for many threads.

    What is loaded by now is never freed, so the garbage collector need not scan it (a tenth of the work of a busy
    service). A shorter switch interval helps the thread of the event loop, which has little to do at a time while all
    others wait for it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    sys.setswitchinterval(0.001)


def warm_up(engine: Engine) -> None:
    """Load the model and the index, so that the first real recall is fast.

    It is no recall of the engine: no use is recorded, and it is in no statistics.
    """
    threads = ThreadPoolExecutor(1, thread_name_prefix="warm-up")
    try:
        recall(engine.query("warm up", limit=1), engine.store, engine.embeddings.embedder, threads)
    except Exception as error:  # for example, the service was stopped while it started
        log.warning("the first recall will be slow: %s", type(error).__name__)
    finally:
        threads.shutdown(wait=False)
