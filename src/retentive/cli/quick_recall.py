"""A recall by the running service of the store: it has loaded its model, and answers as the engine would.

The engine searches where the service does not answer, and where the output needs the store. Only the standard library
is imported until there is an answer.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from retentive.errors import RetentiveError
from retentive.hooks.service_client import ServiceClient, ServiceError
from retentive.server.runtime_file import equal_service, store_digest
from retentive.settings import configured, default_store, search_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from retentive.cli.options import Common
    from retentive.models import Hit, Memory, NamedPeriod, Recall

SECONDS = 5.0
"""How long the service has to answer. It answers in hundredths of a second, unless it loads its model."""

MAX_LIMIT = 200
"""The service returns at most so many hits."""

TIMES = ("created", "occurred", "accessed", "valid_from", "valid_to", "expires")
"""The fields of a memory that are times."""


class ServiceAnswer(NamedTuple):
    """The answer of a service, and how the ids of its memories are shown."""

    recall: Recall
    ids: Mapping[str, str]


def recall_by_service(given: Common, request: Mapping[str, Any]) -> ServiceAnswer | None:
    """Ask the service of the store for a recall, by a request of its API; None if the engine must answer."""
    tuning = request["tuning"]
    if not 0 < request["limit"] <= MAX_LIMIT or None in tuning.values():
        return None
    for_people = sys.stdout.isatty() and not given.json and not given.full
    body = {name: value for name, value in request.items() if value not in (None, {}, [], False)}
    try:
        client = _client(given)
        if client is None:
            return None
        answer = client.post("/v1/recall", {**body, "short_ids": for_people})
        if answer["degraded"]:
            return None
        recall = _to_recall(answer)
    except (RetentiveError, ServiceError, KeyError, TypeError, ValueError, AttributeError):
        return None
    if _needs_store(recall, request, as_json=given.json):
        return None
    return ServiceAnswer(recall, answer.get("shortIds") or {hit.id: hit.id for hit in recall})


def _client(given: Common) -> ServiceClient | None:
    """Return a client of the service that would answer as the engine does; None if there is none."""
    named = {"store": given.store, "profile": given.profile, "embedder": given.embedder}
    values = configured(named, config=given.config)
    store, profile = values.get("store") or default_store(), values.get("profile", "default")
    url = equal_service(store, search_settings(values))
    if url is None or profile != profile.strip() or not profile.isprintable():  # a header has no such name
        return None
    return ServiceClient(url, deadline=time.monotonic() + SECONDS, profile=profile, store=store_digest(store))


def _to_recall(answer: dict[str, Any]) -> Recall:
    from retentive.models import Recall, RetrieverReport

    return Recall(
        query=answer["query"],
        hits=tuple(map(_to_hit, answer["hits"])),
        retrievers=tuple(RetrieverReport(**_snake_case(one)) for one in answer["retrievers"]),
        relevance=answer["relevance"],
        elapsed_ms=answer["elapsedMs"],
        stages=answer["stages"],
        period=_to_period(answer["period"]),
    )


def _to_period(period: dict[str, str] | None) -> NamedPeriod | None:
    from datetime import datetime

    from retentive.models import NamedPeriod

    if period is None:
        return None
    since, until = (datetime.fromisoformat(period[name]) for name in ("since", "until"))
    return NamedPeriod(period["words"], since, until)


def _to_hit(hit: dict[str, Any]) -> Hit:
    from retentive.models import Hit, Reason

    # The note is formatted already, so its braces are no places for figures.
    why = tuple(
        Reason(one["step"], one["change"], one["score"], one["rank"], one["value"], _literal(one["note"]))
        for one in hit["why"]
    )
    return Hit(_to_memory(hit["memory"]), hit["score"], why, hit["rank"], hit["relevance"])


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _to_memory(memory: dict[str, Any]) -> Memory:
    from datetime import datetime

    from retentive.models import Memory

    values = _snake_case(memory)
    times = {name: datetime.fromisoformat(values[name]) for name in TIMES if values[name] is not None}
    return Memory(**{**values, **times})


def _snake_case(values: dict[str, Any]) -> dict[str, Any]:
    return {"".join(f"_{char.lower()}" if char.isupper() else char for char in name): values[name] for name in values}


def _needs_store(answer: Recall, request: Mapping[str, Any], *, as_json: bool) -> bool:
    """Whether the output says something that the store must be asked for.

    That is why there are no hits, that a project or session does not exist, and where a file is.
    """
    found = [hit.memory for hit in answer]
    absent = [name for name in request["session"] or () if all(memory.session != name for memory in found)]
    project = request["project"]
    if absent or (project is not None and all(memory.project != project for memory in found)):
        return True
    return not as_json and (not found or any("file" in memory.metadata for memory in found))
