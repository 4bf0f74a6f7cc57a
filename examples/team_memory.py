"""A team's shared memory: one service, a profile for the team, and a token for each member.

    python examples/team_memory.py

It starts `retentive serve` on a free port of this machine. Ana has a token that may write, Ben one that may only read,
and Carol's is for another profile: she sees nothing of the team. It needs `pip install 'retentive[server]'`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2

from retentive import Engine
from retentive.server.runtime_file import running_service


@contextmanager
def service(store: str) -> Iterator[str]:
    """Serve a store to those who have a token; yield the address."""
    command = [sys.executable, "-m", "retentive", "--store", store, "serve", "--port", "0"]
    process = subprocess.Popen(command, env={**os.environ, "RETENTIVE_SERVER_REQUIRE_TOKEN": "true"})
    try:
        for _ in range(600):
            address = running_service(store)
            if address or process.poll() is not None:
                break
            time.sleep(0.1)
        if not address:
            sys.exit("the service did not start")
        yield address
    finally:
        process.terminate()
        process.wait()


def member(url: str, token: str) -> httpx2.Client:
    """A client of the service with a member's token."""
    return httpx2.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60)


def main(store: str = "team.db") -> None:
    """Share a memory, read it with another token, and show what each token does not allow."""
    with Engine.open(store) as engine:
        _, ana = engine.tokens.create(profile="team", access="write", note="Ana")
        _, ben = engine.tokens.create(profile="team", access="read", note="Ben")
        _, carol = engine.tokens.create(profile="carol", access="write", note="Carol")

    text, query = "We deploy on Tuesdays, after the stand-up.", {"query": "when do we deploy?"}
    with service(store) as url, member(url, ana) as a, member(url, ben) as b, member(url, carol) as c:
        a.post("/v1/memories", json={"text": text, "project": "backend", "speaker": "Ana"}).raise_for_status()
        hits = b.post("/v1/recall", json=query).raise_for_status().json()["hits"]
        print("Ben recalls:", hits[0]["memory"]["text"])
        print("Ben writes:", b.post("/v1/memories", json={"text": "no"}).status_code)
        print("Carol recalls:", c.post("/v1/recall", json=query).raise_for_status().json()["hits"])
        print("without a token:", httpx2.post(f"{url}/v1/recall", json=query).status_code)


if __name__ == "__main__":
    main(*sys.argv[1:])
