"""The application: engine and settings in, a service out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.routing import Route

import recollect
from recollect.api.doors import Doors, TooLarge
from recollect.api.mcp_mount import HEADERS, McpMount
from recollect.api.openapi import EVERYWHERE, TAGS, add_problem_schema
from recollect.api.problems import add_problems, problem
from recollect.api.routes import add_routes
from recollect.engine import Engine
from recollect.settings import Settings


def create_app(engine: Engine, settings: Settings | None = None) -> FastAPI:
    """The service on an engine, which stays the caller's to close."""
    settings = settings or engine.settings
    app = FastAPI(
        title="Recollect",
        version=recollect.__version__,
        summary="Memory for AI agents: found by meaning and by words at once, fused, explained, tunable.",
        generate_unique_id_function=_operation,
        lifespan=_lifespan,
        openapi_tags=TAGS,
        responses=EVERYWHERE,
    )
    app.state.engine = engine
    app.state.settings = settings
    add_problems(app)
    app.add_exception_handler(TooLarge, _too_large)
    if settings.server.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.server.origins),
            allow_methods=["*"],
            allow_headers=["Authorization", "Content-Type", "Idempotency-Key", "X-Profile", *HEADERS],
        )
    app.add_middleware(Doors, settings=settings.server)
    add_routes(app)
    add_problem_schema(app)
    app.state.mcp = McpMount(engine, settings.server)
    app.router.routes.append(Route("/mcp", app.state.mcp, methods=["POST"], include_in_schema=False))
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(app.state.mcp.run())
        yield


def _operation(route: APIRoute) -> str:
    """An operation is called by the name of its function."""
    return route.name


def _too_large(request: Request, _: Exception) -> JSONResponse:
    most = request.app.state.settings.server.max_body
    return problem(413, f"a request has at most {most:,} bytes; send several", code="too_large")
