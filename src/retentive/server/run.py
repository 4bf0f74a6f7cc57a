"""Run the HTTP service in this process, with one engine on one socket."""

from __future__ import annotations

import asyncio
import errno
import functools
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
    from anyio import to_thread

    from retentive.server.connections import BEAT_SECONDS, HealthThread, TimedProtocol, set_keep_alive
    from retentive.server.http.app import create_app
    from retentive.server.http.auth import why_token_needed
    from retentive.server.http.request_log import log_warnings
    from retentive.server.runtime_file import announced
    from retentive.server.temporary import remove_abandoned_folders

log = logging.getLogger(__name__)

GRACE_SECONDS = 15
"""How long running requests have to finish when the service stops. A write that has started is always finished."""

KEEP_ALIVE_SECONDS = 30
THREADS = 100
"""Most of them wait for the store's write lock, or for a remote embedder."""

LOADING = "the embedding model is being loaded; try again in a few seconds"


def serve(
    engine: Engine, settings: Settings | None = None, *, started: Callable[[str], None], worker: bool = False
) -> None:
    """Serve an engine until the process is stopped. The caller closes the engine.

    `started` is called with the address when the service accepts requests. A worker of several at one
    address accepts requests when its model is loaded, and its supervisor announces the address.
    """
    settings = settings or engine.settings
    log_warnings(settings.server.log)
    if not worker:
        remove_abandoned_folders()
    else:
        _warm_up(engine, lambda: None)
    with open_socket(settings.server, shared=worker) as listener:
        check_tokens(engine, settings.server)
        app = create_app(engine, settings)
        app.state.starting = None if worker else LOADING
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="on",
            server_header=False,
            http=TimedProtocol,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )

        def ready() -> None:
            app.state.starting = None

        def begin() -> None:
            to_thread.current_default_thread_limiter().total_tokens = THREADS
            _reduce_contention()
            address = address_of(listener)
            if not worker:  # not before connections are accepted
                running.enter_context(announced(settings.store, address, search=engine.settings.search))
            started(address)
            if not worker:
                threading.Thread(target=_warm_up, args=(engine, ready), name="warm-up", daemon=True).start()

        with _ignored_signals(), ExitStack() as running:
            _Server(config, begin).run(sockets=[listener])


def check_tokens(engine: Engine, settings: ServerSettings) -> None:
    """Raise `Invalid` if every request needs a token and there is none."""
    why = why_token_needed(settings)
    if why is not None and not engine.tokens.list():
        raise Invalid(
            f"every request needs a token ({why}), and there is none yet; create one first: "
            "retentive token create --access write"
        )


@contextmanager
def open_socket(settings: ServerSettings, *, shared: bool = False) -> Iterator[socket.socket]:
    """Bind a socket to the address in the settings; an error says what to change.

    Several processes of one user can bind a shared one; the system distributes connections among those that listen.
    """
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
            if shared:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            set_keep_alive(listener)
            listener.bind(address)
        except OSError as error:
            raise _bind_error(error, host, port) from None
        yield listener


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
    """Calls a function when it has started, answers liveness checks always, and exits at once on a second interrupt."""

    _health: HealthThread | None = None

    def __init__(self, config: uvicorn.Config, begin: Callable[[], None]) -> None:
        super().__init__(config)
        self._begin = begin

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if sockets:
            self._health = HealthThread(sockets[0], self._adopter(asyncio.get_running_loop()))
            self._beat()
            self._health.start()
        self._begin()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._health is not None:
            self._health.stop()
        await super().shutdown(sockets)

    def _beat(self) -> None:
        if self._health is not None and not self.should_exit:
            self._health.beat()
            asyncio.get_running_loop().call_later(BEAT_SECONDS, self._beat)

    def _adopter(self, loop: asyncio.AbstractEventLoop) -> Callable[[socket.socket], None]:
        """Return a function that gives a connection to the event loop, from any thread."""
        config, state = self.config, self.server_state
        protocol_class: Any = config.http_protocol_class
        protocol = functools.partial(protocol_class, config=config, server_state=state, app_state=self.lifespan.state)

        def adopt(connection: socket.socket) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(start, connection)

        def start(connection: socket.socket) -> None:
            task = loop.create_task(loop.connect_accepted_socket(protocol, connection))
            adopted.add(task)
            task.add_done_callback(adopted.discard)

        adopted: set[asyncio.Task[Any]] = set()  # the loop itself holds no strong reference
        return adopt

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


def _reduce_contention() -> None:
    """Tune the interpreter for many threads.

    What is loaded by now is never freed, so the garbage collector need not scan it (a tenth of the work of a busy
    service). A shorter switch interval helps the thread of the event loop, which has little to do at a time while all
    others wait for it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    sys.setswitchinterval(0.001)


def _warm_up(engine: Engine, ready: Callable[[], None]) -> None:
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
        ready()
