"""Serving one client over standard input and output, with nothing on the output but the protocol.

A library that prints, a log to standard output, a child process: all of it would break the conversation. So whoever
starts this has taken the output away from everybody else, as the wire to the client.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, redirect_stdout
from typing import Any, TextIO

import anyio

from retentive.server.mcp.server import build_server
from retentive.server.mcp.tool_scope import Place


def serve_stdio(place: Place, wire: TextIO, *, read_only: bool = False) -> None:
    """Serve one client, which reads from the wire, until it hangs up."""
    earlier = sys.stdout
    server = build_server(lambda _: place, read_only=read_only, lifespan=_quietly)

    async def serve() -> None:
        sys.stdout = wire  # the transport asks for it once, when it starts
        await server.run_stdio_async()

    signal.signal(signal.SIGINT, _hang_up)
    try:
        anyio.run(serve)
    finally:
        sys.stdout = earlier


def _hang_up(*_: object) -> None:
    """End at once. The thread that waits for the client's next word would keep everything else waiting, too.

    What was stored is stored, and a write that was not done yet is not done at all.
    """
    print("stopped", file=sys.stderr)
    os._exit(130)


@asynccontextmanager
async def _quietly(_: Any) -> AsyncIterator[dict[str, Any]]:
    """While it serves, nobody who prints gets hold of the wire."""
    with redirect_stdout(sys.stderr):
        yield {}
