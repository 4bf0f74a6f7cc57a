"""The service's addresses, one file a noun."""

from __future__ import annotations

from fastapi import FastAPI

from retentive.server.http.routes import (
    catalogue,
    episodes,
    health,
    judgements,
    measure,
    memories,
    recall,
    settings,
    status,
    tune,
)


def add_routes(app: FastAPI) -> None:
    """Give the application its addresses."""
    for room in (settings, episodes, memories, recall, catalogue, judgements, measure, tune, health, status):
        app.include_router(room.router)
