"""The application: engine and settings in, a service out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from fastapi.telemetry import TelemetryConfig
from starlette.routing import Route

import retentive
from retentive.engine import Engine
from retentive.server.http.docs_page import add_docs_page
from retentive.server.http.logs import request_log
from retentive.server.http.mcp_mount import HEADERS, McpMount
from retentive.server.http.openapi import EVERYWHERE, TAGS, add_problem_schema
from retentive.server.http.playground_page import add_playground
from retentive.server.http.problems import add_problems, problem
from retentive.server.http.recent_stats import Lately
from retentive.server.http.request_guard import Doors, TooLarge
from retentive.server.http.request_log import Observed
from retentive.server.http.routes import add_routes
from retentive.server.http.routes.chat import add_chat
from retentive.server.http.telemetry import Telemetry
from retentive.server.http.tracing import Traced, trace_recall
from retentive.server.http.tune_job import TuneJob
from retentive.settings import Settings

Opener = Callable[[FastAPI], AbstractAsyncContextManager[object]]
"""Opens something that lives as long as the service runs, and closes it when that ends."""

TRACING: TelemetryConfig = {
    # Takes effect if OTEL_EXPORTER_OTLP_ENDPOINT is set.
    "auto_configure": True,
    # Paths, queries and what failed in them may hold somebody's memories: see `tracing` for what is told instead.
    "tracing": False,
    "operation_spans": False,
    "logs": False,
}


def create_app(engine: Engine, settings: Settings | None = None) -> FastAPI:
    """The service on an engine, which stays the caller's to close."""
    settings = settings or engine.settings
    app = FastAPI(
        title="Retentive",
        version=retentive.__version__,
        summary="Memory for AI agents: found by meaning and by words at once, fused, explained, tunable.",
        generate_unique_id_function=_operation,
        lifespan=_lifespan,
        telemetry=TRACING,
        openapi_tags=TAGS,
        responses=EVERYWHERE,
        docs_url=None,
        redoc_url=None,
    )
    app.state.engine = engine
    app.state.settings = settings
    app.state.openers = []
    app.state.starting = None  # why it is not ready yet, if it is not
    add_problems(app)
    app.add_exception_handler(TooLarge, _too_large)
    if settings.server.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.server.origins),
            allow_methods=["*"],
            allow_headers=["Authorization", "Content-Type", "Idempotency-Key", "X-Profile", "X-Session", *HEADERS],
        )
    app.add_middleware(Doors, settings=settings.server)
    _observe(app, engine, settings)
    add_routes(app)
    add_chat(app)
    add_problem_schema(app)
    add_docs_page(app)
    add_playground(app)
    _add_mcp(app, engine, settings)
    app.state.tune_job = TuneJob()
    app.state.openers.append(app.state.tune_job.open)
    return app


def _observe(app: FastAPI, engine: Engine, settings: Settings) -> None:
    """Count and log what is asked, outside of everything that could refuse it."""
    app.state.telemetry = telemetry = Telemetry(engine)
    app.state.lately = lately = Lately()
    engine.on_recall(telemetry.recalled)
    engine.on_recall(lately.recalled)
    engine.on_recall(trace_recall)
    app.add_middleware(Traced)
    log = request_log(settings.server.log)
    app.add_middleware(Observed, telemetry.requested, lately.requested, *([log] if log else []))


def _add_mcp(app: FastAPI, engine: Engine, settings: Settings) -> None:
    mcp = McpMount(engine, settings.server)
    app.state.openers.append(lambda _: mcp.run())
    app.router.routes.append(Route("/mcp", mcp, methods=["POST"], include_in_schema=False))


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """What was put into `app.state.openers` is open while the service runs; the last opened is closed first."""
    openers: list[Opener] = app.state.openers
    async with AsyncExitStack() as opened:
        for opener in openers:
            await opened.enter_async_context(opener(app))
        yield


def _operation(route: APIRoute) -> str:
    """An operation is called by the name of its function."""
    return route.name


def _too_large(request: Request, _: Exception) -> JSONResponse:
    most = request.app.state.settings.server.max_body
    return problem(413, f"a request has at most {most:,} bytes; send several", code="too_large")
