"""The service as a process: one socket, one engine, ended in order."""

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
from contextlib import contextmanager
from types import FrameType

from retentive.engine import Engine
from retentive.errors import Invalid, MissingExtra, RetentiveError, Unavailable
from retentive.settings import ServerSettings, Settings

try:
    import uvicorn
    from anyio import to_thread

    from retentive.server.http.app import create_app
    from retentive.server.http.auth import LOOPBACK, needs_token
    from retentive.server.http.logs import log_to_stderr
except ImportError as error:
    raise MissingExtra("retentive serve", "server") from error

log = logging.getLogger(__name__)

GRACE_SECONDS = 15
"""How long requests under way have when the service is told to end. A write that has begun is always finished."""

KEEP_ALIVE_SECONDS = 30
THREADS = 100
"""Most of them wait: for the store's writer, or for an embedder elsewhere."""

LOADING = "the embedding model is being loaded; try again in a few seconds"


def serve(engine: Engine, settings: Settings | None = None, *, started: Callable[[str], None]) -> None:
    """Serve an engine, which stays the caller's to close, until the process is told to end.

    `started` hears the address as soon as requests are answered.
    """
    settings = settings or engine.settings
    with bound(settings.server) as listener:
        check_tokens(engine, settings.server)
        log_to_stderr(settings.server.log)
        app = create_app(engine, settings)
        app.state.starting = LOADING
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="on",
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )

        def ready() -> None:
            app.state.starting = None

        def begin() -> None:
            to_thread.current_default_thread_limiter().total_tokens = THREADS
            _prepare_for_threads()
            started(_address(listener))
            threading.Thread(target=_warm_up, args=(engine, ready), name="warm-up", daemon=True).start()

        with _own_signals():
            _Server(config, begin).run(sockets=[listener])


def check_tokens(engine: Engine, settings: ServerSettings) -> None:
    """`Invalid` if everybody needs a token and nobody has one."""
    if needs_token(settings) and not engine.tokens.list():
        why = "the settings ask for it" if settings.host in LOOPBACK else f"{settings.host} is not this machine alone"
        raise Invalid(
            f"every request needs a token ({why}), and there is none yet; make one first: "
            "retentive token create --scope write"
        )


@contextmanager
def bound(settings: ServerSettings) -> Iterator[socket.socket]:
    """A socket at the address of the settings; what stands in the way is said in a sentence."""
    host, port = settings.host, settings.port
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise Invalid(f"'{host}' is no address to listen on ({error}); use 127.0.0.1, or 0.0.0.0 for all") from None
    with listener:
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except OSError as error:
            raise _not_bound(error, host, port) from None
        yield listener


def _not_bound(error: OSError, host: str, port: int) -> RetentiveError:
    if error.errno == errno.EADDRINUSE:
        other = port + 1 if port < 65535 else 4000
        return Unavailable(
            f"port {port} on {host} is taken by another process; choose another one with --port {other}, "
            "or any free one with --port 0"
        )
    if error.errno == errno.EACCES:
        return Unavailable(f"this user may not listen on port {port}; choose one above 1023 with --port")
    return Unavailable(f"{host}:{port} cannot be listened on ({error.strerror}); choose another --host or --port")


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _Server(uvicorn.Server):
    """Says when it has begun, and ends at once when it is interrupted a second time."""

    def __init__(self, config: uvicorn.Config, begin: Callable[[], None]) -> None:
        super().__init__(config)
        self._begin = begin

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._begin()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit and sig == signal.SIGINT:
            # The store is safe: what was not committed is undone when it is next opened.
            os._exit(130)
        super().handle_exit(sig, frame)


@contextmanager
def _own_signals() -> Iterator[None]:
    """Takes the signals that the server sends itself once more when it has ended: it was asked to, and it did."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _prepare_for_threads() -> None:
    """Let threads that share the interpreter get in each other's way less.

    What is loaded by now stays for good and need not be looked through for garbage again and again (a tenth of the work
    of a busy service). And a thread that wants the interpreter asks for it sooner: the one that answers requests has
    little to do each time, and all others wait for it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    sys.setswitchinterval(0.001)


def _warm_up(engine: Engine, ready: Callable[[], None]) -> None:
    """Load the model and the index with a recall that leaves no trace, so that the first real one is quick."""
    try:
        engine.recall("warm up", limit=1, record_use=False)
    except Exception as error:  # such as a service that is told to end before it has quite begun
        log.warning("the first recall will be slow: %s", error)
    finally:
        ready()
