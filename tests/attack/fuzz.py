"""Hostile calls of an engine, and hostile requests to a service that runs in a process of its own.

A call may raise errors of ours only, and a request may not be answered with a status of 500 or above. The memories of
another profile must stay as they are, and `doctor` must find nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import quote, urlencode

from retentive.engine import Engine
from retentive.errors import RetentiveError
from retentive.models import Memory
from retentive.stores import open_store
from tests.attack.harness import Run, TextVectors, all_memories, main, words
from tests.attack.hostile_values import PLAIN, RAW, body, encoded, field, identifier, send_raw, text, value
from tests.stores.build import id_of
from tests.surfaces.service import Service, served

COUNTED = ("engine calls", "requests", "accepted")
WRONG = ("unexpected errors", "server errors", "problems")

CALLS = 150
REQUESTS = 150
DRAFT = (
    "id", "project", "session", "position", "kind", "speaker", "importance", "metadata", "source", "created",
    "occurred", "evergreen",
)  # fmt: skip
CHANGES = ("text", "kind", "speaker", "importance", "metadata", "source", "occurred", "evergreen")

LEFT_OUT = ("/v1/chat/completions", "/v1/models", "/v1/tune", "/mcp", "/metrics")
"""Operations that need an LLM server, run for long, or are not of the JSON interface."""


def fill(engine: Engine) -> None:
    """Store memories of the profile that is attacked, and of one that must stay as it is."""
    dice = random.Random(0)
    for number in range(60):
        engine.remember(words(dice, 8), id=id_of(number), session=f"s{number % 4}")
    engine.remember_many([{"text": words(dice, 8), "id": id_of(500 + n), "profile": "quiet"} for n in range(40)])


def quiet(engine: Engine) -> dict[str, Memory]:
    """The memories that must stay as they are."""
    return {id: memory for id, memory in all_memories(engine.store).items() if memory.profile == "quiet"}


# Calls of an engine


def some(names: tuple[str, ...], dice: random.Random) -> dict[str, Any]:
    """Values for some fields."""
    return {name: field(name, dice) for name in names if dice.random() < 0.25}


def query_options(dice: random.Random) -> dict[str, Any]:
    """Options of a recall with values of the right types."""
    options: Mapping[str, Callable[[], Any]] = {
        "limit": lambda: dice.choice((-(10**9), -1, 0, 1, 10, 10**9)),
        "project": lambda: text(dice),
        "session": lambda: dice.choice((text(dice), [text(dice), "s1"], [])),
        "only_session": lambda: dice.random() < 0.5,
        "kinds": lambda: dice.choice((["episodic"], [], [text(dice)])),
        "exclude": lambda: [identifier(dice)],
        "tuning": lambda: dice.choice((text(dice), PLAIN["tuning"](dice), {"limit": 3}, "classic-rrf")),
        "now": lambda: text(dice),
        "vector": lambda: [dice.choice((0.0, 1.0, float("nan"), 1e38)) for _ in range(dice.choice((0, 3, 16)))],
    }
    return {name: make() for name, make in options.items() if dice.random() < 0.2}


ENGINE_CALLS: Mapping[str, Callable[[Engine, random.Random], Any]] = {
    "remember": lambda engine, dice: engine.remember(text(dice), **some(DRAFT, dice)),
    "remember_many": lambda engine, dice: engine.remember_many(
        [{"text": text(dice), **some(DRAFT, dice)}, field("messages", dice)] if dice.random() < 0.2 else [value(dice)],
        idempotency_key=dice.choice((None, text(dice))),
    ),
    "update": lambda engine, dice: engine.update(identifier(dice), **some(CHANGES, dice)),
    "forget": lambda engine, dice: engine.forget(identifier(dice), idempotency_key=dice.choice((None, text(dice)))),
    "forget_scope": lambda engine, dice: engine.forget_scope(
        engine.scope(session=text(dice), only_session=True), confirm=dice.random() < 0.5
    ),
    "recall": lambda engine, dice: engine.recall(text(dice), **query_options(dice)),
    "explain": lambda engine, dice: engine.explain(text(dice), identifier(dice), **query_options(dice)),
    "get": lambda engine, dice: engine.get(identifier(dice)),
    "get_many": lambda engine, dice: engine.get_many([identifier(dice), identifier(dice)]),
    "list": lambda engine, dice: engine.list(
        engine.scope(project=text(dice)), cursor=dice.choice((None, text(dice))), limit=dice.choice((-1, 0, 5, 10**9))
    ),
    "sessions": lambda engine, dice: engine.sessions(project=text(dice)),
    "timeline": lambda engine, dice: engine.timeline(project=dice.choice((None, text(dice)))),
    "move_session": lambda engine, dice: engine.move_session(
        dice.choice((text(dice), "s1")), project=dice.choice((None, text(dice)))
    ),
    "judge": lambda engine, dice: engine.judge(
        text(dice), good={identifier(dice): dice.choice((-1, 0, 1, 3, 10**9))}, bad=[identifier(dice)]
    ),
    "tuning.save": lambda engine, dice: engine.tuning.save(PLAIN["tuning"](dice)),
    "tuning.undo": lambda engine, dice: engine.tuning.undo(dice.choice((None, -1, 5, 10**9))),
    "tokens.find": lambda engine, dice: engine.tokens.find(text(dice)),
    "tokens.revoke": lambda engine, dice: engine.tokens.revoke(text(dice)),
    "imports.undo": lambda engine, dice: engine.imports.undo(text(dice)),
}


def call_engine(engine: Engine, run: Run) -> None:
    """Make hostile calls."""
    for _ in range(CALLS):
        seed = run.dice.random()
        dice = random.Random(seed)
        name = dice.choice(list(ENGINE_CALLS))
        run.count("engine calls")
        try:
            ENGINE_CALLS[name](engine, dice)
            run.count("accepted")
        except RetentiveError as error:
            if not str(error):
                run.fail("unexpected errors", f"call {seed}, {name}: an error without a message")
        except Exception as error:
            run.fail("unexpected errors", f"call {seed}, {name}: {type(error).__name__}: {error!s:.200}")
    engine.tuning.save({"preset": None})


# Requests to a service


class _Operation:
    """An operation of the OpenAPI document: its method, path, parameters and the fields of its body."""

    def __init__(self, method: str, path: str, described: Mapping[str, Any], schemas: Mapping[str, Any]) -> None:
        self.method, self.path = method.upper(), path
        parameters = described.get("parameters", ())
        self._query = [one["name"] for one in parameters if one["in"] == "query"]
        self._headers = [one["name"] for one in parameters if one["in"] == "header"]
        content = described.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
        self._objects = [] if content is None else list(_objects(content, schemas))

    def request(self, dice: random.Random) -> tuple[str, bytes | None, dict[str, str]]:
        """Return a path, a body and headers."""
        path = self.path.replace("{id}", quote(identifier(dice).encode(errors="surrogatepass"), safe=""))
        path = path.replace("{name}", quote(text(dice).encode(errors="surrogatepass"), safe=""))
        query = {name: _plain(field(name, dice)) for name in self._query if dice.random() < 0.3}
        if dice.random() < 0.03:
            query["x"] = b"\xff"
        path += f"?{urlencode(query)}" if query else ""
        headers = {name: _header(dice) for name in self._headers if dice.random() < 0.2}
        if not self._objects and dice.random() < 0.95:
            return path, None, headers
        properties, required = dice.choice(self._objects) if self._objects else ({}, [])
        headers["Content-Type"] = "application/json" if dice.random() < 0.97 else _header(dice)
        return path, encoded(body(properties, required, dice), dice), headers


def _objects(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], list[str]]]:
    """The objects that a schema allows, each as its properties and required fields."""
    if "$ref" in schema:
        yield from _objects(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    for part in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from _objects(part, schemas)
    if "properties" in schema:
        yield schema["properties"], schema.get("required", [])


def _plain(one: Any) -> bytes:
    return str(one).encode(errors="surrogatepass")


def _header(dice: random.Random) -> str:
    """A value that can be sent in a header."""
    sendable = "".join(char for char in text(dice) if " " <= char <= "ÿ" and char != "\x7f")
    return sendable.strip() or "x"


class _Requests:
    """Sends hostile requests on one connection, which is opened again where the service has closed it."""

    def __init__(self, service: Service, token: str, run: Run) -> None:
        self._service, self._run = service, run
        self._authorization = {"Authorization": f"Bearer {token}"}
        document = service.ask("GET", "/openapi.json").body
        schemas = document["components"]["schemas"]
        self._operations = [
            _Operation(method, path, described, schemas)
            for path, methods in document["paths"].items()
            if path not in LEFT_OUT
            for method, described in methods.items()
        ]
        self._connection: HTTPConnection | None = None

    def send(self, number: int) -> None:
        """Send some requests, and see that the service is healthy."""
        for _ in range(number):
            seed = self._run.dice.random()
            dice = random.Random(seed)
            self._run.count("requests")
            if dice.random() < 0.03:
                self._judge(seed, "raw bytes", send_raw(self._service.port, dice.choice(RAW))[9:12], b"")
                continue
            operation = dice.choice(self._operations)
            status, answer = self._ask(operation.method, *operation.request(dice))
            self._judge(seed, f"{operation.method} {operation.path}", status, answer)
        if self._service.ask("GET", "/healthz").status != 200:
            self._run.fail("server errors", "the service is not healthy")

    def _ask(self, method: str, path: str, content: bytes | None, headers: dict[str, str]) -> tuple[bytes, bytes]:
        for attempt in range(2):
            self._connection = self._connection or self._service.connect(timeout=60)
            try:
                self._connection.request(method, path, content, {**self._authorization, **headers})
                response = self._connection.getresponse()
                return str(response.status).encode(), response.read()
            except (HTTPException, OSError):
                self._connection.close()
                self._connection = None
                if attempt:
                    return b"", b"the connection was closed without an answer"
        return b"", b""

    def _judge(self, seed: float, what: str, status: bytes, answer: bytes) -> None:
        if status[:1] == b"2":
            self._run.count("accepted")
        if status[:1] == b"5" or (not status and answer):
            self._run.fail("server errors", f"request {seed}, {what}: {status.decode()} {answer[:200]!r}")

    def close(self) -> None:
        """Close the connection."""
        if self._connection:
            self._connection.close()


def attack(run: Run) -> None:
    """Attack an engine and a service in turns."""
    served_store = run.folder / "served.db"
    with Engine(open_store(str(served_store))) as engine:
        fill(engine)
        before = quiet(engine)
        token = engine.tokens.create(profile="default", access="admin")[1]
    with Engine(open_store(str(run.folder / "called.db")), TextVectors()) as engine:
        fill(engine)
        with served(served_store, embedder="none", server_require_token="true", server_log="off") as service:
            requests = _Requests(service, token, run)
            for _ in run.rounds():
                call_engine(engine, run)
                requests.send(REQUESTS)
            requests.close()
            code = service.end()
        if code or "Traceback" in service.said:
            run.fail("problems", f"the service ended with exit code {code}: {service.said[-500:]}")
        check(engine, before, run)
    with Engine(open_store(str(served_store))) as engine:
        check(engine, before, run)


def check(engine: Engine, before: Mapping[str, Memory], run: Run) -> None:
    """The other profile is as it was, and the store is healthy."""
    after = quiet(engine)
    if {id: memory.text for id, memory in after.items()} != {id: memory.text for id, memory in before.items()}:
        run.fail("problems", "memories of another profile were changed")
    for problem in engine.check():
        run.fail("problems", problem)


if __name__ == "__main__":
    main("fuzz")
