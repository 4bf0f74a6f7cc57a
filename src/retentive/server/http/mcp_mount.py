"""MCP over HTTP at /mcp, with the same checks, tokens and profiles as the other routes.

Each request is authenticated and answered on its own, without MCP sessions, so none can be hijacked or lost when the
service restarts. A caller with read access gets a server without the tools that write.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from json import JSONDecodeError

from mcp.server import MCPServer
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from retentive.engine import Engine
from retentive.server.http.auth import (
    Caller,
    bearer,
    check_access,
    count_caller,
    current_caller,
    name_in_header,
    open_view,
)
from retentive.server.http.request_parsing import may_have_surrogates, parse_json
from retentive.server.mcp import ToolScope, build_server
from retentive.server.oauth import OAuth
from retentive.server.oauth.grants import MARK
from retentive.settings import ServerSettings
from retentive.tenancy import ProfileView

HEADERS = ("Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name", "X-Project")
"""Request headers that MCP clients in a browser send (CORS)."""

_TOOL_SCOPE = "retentive.tool_scope"


class McpMount:
    """Answers MCP requests, each in the scope of its caller, while `run` is entered."""

    def __init__(self, engine: Engine, settings: ServerSettings, oauth: OAuth | None = None) -> None:
        self._engine = engine
        self._oauth = oauth
        self._settings = settings
        self._managers: dict[bool, StreamableHTTPSessionManager] = {}

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Accept requests. A manager of the SDK runs only once, so each start of the application makes new ones."""
        reading, writing = self._manager(read_only=True), self._manager(read_only=False)
        async with reading.run(), writing.run():
            self._managers = {False: reading, True: writing}
            try:
                yield
            finally:
                self._managers = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["retentive.route"] = "/mcp"  # for the log: only FastAPI's routes set their template
        request = Request(scope, receive)
        if not self._managers:
            raise HTTPException(503, "the service is starting or stopping; try again in a moment")
        caller = await self._caller(request)
        check_access(caller, "read")
        scope[_TOOL_SCOPE] = self._tool_scope(request, caller)
        body = await request.body()
        if may_have_surrogates(body):
            with suppress(JSONDecodeError):  # the SDK reports it
                await run_in_threadpool(parse_json, body)
        await self._managers[caller.has("write")].handle_request(scope, _replayed(body, receive), send)

    async def _caller(self, request: Request) -> Caller:
        """Return the caller by its token, of OAuth or of the service. A 401 says where a client can get one."""
        credentials = await bearer(request)
        if self._oauth is None:
            return await current_caller(request, credentials)
        if credentials is not None and credentials.credentials.startswith(MARK):
            grant = await run_in_threadpool(self._oauth.find, credentials.credentials)
            if grant is None:
                challenge = f'Bearer error="invalid_token", {self._oauth.challenge}'
                raise HTTPException(
                    401, "this access token has expired or was revoked", {"WWW-Authenticate": challenge}
                )
            return count_caller(request, Caller(f"oauth {grant.client_id}", grant.profile, grant.access))
        try:
            return await current_caller(request, credentials)
        except HTTPException as error:
            if error.status_code != 401:
                raise
            challenge = f"{(error.headers or {}).get('WWW-Authenticate', 'Bearer')} {self._oauth.challenge}"
            joined = challenge.replace('" resource', '", resource')
            raise HTTPException(401, error.detail, {"WWW-Authenticate": joined}) from None

    def _tool_scope(self, request: Request, caller: Caller) -> ToolScope:
        """Return the scope of a request: the caller's profile, or the project in the X-Project header."""
        view = open_view(request, caller, request.headers.get("x-profile"))
        project = request.headers.get("x-project")
        if project is not None:
            view = ProfileView(self._engine, view.profile, project=name_in_header("X-Project", project))
        return ToolScope(view, record_use=caller.has("write"))

    def _manager(self, *, read_only: bool) -> StreamableHTTPSessionManager:
        server: MCPServer = build_server(
            lambda request: request.scope[_TOOL_SCOPE], read_only=read_only, explain=self._settings.mcp_explain
        )
        server.streamable_http_app(
            stateless_http=True,
            json_response=True,
            max_request_body_size=self._settings.max_body,
            # `RequestGuard` has checked Host and Origin; a second list could only differ from it.
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )
        return server.session_manager


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a function that receives a body that was read already, and then what follows it."""
    pending = [body]

    async def receive_again() -> Message:
        if pending:
            return {"type": "http.request", "body": pending.pop(), "more_body": False}
        return await receive()

    return receive_again
