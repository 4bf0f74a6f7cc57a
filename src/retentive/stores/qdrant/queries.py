"""The queries of a search, as the client's request models."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from qdrant_client import models as q

from retentive.models import Memory
from retentive.stores.qdrant.address import CollectionSettings
from retentive.stores.qdrant.connection import any_of, first_by
from retentive.stores.qdrant.session_notes import in_session
from retentive.stores.qdrant.validity import not_current

SPARE = 16
"""How many more results than the limit are requested, so that ties at the end are resolved by the order of writing."""

REACH = 3
"""How many positions away a neighbour usually is at most; more only if several memories in a row were deleted."""


def nearest_query(
    vector: Any,
    using: str,
    limit: int,
    *,
    where: q.Filter | None = None,
    among: q.Prefetch | None = None,
    params: q.SearchParams | None = None,
    payload: bool = False,
) -> q.QueryRequest:
    """Find the points with the largest scores; for a multivector the score of a point is that of its nearest part."""
    return q.QueryRequest(
        query=q.NearestQuery(nearest=vector),
        using=using,
        filter=where,
        limit=limit + SPARE,
        with_payload=payload,
        prefetch=among,
        params=params,
    )


def prefetch(request: q.QueryRequest) -> q.Prefetch:
    """Return a query as the first stage of another one."""
    return q.Prefetch(
        query=request.query,
        using=request.using,
        filter=request.filter,
        params=request.params,
        limit=request.limit,
        prefetch=request.prefetch,
    )


def uses(request: q.QueryRequest | q.Prefetch, name: str) -> bool:
    """Whether a query needs the vectors of this name, in one of its stages."""
    if request.using == name or (isinstance(request, q.QueryRequest) and request.with_vector == [name]):
        return True
    return isinstance(request.prefetch, q.Prefetch) and uses(request.prefetch, name)


def ann_params(settings: CollectionSettings) -> q.SearchParams:
    """Return the parameters of a search in the HNSW graph; quantized scores are computed again from the vectors."""
    quantized = settings.quantization != "none"
    rescoring = q.QuantizationSearchParams(rescore=True, oversampling=2.0) if quantized else None
    return q.SearchParams(hnsw_ef=settings.ef, quantization=rescoring)


def neighbour_query(memory: Memory, position: int, side: int, current_at: datetime | None) -> q.QueryRequest:
    """Find the memory before (-1) or after (1) a position in the session of a memory, one that is current at a time."""
    before = side < 0
    beyond = q.Range(lt=position) if before else q.Range(gt=position)
    order = q.OrderBy(key="position", direction=q.Direction.DESC if before else q.Direction.ASC)
    session = in_session(memory.profile, memory.project, memory.session or "")
    must_not = not_current(current_at) if current_at is not None else None
    must = [session, q.FieldCondition(key="position", range=beyond)]
    return first_by(order, q.Filter(must=must, must_not=must_not))


def around(places: Iterable[tuple[Memory, int, int]]) -> q.Filter:
    """Return a filter for the memories up to `REACH` positions before or after others in their sessions."""
    sessions: dict[tuple[str, str | None, str], set[int]] = {}
    for memory, position, side in places:
        positions = sessions.setdefault((memory.profile, memory.project, memory.session or ""), set())
        positions.update(position + side * step for step in range(1, REACH + 1))
    return q.Filter(
        should=[
            q.Filter(must=[in_session(*session), any_of("position", sorted(positions))])
            for session, positions in sessions.items()
        ]
    )
