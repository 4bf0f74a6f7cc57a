"""The statements of a search, put together from the parts in `sql/search.sql`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from retentive.models import Kind, Query
from retentive.stores.postgres import maintenance
from retentive.stores.postgres.search_stats import (
    ActiveModel,
    Bm25Extension,
    ResolvedScope,
    SearchStats,
    filter_condition,
)
from retentive.stores.postgres.sql import Statements
from retentive.stores.postgres.strong_matches import StrongMatches, strong_matches
from retentive.stores.postgres.validity import CURRENT
from retentive.stores.sql_codec import KIND_NUMBERS, SCOPE_TOKENS, to_micros
from retentive.stores.values import Vector
from retentive.text.bm25 import K1, B, count_scored, ordering_terms

MULTIPLE_PARTS = 1.02
"""From this many vectors per memory on, some of the nearest are parts of the same memory, so that more are read."""

COLUMNS = """
    m.key, m.id::varchar, m.text::varchar, m.created, (SELECT name::varchar FROM profiles WHERE id = m.profile),
    (SELECT name::varchar FROM projects WHERE id = m.project),
    (SELECT name::varchar FROM sessions WHERE id = m.session), m.position, m.kind, m.speaker::varchar, m.importance,
    m.metadata::varchar, m.source::varchar, m.occurred, m.accessed, m.access_count, m.evergreen,
    m.content_hash::varchar, m.text_hash::varchar, m.fact_key::varchar, m.valid_from, m.valid_to,
    m.superseded_by::varchar, m.reason::varchar, m.actor::varchar, m.expires
