"""Serve one MCP client over standard input and output.

Anything else on standard output (a library that prints, a child process) would break the protocol. So the caller
reserves the original output for the client, and standard output is redirected to standard error.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, redirect_stdout
from typing import Any, TextIO

import anyio

from retentive.server.logs import without_messages
from retentive.server.mcp.server import build_server
from retentive.server.mcp.tools import ToolScope


def serve_stdio(tool_scope: ToolScope, output: TextIO, *, read_only: bool = False, explain: bool = False) -> None:
    """Serve one client, which reads from `output`, until it disconnects."""
    handler = logging.StreamHandler()
    handler.addFilter(without_messages)
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    previous = sys.stdout
    server = build_server(lambda _: tool_scope, read_only=read_only, explain=explain, lifespan=_redirected_stdout)

    async def serve() -> None:
        sys.stdout = output  # the transport reads it once, when it starts
        await server.run_stdio_async()

    signal.signal(signal.SIGINT, _exit_now)
    try:
        anyio.run(serve)
    finally:
        sys.stdout = previous


def _exit_now(*_: object) -> None:
    """Exit at once, because the thread that reads standard input would block a normal exit.

    Unfinished writes are rolled back.
    """
    print("stopped", file=sys.stderr)
    os._exit(130)


@asynccontextmanager
async def _redirected_stdout(_: Any) -> AsyncIterator[dict[str, Any]]:
    with redirect_stdout(sys.stderr):
        yield {}
