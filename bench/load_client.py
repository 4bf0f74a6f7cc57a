"""A client process that sends requests without pause over several connections; plan on stdin, outcomes on stdout.

It shares the machine with the service, so it does as little as possible: HTTP/1.1 over plain streams.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import Any

WRITE_EVERY = 10
"""Nine recalls, then a write."""


@dataclass
class Outcomes:
    """Times in milliseconds, texts of acknowledged writes by id, and errors."""

    seconds: float = 0.0
    reads: list[float] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)
    stored: dict[str, str] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)


class Plan:
    """The parameters of the load, and an iterator of requests."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.port: int = plan["port"]
        self.connections: int = plan["connections"]
        self.seconds: float = plan["seconds"]
        self._queries, self._texts = iter(plan["queries"]), iter(plan["texts"])
        self._requests = 0

    def next(self) -> tuple[str, str | None]:
        """Return the body of the next request, and the text if it is a write."""
        self._requests += 1
        if self._requests % WRITE_EVERY:
            return json.dumps({"query": next(self._queries), "limit": 10}), None
        text = next(self._texts)
        return json.dumps({"text": text, "session": "load"}), text


async def send_requests(plan: Plan, until: float, outcomes: Outcomes) -> None:
    """Send one request after another on one connection until the time is over."""
    reader, writer = await asyncio.open_connection("127.0.0.1", plan.port)
    while perf_counter() < until:
        body, text = plan.next()
        path = "/v1/recall" if text is None else "/v1/memories"
        started = perf_counter()
        writer.write(
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}".encode("ascii")
        )
        head = await reader.readuntil(b"\r\n\r\n")
        lowered = head.lower()
        at = lowered.index(b"content-length:") + 15
        answer = await reader.readexactly(int(lowered[at : lowered.index(b"\r\n", at)]))
        took = (perf_counter() - started) * 1000
        if not head.startswith(b"HTTP/1.1 2"):
            outcomes.errors.append(f"{path} {head[9:12].decode()} {answer[:300].decode(errors='replace')}")
        elif text is None:
            outcomes.reads.append(took)
        else:
            outcomes.writes.append(took)
            outcomes.stored[json.loads(answer)["id"]] = text
    writer.close()


async def run(plan: Plan) -> Outcomes:
    """Run all connections concurrently."""
    outcomes = Outcomes()
    started = perf_counter()
    until = started + plan.seconds
    await asyncio.gather(*(send_requests(plan, until, outcomes) for _ in range(plan.connections)))
    outcomes.seconds = perf_counter() - started
    return outcomes


if __name__ == "__main__":
    print(json.dumps(asdict(asyncio.run(run(Plan(json.load(sys.stdin)))))))