"""
"""The columns that `to_memories` takes, of the table memories AS m, with text as it is stored."""

TEXTS = (1, 2, 4, 5, 6, 9, 11, 12, 19, 22, 23, 24)
"""The places of the columns whose text may be escaped."""

INCOMPLETE = "AND NOT (SELECT yes FROM complete)"
NOT_ENOUGH = "AND NOT (SELECT yes FROM enough)"
"""The conditions that what was read first does not suffice."""

SQL = Statements("search")


def validity(query: Query, stats: SearchStats, condition: str, *, retired: bool = False) -> tuple[str, dict[str, Any]]:
    """Return the condition that a memory is current, or is not, with AND before it, and its parameter."""
    if query.current_at is None or not stats.dated:
        return "", {}
    return f" AND {'NOT' if retired else ''} ({condition})", {"current_at": to_micros(query.current_at)}


def keyword_part(
    query: Query,
    stats: SearchStats,
    retrieving: Sequence[str],
    limit: int,
    kind: Kind | None,
    extension: Bm25Extension | None = None,
    *,
    retired: bool = False,
) -> tuple[str, dict[str, Any]]:
    """Return the part of a statement that ranks by BM25, and its parameters.

    If more memories match than are to be scored, those with the best approximate scores are.
    """
    weights = {term: stats.scorer([term]) for term in ordering_terms(list(stats.frequencies), retrieving)}
    summed, parameters = _sum_of_weights(weights)
    filtered, values = filter_condition(query.filter)
    current, at = validity(query, stats, CURRENT, retired=retired)
    exclusion = ("AND id <> ALL (%(exclude)s)" if query.exclude else "") + filtered + current
    of_kind = None if kind is None else f"'=k{KIND_NUMBERS[kind]}'"
    of_scope = list(filter(None, (stats.scope.query if stats.scope else None, of_kind)))
    parameters |= {**_bm25_parameters(stats), **values, **at, "exclude": list(query.exclude), "limit": limit}
    parameters["searched"] = " & ".join([f"({' | '.join(map(_quoted, retrieving))})", *of_scope])
    parts, most = {"weights": summed, "exclusion": exclusion}, count_scored(limit)
    strong = None
    if not (extension or retired or kind or filtered):  # which could leave few of the memories that are expected
        strong = _strong_matches(stats, weights, retrieving, most)
    if extension is not None:
        parameters |= {"extension_query": " ".join(extension_terms(stats)), "index": extension.index}
        by_terms = SQL.text("select_by_terms", name="by_terms", most=most, **parts)
        schema, most = extension.schema.replace("%", "%%"), round_up(count_scored(limit) + len(query.exclude))
        selected = SQL.text("select_by_extension", schema=schema, most=most, by_terms=by_terms, **parts)
    elif strong is not None:
        parameters |= {"strong": " & ".join([strong.query, *of_scope]), "best_of_others": strong.best_of_others}
        others = {**parts, "exclusion": f"{exclusion} {NOT_ENOUGH}"}
        by_terms = SQL.text("select_by_terms", name="by_terms", most=most, **others)
        selected = SQL.text("select_strong", most=most, by_terms=by_terms, **parts)
    else:
        selected = SQL.text("select_by_terms", name="selected", most=most, **parts)
    return f"{selected},\n{SQL.text('score')}", parameters


def _sum_of_weights(weights: Mapping[str, float]) -> tuple[str, dict[str, Any]]:
    """Return the sum of the weights of the terms that a memory has, as an SQL expression, and its parameters."""
    summands: list[str] = []
    parameters: dict[str, Any] = {}
    for number, (term, weight) in enumerate(weights.items()):
        parameters |= {f"term{number}": _quoted(term), f"weight{number}": weight}
        has_term = f"words @@ (SELECT %(term{number})s::tsquery)"
        summands.append(f"CASE WHEN {has_term} THEN %(weight{number})s::float8 ELSE 0 END")
    return " + ".join(summands), parameters


def _strong_matches(
    stats: SearchStats, weights: Mapping[str, float], searched: Sequence[str], wanted: int
) -> StrongMatches | None:
    mean_length = max(stats.mean_length, 1e-9)
    mean, shortest = (1 + K1 * (1 - B + B * length / mean_length) for length in (mean_length, 1 + SCOPE_TOKENS))
    return strong_matches(
        weights,
        stats.frequencies,
        searched,
        memories=stats.memories,
        wanted=wanted,
        mean_damping=mean,
        least_damping=min(shortest, mean),
    )


def _bm25_parameters(stats: SearchStats) -> dict[str, Any]:
    """Return what SQL needs to compute BM25 as `text.bm25` does, in the same order of operations."""
    words, mean_length = [term for term, _ in stats.scorer.weights], max(stats.mean_length, 1e-9)
    return {
        "per_memory": K1 * (1 - B),
        "per_term": K1 * B / mean_length,
        "k1": K1,
        "saturation": K1 + 1,
        "b": B,
        "not_b": 1 - B,
        "mean_length": mean_length,
        "words": words,
        "spaced": [f" {term} " for term in words],
        "idfs": [weight for _, weight in stats.scorer.weights],
    }


def extension_terms(stats: SearchStats) -> list[str]:
    """Return the terms for the extension. It weights terms of more than a third of all memories higher than we do."""
    terms = list(stats.frequencies)
    return [term for term in terms if 3 * stats.frequencies[term] <= stats.memories] or terms[:1]


def is_large(scope: ResolvedScope) -> bool:
    """Whether the HNSW index takes less time than reading all vectors of a scope."""
    everything = scope.query is None and scope.kinds is None
    return scope.memories > (maintenance.EXACT_STORE_LIMIT if everything else maintenance.EXACT_SCOPE_LIMIT)


def nearest_part(
    active: ActiveModel,
    scope: ResolvedScope,
    *,
    limit: int,
    depth: int,
    excluding: bool,
    filtered: str = "",
    current: str = "",
    proposed: bool = False,
) -> str:
    """Return the part of a statement that selects the nearest memories with their scores, or those of the `proposed`.

    With a filter the scope is searched exactly: a scan of the index could end before it finds a memory that matches.
    """
    depth, least = round_up(depth), min(round_up(limit), round_up(depth))
    excluded = "ARRAY(SELECT key FROM memories WHERE id = ANY (%(exclude)s))"
    exclusion = (f"AND memory <> ALL ({excluded})" if excluding else "") + current
    if filtered:
        exclusion += f" AND EXISTS (SELECT 1 FROM memories AS m WHERE m.key = memory{filtered})"  # noqa: S608 - our text
    if proposed:
        exclusion += " AND memory = ANY (%(proposed)s::bigint[])"
    parts = {"model": active.id, "condition": scope.condition, "exclusion": exclusion, "depth": depth}
    if proposed:
        return SQL.text("nearest_few", near_in_scope=SQL.text("near_in_scope", **parts))
    per_memory = min(max(active.vectors_per_memory, 1.0), 20.0)
    scanned = round_up(int(depth * per_memory * (1.1 if per_memory > MULTIPLE_PARTS else 1.0)))
    if filtered or not active.indexed or not is_large(scope):
        if scope.memories <= 2 * scanned:
            return SQL.text("nearest_few", near_in_scope=SQL.text("near_in_scope", **parts))
        parts["near_in_scope"] = SQL.text("near_in_scope", **parts | {"exclusion": f"{exclusion} {INCOMPLETE}"})
        return SQL.text("nearest_exact", scanned=2 * scanned, **parts)
    scanned = min(scanned, 20_000)
    return SQL.text("nearest_indexed", dimension=active.model.dimension, scanned=scanned, least=least, **parts)


def half_precision_error(vector: Vector) -> float:
    """Return how much the product of a vector with a unit vector can change when the vector is rounded.

    Twice as much as by the rounding itself, and what adding up the products in single precision can change.
    """
    rounded = vector.astype(np.float16).astype(np.float32)
    return 2 * float(np.linalg.norm(vector - rounded)) + 1e-4 * float(np.linalg.norm(vector))


def _quoted(term: str) -> str:
    # Terms contain neither quotes nor backslashes (see retentive.text.terms), so that any text is a safe query.
    return f"'{term}'"


def round_up(number: int) -> int:
    """Round up to one of few numbers, so that a statement is prepared for few limits and not for each."""
    step = 1 << max(number.bit_length() - 3, 4)
    return -(-number // step) * step
