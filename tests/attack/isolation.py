"""Attempts to read, change or notice another profile, over HTTP and MCP with a token of one profile.

Two stores have the same memories of the caller; one of them has those of other profiles too. Every request is sent to
both. The answers must be equal, and no word, name or id of another profile may be in them.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from fastapi.testclient import TestClient

from retentive.engine import Engine
from retentive.models import KINDS
from retentive.settings import Settings
from retentive.stores import open_store
from tests.attack.harness import Run, TextVectors, all_memories, main, words
from tests.stores.build import NOW, id_of
from tests.surfaces.serving import client, token

COUNTED = ("attempts", "answered", "rejected")
WRONG = ("leaks", "different answers", "changes of others", "errors")

ATTEMPTS = 100
OWN = 60
MCP = {"Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2025-06-18"}
MARKER = re.compile(r"zq[0-9a-f]{12}")

# What differs from one moment or one process to the next.
MOVING = re.compile(r'\\?"(elapsedMs|stages|uptimeSeconds|requestId|storeBytes|bytes)\\?":(\{[^}]*\}|"[^"]*"|[^,}]*)')
RANDOM_BOUNDARY = re.compile(r"memory-[0-9a-f]{8,}|\b[0-9a-f]{16}\b")
NUMBER = re.compile(r"-?\d+\.\d{6,}(?:e-?\d+)?")


class Others(NamedTuple):
    """What belongs to other profiles."""

    ids: list[str]
    names: list[str]
    markers: list[str]


def own_drafts(dice: random.Random) -> list[dict[str, Any]]:
    """The memories of the caller."""
    return [
        {
            "id": id_of(number),
            "text": f"note {number} {words(dice, dice.choice((4, 20)))}",
            "profile": "me",
            "project": f"p{number % 3}" if number % 4 else None,
            "session": f"p{number % 3} s{number % 6}" if number % 4 and number % 5 else None,
            "kind": KINDS[number % 3],
            "created": NOW,
        }
        for number in range(OWN)
    ]


def others_drafts(dice: random.Random) -> Iterator[dict[str, Any]]:
    """The memories of others: some names are those of the caller, some contain a marker, and each text has one."""
    for number in range(dice.choice((30, 200, 600))):
        marked = f"zq{dice.getrandbits(48):012x}"
        container = dice.choice(("shared", "own", "none"))
        project = {"shared": f"p{number % 3}", "own": f"project {marked}", "none": None}[container]
        yield {
            "id": id_of(10_000 + number),
            "text": f"note {marked} {words(dice, dice.choice((4, 20)))}",
            "profile": f"other{number % 3}",
            "project": project,
            "session": None if project is None else f"{project} s{number % 6}",
            "speaker": marked if number % 5 == 0 else None,
            "source": f"source {marked}" if number % 7 == 0 else None,
            "created": NOW,
        }


class _Caller:
    """Makes random requests as one profile that name what belongs to others, and its own."""

    def __init__(self, dice: random.Random, others: Others) -> None:
        self._dice, self._others = dice, others

    def next(self) -> tuple[str, str, dict[str, Any]]:
        """Return a method, a path, and the options of a request."""
        theirs, marker, dice = self._id(), dice_choice(self._dice, self._others.markers), self._dice
        name = dice.choice((dice_choice(dice, self._others.names), f"p{dice.randrange(3)}", f"p1 s{dice.randrange(6)}"))
        query = dice.choice((f"{marker} note", words(dice, 3), f"note {dice.randrange(OWN)}", name))
        scope = dice.choice(
            ({}, {"project": name}, {"session": name}, {"session": [name, "p1 s1"], "onlySession": True})
        )
        asked = {"query": query, **scope}
        tuned = {**asked, "limit": dice.choice((5, 50)), **dice.choice(({}, {"tuning": dice.choice(TUNINGS)}))}
        post, get = "POST", "GET"
        return dice.choice((
            (post, "/v1/recall", {"json": {**tuned, "dropped": dice.random() < 0.3}}),
            (post, "/v1/recall", {"json": {**tuned, "exclude": [theirs]}}),
            (post, "/v1/recall/explain", {"json": {**asked, "id": dice.choice((theirs, id_of(dice.randrange(OWN))))}}),
            (post, "/v1/recall/compare", {"json": {**asked, "b": "weighted"}}),
            (post, "/v1/context", {"json": {"query": query, "everywhere": dice.random() < 0.5}}),
            (get, "/episodes/search", {"params": {"q": query, "sessionIds": name}}),
            (get, "/v1/memories", {"params": {"limit": 20, **{k: v for k, v in scope.items() if isinstance(v, str)}}}),
            (get, "/v1/memories", {"params": {"cursor": f"1748779200000000_{theirs}"}}),
            (get, f"/v1/memories/{theirs}", {}),
            (get, "/v1/sessions", {"params": dice.choice(({}, {"project": name}))}),
            (get, "/v1/projects", {}),
            (get, "/v1/profiles", {}),
            (get, "/v1/stats", {}),
            (get, "/v1/timeline", {"params": dice.choice(({}, {"project": name}))}),
            (get, "/v1/judgements", {"params": dice.choice(({}, {"project": name}))}),
            (post, "/v1/judgements", {"json": {"query": "which?", "good": [theirs]}}),
            ("DELETE", "/v1/judgements", {"json": {"query": "which?", "memory": theirs}}),
            ("PATCH", f"/v1/memories/{theirs}", {"json": {"text": "taken over"}}),
            ("DELETE", f"/v1/memories/{theirs}", {}),
            (post, "/v1/memories/forget", {"json": {"ids": [theirs]}}),
            (post, "/v1/memories/forget", {"json": {"scope": {"project": f"project {marker}"}, "confirm": True}}),
            (post, "/v1/memories", {"json": {"text": "one", "profile": "other1"}}),
            ("PATCH", f"/v1/sessions/project {marker} s1", {"json": {"project": "mine"}}),
            *(self._tool(*tool) for tool in (
                ("memory_recall", {"query": query}),
                ("memory_get", {"id": theirs}),
                ("memory_update", {"id": theirs, "text": "taken over"}),
                ("memory_forget", {"ids": [theirs]}),
                ("memory_explain", {"query": query, "id": theirs}),
            )),
        ))  # fmt: skip

    def _id(self) -> str:
        return dice_choice(self._dice, self._others.ids)

    def _tool(self, name: str, arguments: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
        return "POST", "/mcp", {"json": call, "headers": MCP}


TUNINGS = (
    "classic-rrf",
    "weighted",
    {"semanticWeight": 0},
    {"keywordWeight": 0},
    {"maxDocumentFrequency": 1.0},
    {"maxDocumentFrequency": 0.05},
)


def dice_choice(dice: random.Random, values: list[str]) -> str:
    """One of the values."""
    return values[dice.randrange(len(values))]


def comparable(text: str) -> str:
    """An answer without what differs from one moment to the next, and with rounded numbers."""
    text = NUMBER.sub(lambda found: f"{float(found[0]):.4g}", MOVING.sub("…", text))
    return RANDOM_BOUNDARY.sub("…", text)


@contextmanager
def service(path: Any, drafts: list[dict[str, Any]]) -> Iterator[tuple[Engine, TestClient]]:
    """A service on a store with these memories, and a client of it with a token of the caller."""
    with ExitStack() as stack:
        settings = Settings(store="", profile="me")
        store = open_store(str(path))
        engine = stack.enter_context(Engine(store, TextVectors(), settings=settings, clock=lambda: NOW))
        engine.remember_many(drafts)
        engine.judge("which?", good=[id_of(1)], profile="me")
        theirs = [draft for draft in drafts if draft["profile"] != "me"]
        for draft in theirs[:20]:
            engine.judge(f"which {draft['text']}?", good=[draft["id"]], profile=draft["profile"])
        caller = client(engine, token=token(engine, "me", "write"), require_token=True, log="off")
        yield engine, stack.enter_context(caller)


def attack(run: Run) -> None:
    """Build two stores in each round, and send requests to both."""
    for number in run.rounds():
        own, others = own_drafts(run.dice), list(others_drafts(run.dice))
        place = run.dice.randrange(len(others))
        mixed = [*others[:place], *own, *others[place:]]  # the caller's own keep their order
        known = Others(
            [draft["id"] for draft in others],
            [name for draft in others for name in (draft["session"], draft["project"]) if name],
            [MARKER.findall(draft["text"])[0] for draft in others],
        )
        with (
            service(run.folder / f"{number}.alone.db", own) as (_, alone),
            service(run.folder / f"{number}.shared.db", mixed) as (engine, shared),
        ):
            send_all(run, engine, alone, shared, known)


def send_all(run: Run, engine: Engine, alone: TestClient, shared: TestClient, known: Others) -> None:
    """Send requests to both services and compare."""
    before = {id: memory for id, memory in all_memories(engine.store).items() if memory.profile != "me"}
    caller = _Caller(run.dice, known)
    for _ in range(ATTEMPTS):
        if run.remaining < 0:
            break
        method, path, options = caller.next()
        answers = [one.request(method, path, **options) for one in (alone, shared)]
        described = f"{method} {path} {json.dumps(options.get('json') or options.get('params') or {})[:200]}"
        judge_answers(run, described, f"{path} {json.dumps(options)}", answers)
    after = {id: memory for id, memory in all_memories(engine.store).items() if memory.profile != "me"}
    for id in before.keys() | after.keys():
        if before.get(id) != after.get(id):
            run.fail("changes of others", f"{id} was {before.get(id)} and is {after.get(id)}"[:300])


def judge_answers(run: Run, described: str, sent: str, answers: list[Any]) -> None:
    """Compare the answers of both services, and look for what belongs to others."""
    first, second = answers
    run.count("attempts")
    run.count("answered" if second.status_code < 400 else "rejected")
    if second.status_code >= 500:
        run.fail("errors", f"{described}: {second.status_code} {second.text[:200]}")
    leaked = set(MARKER.findall(second.text)) - set(MARKER.findall(sent))
    leaked |= {id for id in re.findall(r"01900000-0000-7000-8000-00000001\d{4}", second.text) if id not in sent}
    if leaked:
        run.fail("leaks", f"{described}: {', '.join(sorted(leaked)[:3])}")
    if first.status_code != second.status_code or comparable(first.text) != comparable(second.text):
        run.fail("different answers", f"{described}: {difference(comparable(first.text), comparable(second.text))}")


def difference(first: str, second: str) -> str:
    """The first place at which two texts differ."""
    at = next((at for at, (one, two) in enumerate(zip(first, second, strict=False)) if one != two), 0)
    return f"'{first[max(at - 60, 0) : at + 40]}' alone, '{second[max(at - 60, 0) : at + 40]}' beside others"


if __name__ == "__main__":
    main("isolation")
