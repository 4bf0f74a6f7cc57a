"""`retentive recall` by the running service of the store, before the engine and the command line are loaded.

    words ──► options ──► service of the same store on loopback ──► Recall ──► the output of the command

The service answers as the engine would, see `equal_service`. Whatever remains is left to the engine: an option that is
not in `OPTIONS`, a service that does not answer or refuses, an answer that cannot be printed without the store. Then
nothing was printed. Only the standard library is imported until there is an answer.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress

from retentive.configuration import configured, default_store, parse_pairs, search_settings
from retentive.errors import RetentiveError
from retentive.hooks.service_client import ServiceClient, ServiceError
from retentive.server.runtime_file import equal_service, store_digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from retentive.models import Hit, Memory, Recall

SECONDS = 5.0
"""How long the service has to answer. It answers in hundredths of a second, unless it loads its model."""

OPTIONS = {
    "--store": "text", "--profile": "text", "--embedder": "text", "--config": "text", "--json": "flag",
    "--full": "flag", "--project": "text", "--session": "list", "--only-session": "flag", "--kind": "list",
    "--since": "text", "--until": "text", "--metadata": "list", "--as-of": "text", "--include-retired": "flag",
    "--limit": "number", "--preset": "text", "--set": "list", "--explain": "flag",
}  # fmt: skip
"""The options of `recall` that are understood here, and what each one takes."""

MAX_LIMIT = 200
"""The service returns at most so many hits."""

TIMES = ("created", "occurred", "accessed", "valid_from", "valid_to", "expires")
"""The fields of a memory that are times."""


def recalled_by_service(words: Sequence[str]) -> bool:
    """Run `retentive recall` by the service, if the words are such a command and a service can answer; else False."""
    options = parse_recall(words)
    if options is None or (options.get("explain") and options.get("json")):  # the engine knows the tuning in effect
        return False
    try:
        client = _client(options)
        answer = None if client is None else _ask(client, options)
        if answer is None or answer["degraded"]:
            return False
        recall = _to_recall(answer)
        ids = answer.get("shortIds") or {hit.id: hit.id for hit in recall}
    except (RetentiveError, ServiceError, KeyError, TypeError, ValueError, AttributeError):
        return False
    except KeyboardInterrupt:
        from retentive.cli.options import stop

        stop(as_json=bool(options.get("json")))
    if _needs_store(recall, options):
        return False
    with suppress(BrokenPipeError):  # a reader such as `head` has what it wants
        _print(recall, options, ids)
    return True


def parse_recall(words: Sequence[str]) -> dict[str, Any] | None:
    """Return the query and the options of a recall by their Python names; None if a word is not understood here."""
    found: dict[str, Any] = {}
    texts: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            texts.append(word)
            continue
        name, equals, value = word.partition("=")
        takes, key = OPTIONS.get(name), name.removeprefix("--").replace("-", "_")
        if takes == "flag" and not equals:
            found[key] = True
            continue
        value = value if equals else rest.pop(0) if rest else "-"
        if (
            takes in (None, "flag")
            or value.startswith("-")
            or (takes == "number" and not (value.isdecimal() and value.isascii()))
        ):
            return None
        if takes == "list":
            found.setdefault(key, []).append(value)
        else:
            found[key] = int(value) if takes == "number" else value
    if len(texts) != 2 or texts[0] != "recall":
        return None
    return {"limit": 10, **found, "query": texts[1]}


def _client(options: dict[str, Any]) -> ServiceClient | None:
    """Return a client of the service that would answer as the engine does; None if there is none."""
    named = {name: options.get(name) for name in ("store", "profile", "embedder")}
    values = configured(named, config=options.get("config"))
    store, profile = values.get("store") or default_store(), values.get("profile", "default")
    url = equal_service(store, search_settings(values))
    if url is None or profile != profile.strip() or not profile.isprintable():  # a header has no such name
        return None
    return ServiceClient(url, deadline=time.monotonic() + SECONDS, profile=profile, store=store_digest(store))


def _ask(client: ServiceClient, options: dict[str, Any]) -> dict[str, Any] | None:
    """Return the answer of the service; None if it cannot be asked for this."""
    tuning = parse_pairs(options.get("set"), "keyword_weight=2", noun="parameter")
    if not 0 < options["limit"] <= MAX_LIMIT or None in tuning.values():
        return None
    if "preset" in options:
        tuning = {"preset": options["preset"], **tuning}
    names = (
        "query", "limit", "project", "session", "only_session", "since", "until", "as_of", "include_retired"
    )  # fmt: skip
    body = {name: options[name] for name in names if name in options}
    body |= {"kinds": options["kind"]} if "kind" in options else {}
    body |= {"metadata": parse_pairs(options["metadata"], "topic=kitchen")} if "metadata" in options else {}
    body |= {"tuning": tuning} if tuning else {}
    for_people = sys.stdout.isatty() and not options.get("json") and not options.get("full")
    answer: dict[str, Any] = client.post("/v1/recall", {**body, "short_ids": for_people})
    return answer


def _to_recall(answer: dict[str, Any]) -> Recall:
    from retentive.models import Recall, RetrieverReport

    return Recall(
        query=answer["query"],
        hits=tuple(map(_to_hit, answer["hits"])),
        retrievers=tuple(RetrieverReport(**_snake_case(one)) for one in answer["retrievers"]),
        relevance=answer["relevance"],
        elapsed_ms=answer["elapsedMs"],
        stages=answer["stages"],
    )


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


def _needs_store(answer: Recall, options: dict[str, Any]) -> bool:
    """Whether the output says something that the store must be asked for.

    That is why there are no hits, that a project or session does not exist, and where a file is.
    """
    found = [hit.memory for hit in answer]
    absent = [name for name in options.get("session", ()) if all(memory.session != name for memory in found)]
    if not found or absent or ("project" in options and all(one.project != options["project"] for one in found)):
        return True
    return not options.get("json") and any("file" in memory.metadata for memory in found)


def _print(answer: Recall, options: dict[str, Any], ids: dict[str, str]) -> None:
    if options.get("json"):
        value = answer.to_dict()
        del value["dropped"]
        sys.stdout.write(json_text(value) + "\n")
        return
    from retentive.cli import show
    from retentive.cli.options import Common, set_common

    set_common(Common(store=options.get("store"), full=bool(options.get("full"))))
    show.recall(answer, explain=bool(options.get("explain")), ids=ids)


def json_text(value: Any) -> str:
    """Return a result as JSON: on one line in a pipe, and indented in a terminal."""
    return json.dumps(value, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None)
