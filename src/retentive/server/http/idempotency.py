"""The header by which a client names a write, so that it may send it again."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        description="A name for this request: sent again under it within a day, it is not carried out again.",
    ),
]
