"""Serve one MCP client over standard input and output.

Anything else on standard output (a library that prints, a child process) would break the protocol. So the caller
reserves the original output for the client, and standard output is redirected to standard error.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import unquote, urlparse

import anyio
import anyio.to_thread
from mcp.server import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp.types import ListRootsRequest, ListRootsResult

from retentive.server.logs import without_messages
from retentive.server.mcp.server import build_server
from retentive.server.mcp.tools import ToolScope

AUTO = "auto"
"""The project that stands for the one in which the client works."""

ROOTS_SECONDS = 5.0
USES = ("tools/call", "resources/read", "prompts/get")
"""The requests that read or write memories. Before them, a client may not be ready for requests of the server."""


def serve_stdio(
    scope_in: Callable[[str | None], ToolScope],
    output: TextIO,
    *,
    project: str | None = None,
    read_only: bool = False,
    explain: bool = False,
) -> None:
    """Serve one client, which reads from `output`, until it disconnects. `scope_in` opens the scope of a project."""
    handler = logging.StreamHandler()
    handler.addFilter(without_messages)
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    previous = sys.stdout
    known = project != AUTO
    scope = scope_in(project if known else None)
    server = build_server(lambda _: scope, read_only=read_only, explain=explain, lifespan=_redirected_stdout)

    async def find_project(ctx: ServerRequestContext[Any, Any], call_next: Callable[..., Any]) -> Any:
        nonlocal scope, known
        if not known and ctx.method in USES:
            scope = await anyio.to_thread.run_sync(scope_in, await _client_project(ctx.session))
            known = True
        return await call_next(ctx)

    server.middleware.insert(0, find_project)

    async def serve() -> None:
        sys.stdout = output  # the transport reads it once, when it starts
        await server.run_stdio_async()

    signal.signal(signal.SIGINT, _exit_now)
    try:
        anyio.run(serve)
    finally:
        sys.stdout = previous


async def _client_project(session: ServerSession) -> str | None:
    """The name of the client's first root folder, or of the folder in which it has started this process.

    None if that is the user's home or the root of the file system, where a client has no project.
    """
    folder = Path.cwd()
    if session.client_capabilities is not None and session.client_capabilities.roots is not None:
        with suppress(MCPError):
            found = await session.send_request(ListRootsRequest(), ListRootsResult, ROOTS_SECONDS)
            folder = next((Path(unquote(urlparse(str(root.uri)).path)) for root in found.roots), folder)
    return None if folder == Path.home() else folder.name or None


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
