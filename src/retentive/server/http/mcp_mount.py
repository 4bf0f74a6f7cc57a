"""MCP over HTTP, at /mcp of the service: the same doors, the same tokens, the same walls.

Every request says who it is and is answered by itself; there are no sessions to take over, and none to lose when the
service starts again. Who may only read meets a server that has no other tools.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mcp.server import MCPServer
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from retentive.engine import Engine
from retentive.server.http.auth import Caller, allowed, as_utf8, bearer, caller, inside
from retentive.server.mcp import Place, build_server
from retentive.settings import ServerSettings
from retentive.tenancy import ProfileView

HEADERS = ("Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name", "X-Project")
"""What clients in a browser send besides."""

_PLACE = "retentive.place"


class McpMount:
    """Answers MCP requests, each where its caller may look, while `run` is entered."""

    def __init__(self, engine: Engine, settings: ServerSettings) -> None:
        self._engine = engine
        self._settings = settings
        self._managers: dict[bool, StreamableHTTPSessionManager] = {}

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Take requests. A manager of the SDK runs once, so each start of the application makes new ones."""
        reading, writing = self._manager(read_only=True), self._manager(read_only=False)
        async with reading.run(), writing.run():
            self._managers = {False: reading, True: writing}
            try:
                yield
            finally:
                self._managers = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["retentive.route"] = "/mcp"  # for the log: only routes of FastAPI write themselves down
        request = Request(scope, receive)
        if not self._managers:
            raise HTTPException(503, "the service is starting or stopping; try again in a moment")
        who = await caller(request, await bearer(request))
        allowed(who, "read")
        scope[_PLACE] = self._place(request, who)
        await self._managers[who.may("write")].handle_request(scope, receive, send)

    def _place(self, request: Request, who: Caller) -> Place:
        """Where this caller may look: in their profile, and in it in the project that their client names."""
        theirs = inside(request, who, request.headers.get("x-profile"))
        project = request.headers.get("x-project")
        here = ProfileView(self._engine, theirs.profile, project=as_utf8(project)) if project else theirs
        return Place(here, leaves_traces=who.may("write"))

    def _manager(self, *, read_only: bool) -> StreamableHTTPSessionManager:
        server: MCPServer = build_server(lambda request: request.scope[_PLACE], read_only=read_only)
        server.streamable_http_app(
            stateless_http=True,
            json_response=True,
            max_request_body_size=self._settings.max_body,
            # `Doors` has looked at Host and Origin already; a second list could only disagree with it.
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )
        return server.session_manager
