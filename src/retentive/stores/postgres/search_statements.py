"""The statements of a search, put together from the parts in `sql/search.sql`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
from retentive.stores.postgres.validity import CURRENT
from retentive.stores.sql_codec import KIND_NUMBERS, to_micros
from retentive.text.bm25 import K1, B

ORDERING_TERMS = 12
"""How many of the query's terms, the rarest, decide which memories are scored where many match."""

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

    About twice as many memories as wanted, those with the best approximate scores, are scored.
    """
    of_kind = None if kind is None else f"'=k{KIND_NUMBERS[kind]}'"
    any_term, of_scope = " | ".join(map(_quoted, retrieving)), stats.scope.query if stats.scope else None
    parameters = {
        **_bm25_parameters(stats),
        "searched": " & ".join(filter(None, (f"({any_term})", of_scope, of_kind))),
        "exclude": list(query.exclude),
        "limit": limit,
    }
    weights = []
    for number, term in enumerate(list(stats.frequencies)[:ORDERING_TERMS]):
        parameters[f"term{number}"] = _quoted(term)
        parameters[f"weight{number}"] = stats.scorer([term])  # the score of a memory that consists of this term
        has_term = f"words @@ (SELECT %(term{number})s::tsquery)"
        weights.append(f"CASE WHEN {has_term} THEN %(weight{number})s::float8 ELSE 0 END")
    filtered, values = filter_condition(query.filter)
    parameters |= values
    current, at = validity(query, stats, CURRENT, retired=retired)
    parameters |= at
    parts = {
        "weights": " + ".join(weights),
        "exclusion": ("AND id <> ALL (%(exclude)s)" if query.exclude else "") + filtered + current,
    }
    name = "by_terms" if extension else "selected"
    selected = SQL.text("select_by_terms", name=name, most=round_up(2 * limit), **parts)
    if extension is not None:
        parameters |= {"extension_query": " ".join(extension_terms(stats)), "index": extension.index}
        schema, most = extension.schema.replace("%", "%%"), round_up(2 * limit + len(query.exclude))
        selected = SQL.text("select_by_extension", schema=schema, most=most, by_terms=selected, **parts)
    return f"{selected},\n{SQL.text('score')}", parameters


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


def nearest_part(
    active: ActiveModel,
    scope: ResolvedScope,
    *,
    limit: int,
    depth: int,
    excluding: bool,
    filtered: str = "",
    current: str = "",
) -> str:
    """Return the part of a statement that selects the nearest memories with their scores.

    With a filter the scope is searched exactly: a scan of the index could end before it finds a memory that matches.
    """
    depth, least = round_up(depth), min(round_up(limit), round_up(depth))
    excluded = "ARRAY(SELECT key FROM memories WHERE id = ANY (%(exclude)s))"
    exclusion = (f"AND memory <> ALL ({excluded})" if excluding else "") + current
    if filtered:
        exclusion += f" AND EXISTS (SELECT 1 FROM memories AS m WHERE m.key = memory{filtered})"  # noqa: S608 - our text
    parts = {"model": active.id, "condition": scope.condition, "exclusion": exclusion, "depth": depth}
    per_memory = min(max(active.vectors_per_memory, 1.0), 20.0)
    scanned = round_up(int(depth * per_memory * (1.1 if per_memory > MULTIPLE_PARTS else 1.0)))
    if filtered or scope.memories <= maintenance.EXACT_SEARCH_LIMIT or not active.indexed:
        return SQL.text("nearest_exact", scanned=2 * scanned, **parts)
    scanned = min(scanned, 20_000)
    return SQL.text("nearest_indexed", dimension=active.model.dimension, scanned=scanned, least=least, **parts)


def _quoted(term: str) -> str:
    # Terms contain neither quotes nor backslashes (see retentive.text.analysis), so that any text is a safe query.
    return f"'{term}'"


def round_up(number: int) -> int:
    """Round up to one of few numbers, so that a statement is prepared for few limits and not for each."""
    step = 1 << max(number.bit_length() - 3, 4)
    return -(-number // step) * step
