"""Delete expired memories from time to time, while the service runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

from retentive.engine import Engine
from retentive.errors import RetentiveError
from retentive.settings import ServerSettings

log = logging.getLogger(__name__)


@asynccontextmanager
async def sweeping(engine: Engine, settings: ServerSettings) -> AsyncIterator[None]:
    """Sweep at the start of the block and then every `sweep_seconds`, or never if they are 0."""
    task = asyncio.create_task(_sweep_regularly(engine, settings)) if settings.sweep_seconds > 0 else None
    try:
        yield
    finally:
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def _sweep_regularly(engine: Engine, settings: ServerSettings) -> None:
    kept = timedelta(days=settings.keep_expired_days)
    while True:
        try:
            count = await asyncio.to_thread(engine.sweep, older_than=kept)
            if count:
                log.info("expired memories were deleted: %d", count)
        except RetentiveError as error:
            log.warning("expired memories were not deleted: %s", error)
        await asyncio.sleep(settings.sweep_seconds)
