"""`retentive recall` without the parser of the command line: by the running service of the store, or by the engine.

    words ──► options ──► service of the same store on loopback, or else the engine ──► the output of the command

A recall is what agents and scripts run most, and Typer takes as long as the search. Words that are not understood here
are left to Typer. The service answers as the engine would, see `equal_service`; where it does not answer, or where the
output needs the store, the engine runs. Only the standard library is imported until there is an answer.
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

    from retentive.cli.options import Common
    from retentive.engine import Engine
    from retentive.models import Hit, Memory, Query, Recall

SECONDS = 5.0
"""How long the service has to answer. It answers in hundredths of a second, unless it loads its model."""

OPTIONS = {
    "--store": "text", "--profile": "text", "--embedder": "text", "--config": "text", "--json": "flag",
    "--full": "flag", "--project": "text", "--session": "list", "--only-session": "flag", "--kind": "list",
    "--since": "text", "--until": "text", "--metadata": "list", "--as-of": "text", "--include-retired": "flag",
    "--limit": "number", "--preset": "text", "--set": "list", "--explain": "flag",
    "--local": "flag",
}  # fmt: skip
"""The options of `recall` that are understood here, and what each one takes."""

MAX_LIMIT = 200
"""The service returns at most so many hits."""

TIMES = ("created", "occurred", "accessed", "valid_from", "valid_to", "expires")
"""The fields of a memory that are times."""


def recalled_by_service(options: dict[str, Any]) -> bool:
    """Ask the service and print its answer; False, and nothing is printed, if the engine must answer."""
    if options.get("explain") and options.get("json"):  # only the engine knows the whole tuning in effect
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


def recall_by_engine(options: dict[str, Any]) -> None:
    """Recall in this process and print the answer."""
    from retentive.engine import Engine
    from retentive.pipeline.recall import degraded_unlogged

    named: dict[str, Any] = {name: options.get(name) for name in ("store", "embedder", "profile", "config")}
    try:
        with Engine.open(**named, create=False) as engine:
            query = _query(engine, options)
            with degraded_unlogged():
                answer = engine.recall(query)
            if options.get("json") and not options.get("explain") and not _needs_store(answer, options):
                _print(answer, options, {})
            else:
                from retentive.cli.recall import print_recall

                chosen = _choice(options, "project", "session", "explain")
                print_recall(_common(options), engine, query, answer, **chosen)
    except BrokenPipeError:
        return
    except RetentiveError as error:
        from retentive.cli.options import fail

        _common(options)
        fail(error, as_json=bool(options.get("json")))
    except KeyboardInterrupt:
        from retentive.cli.options import stop

        stop(as_json=bool(options.get("json")))


def _query(engine: Engine, options: dict[str, Any]) -> Query:
    """Build a query. Parameters are applied to the preset, or to the tuning in effect."""
    given = parse_pairs(options.get("set"), "keyword_weight=2", noun="parameter")
    preset = options.get("preset")
    chosen = _choice(options, "limit", "project", "session", "only_session", "since", "until", "as_of")
    return engine.query(
        options["query"],
        **chosen,
        kinds=options.get("kind"),
        metadata=parse_pairs(options.get("metadata"), "topic=kitchen"),
        include_retired=options.get("include_retired", False),
        tuning=engine.tuning.current(preset).with_parameters(**given) if preset is not None else given,
    )


def _choice(options: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: options[name] for name in names if name in options}


def _common(options: dict[str, Any]) -> Common:
    """Set the common options for messages, and return them."""
    from retentive.cli.options import Common, set_common

    given = Common(**_choice(options, "store", "profile", "embedder", "config", "json", "full"))
    set_common(given)
    return given


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
    body = _choice(
        options, "query", "limit", "project", "session", "only_session", "since", "until", "as_of", "include_retired"
    )
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
    if absent or ("project" in options and all(memory.project != options["project"] for memory in found)):
        return True
    return not options.get("json") and (not found or any("file" in memory.metadata for memory in found))


def _print(answer: Recall, options: dict[str, Any], ids: dict[str, str]) -> None:
    if options.get("json"):
        from dataclasses import replace

        value = replace(answer, dropped=()).to_dict()
        del value["dropped"]
        sys.stdout.write(json_text(value) + "\n")
        return
    from retentive.cli import show

    _common(options)
    show.recall(answer, explain=bool(options.get("explain")), ids=ids)


def json_text(value: Any) -> str:
    """Return a result as JSON: on one line in a pipe, and indented in a terminal."""
    return json.dumps(value, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None)
