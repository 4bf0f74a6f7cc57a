"""The HTTP application: `create_app(engine)` returns a FastAPI app with all routes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from anyio import to_thread
from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi.routing import APIRoute
from fastapi.telemetry import TelemetryConfig
from starlette.routing import Route

import retentive
from retentive.chat.proxy import CONTEXT_HEADERS, Chat
from retentive.engine import Engine
from retentive.server.http.auth import RequestGuard, WorkInProgress
from retentive.server.http.expiry import sweeping
from retentive.server.http.mcp_mount import HEADERS, McpMount
from retentive.server.http.openapi import COMMON_PROBLEMS, TAGS, add_docs_page, add_problem_schema
from retentive.server.http.playground_page import add_playground
from retentive.server.http.problems import add_problem_handlers
from retentive.server.http.request_log import RequestLogMiddleware, request_logger
from retentive.server.http.routes import add_routes
from retentive.server.http.telemetry import Telemetry, TracingMiddleware
from retentive.server.http.tune_job import TuneJob
from retentive.server.oauth import OAuth
from retentive.server.oauth.consent import consent_route
from retentive.settings import Settings

THREADS = 100
"""Most of them wait for the store's write lock, or for a remote embedder."""

TRACING: TelemetryConfig = {
    # Takes effect if OTEL_EXPORTER_OTLP_ENDPOINT is set.
    "auto_configure": True,
    # The framework's spans contain paths, queries and errors, which may hold memories; see `telemetry` for ours.
    "tracing": False,
    "operation_spans": False,
    "logs": False,
}


def create_app(engine: Engine, settings: Settings | None = None) -> FastAPI:
    """Return the application for an engine. The caller closes the engine."""
    settings = settings or engine.settings
    app = FastAPI(
        title="Retentive",
        version=retentive.__version__,
        summary="Memory for AI agents: hybrid keyword and semantic search with explained, tunable ranking.",
        generate_unique_id_function=_operation_id,
        lifespan=_lifespan,
        telemetry=TRACING,
        openapi_tags=TAGS,
        responses=COMMON_PROBLEMS,
        docs_url=None,
        redoc_url=None,
    )
    app.state.engine = engine
    app.state.settings = settings
    app.state.starting = None  # the reason why it is not ready yet
    app.state.telemetry = telemetry = Telemetry(engine)
    telemetry.start()  # here, because an app that is mounted in another one never runs its lifespan
    app.state.work = WorkInProgress(settings.server.max_requests_per_token)
    app.state.chat = Chat(settings.llm)
    oauth = OAuth(engine, settings.server.public_url) if settings.server.public_url else None
    app.state.mcp = McpMount(engine, settings.server, oauth)
    app.state.tune_job = TuneJob()
    add_problem_handlers(app)
    _add_middleware(app, settings)
    add_routes(app)
    app.router.routes.append(Route("/mcp", app.state.mcp, methods=["POST"], include_in_schema=False))
    if oauth is not None:
        app.router.routes.extend([*oauth.routes(), consent_route(engine, oauth)])
    add_problem_schema(app)
    add_docs_page(app)
    add_playground(app)
    return app


def _add_middleware(app: FastAPI, settings: Settings) -> None:
    """Add the middleware, the innermost first. Requests that the guard rejects are counted and logged too."""
    server = settings.server
    app.add_middleware(RequestGuard, settings=server, work=app.state.work, store=settings.store)
    if server.origins:  # around the guard, so that a page can read a refusal
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(server.origins),
            allow_methods=["*"],
            allow_headers=[
                "Authorization", "Content-Type", "Idempotency-Key", "If-Match", "X-Profile", "X-Session", *HEADERS
            ],
            expose_headers=["ETag", "Retry-After", "X-Request-Id", "X-Session", *CONTEXT_HEADERS],
        )  # fmt: skip
    app.add_middleware(TracingMiddleware)
    logger = request_logger(server.log)
    app.add_middleware(RequestLogMiddleware, app.state.telemetry.add_request, *([logger] if logger else []))


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Start MCP, and at the end stop MCP and the tuning run, store the last chat turns, and release the engine."""
    telemetry: Telemetry = app.state.telemetry
    chat: Chat = app.state.chat
    mcp: McpMount = app.state.mcp
    tune_job: TuneJob = app.state.tune_job
    to_thread.current_default_thread_limiter().total_tokens = THREADS
    telemetry.start()
    async with AsyncExitStack() as stack:
        stack.callback(telemetry.stop)
        stack.push_async_callback(chat.close)
        await stack.enter_async_context(mcp.run())
        await stack.enter_async_context(tune_job.open())
        await stack.enter_async_context(sweeping(app.state.engine, app.state.settings.server))
        yield


def _operation_id(route: APIRoute) -> str:
    return route.name
