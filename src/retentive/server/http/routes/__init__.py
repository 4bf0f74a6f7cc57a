"""The routes of the service, one module for each resource, with the request models of its operations."""

from __future__ import annotations

from fastapi import FastAPI

from retentive.server.http.routes import (
    catalogue,
    chat,
    evaluation,
    facts,
    given,
    health,
    imports,
    judgements,
    memories,
    recall,
    reviews,
    settings,
    tokens,
)

ROUTERS = (
    settings.router,
    memories.router,
    imports.router,
    facts.router,
    reviews.router,
    recall.router,
    catalogue.router,
    judgements.router,
    evaluation.router,
    tokens.router,
    health.router,
    health.status_router,
    chat.openai_router,
    chat.context_router,
    given.router,
)


def add_routes(app: FastAPI) -> None:
    """Add all routes to the application."""
    for router in ROUTERS:
        app.include_router(router)
