"""The queries that a search puts to the server, one function each."""

from __future__ import annotations

from typing import Any

from qdrant_client import models as q

from retentive.stores import Vector
from retentive.stores.qdrant.address import CollectionSettings
from retentive.stores.qdrant.points import PLACED, Place
from retentive.stores.qdrant.scopes import in_session
from retentive.stores.qdrant.sparse import WORDS, QueryWeights

SPARE = 16
"""So many more than wanted are asked for: of equals at the end of the list those written first are to stay."""


def points(where: q.Filter, *, limit: int, payload: Any) -> q.QueryRequest:
    """Points as they are."""
    return q.QueryRequest(filter=where, limit=limit, with_payload=payload)


def by_vector(
    vector: Vector,
    using: str,
    where: q.Filter | None,
    params: q.SearchParams | None,
    *,
    limit: int,
    payload: Any,
    among: q.Prefetch | None = None,
) -> q.QueryRequest:
    """The nearest, by the nearest of their parts."""
    return q.QueryRequest(
        query=q.NearestQuery(nearest=[vector.tolist()]),
        using=using,
        filter=where,
        limit=limit + SPARE,
        with_payload=payload,
        prefetch=among,
        params=params,
    )


def near_params(settings: CollectionSettings) -> q.SearchParams:
    """How the nearest are searched for; where vectors are kept short, the true ones decide in the end."""
    exactly = q.QuantizationSearchParams(rescore=True, oversampling=2.0) if settings.quantization != "none" else None
    return q.SearchParams(hnsw_ef=settings.ef, quantization=exactly)


def by_words(weighed: QueryWeights, where: q.Filter, *, limit: int, payload: Any) -> q.QueryRequest:
    """The best by words. Terms that are too common to search score what the others have found."""
    if weighed.same:
        return scored_by_words(weighed, where, limit=limit, payload=payload)
    found = q.Prefetch(
        query=q.NearestQuery(nearest=weighed.searched), using=WORDS, filter=where, limit=limit + limit // 2 + SPARE
    )
    return scored_by_words(weighed, None, limit=limit, payload=payload, among=found)


def scored_by_words(
    weighed: QueryWeights, where: q.Filter | None, *, limit: int, payload: Any, among: q.Prefetch | None = None
) -> q.QueryRequest:
    """What memories score by words; those without any of them are not in it."""
    return q.QueryRequest(
        query=q.NearestQuery(nearest=weighed.scored),
        using=WORDS,
        filter=where,
        limit=limit + SPARE,
        with_payload=payload,
        prefetch=among,
    )


def first(request: q.QueryRequest) -> q.Prefetch:
    """A search as the first step of another one."""
    return q.Prefetch(
        prefetch=request.prefetch,
        query=request.query,
        using=request.using,
        filter=request.filter,
        params=request.params,
        limit=request.limit,
    )


def beside(place: Place) -> list[q.QueryRequest]:
    """The last memory before this place in its session, and the first one behind it."""
    ways = ((q.Direction.DESC, q.Range(lt=place.position)), (q.Direction.ASC, q.Range(gt=place.position)))
    session = in_session(*(place.session or ("", "")))
    return [
        q.QueryRequest(
            query=q.OrderByQuery(order_by=q.OrderBy(key="position", direction=way)),
            filter=q.Filter(must=[session, q.FieldCondition(key="position", range=beyond)]),
            limit=1,
            with_payload=PLACED,
        )
        for way, beyond in ways
    ]
