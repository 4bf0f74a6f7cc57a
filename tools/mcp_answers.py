"""What the MCP server says of itself, for its front: `src/retentive/server/mcp_front.json`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from retentive.server.mcp_front import BEHIND, MODERN

PAGE = Path(__file__).parents[1] / "src/retentive/server/mcp_front.json"


def mcp_answers() -> str:
    """The answers of the server to the requests with which a client begins."""
    hello, tools, wrapped, discover = _asked("--explain")
    without, few, _, _ = _asked("--read-only")
    fewest = _asked()[1]
    names = [one["name"] for one in tools["tools"]]
    writes = set(names) - {one["name"] for one in few["tools"]}
    explain = set(names) - {one["name"] for one in fewest["tools"]}
    found = {
        "legacy": list(HANDSHAKE_PROTOCOL_VERSIONS),
        "modern": list(MODERN_PROTOCOL_VERSIONS),
        "initialize": _but(hello, "protocolVersion", "instructions"),
        "discover": _but(discover, "instructions"),
        "instructions": {"write": hello["instructions"], "read": without["instructions"]},
        "wrapping": _but(wrapped, "tools"),
        "tools": tools["tools"],
        "writes": [name for name in names if name in writes - explain],
        "explain": [name for name in names if name in explain],
    }
    return json.dumps(found, ensure_ascii=False, indent=1) + "\n"


def _but(result: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in result.items() if name not in names}


def _asked(*options: str) -> list[dict[str, Any]]:
    """The results of `initialize` and `tools/list`, and of `tools/list` and `server/discover` without a handshake."""
    client = {"name": "tools", "version": "1"}
    hello = {"protocolVersion": HANDSHAKE_PROTOCOL_VERSIONS[-1], "capabilities": {}, "clientInfo": client}
    prefix = MODERN.rpartition("/")[0]
    meta = {MODERN: MODERN_PROTOCOL_VERSIONS[-1], f"{prefix}/clientInfo": client, f"{prefix}/clientCapabilities": {}}
    first = [_request(1, "initialize", hello), {"jsonrpc": "2.0", "method": "notifications/initialized"},
             _request(2, "tools/list", {})]  # fmt: skip
    second = [_request(3, "tools/list", {"_meta": meta}), _request(4, "server/discover", {"_meta": meta})]
    found = {**_talk(first, *options), **_talk(second, *options)}
    return [found[id] for id in (1, 2, 3, 4)]


def _request(id: int, method: str, given: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": given}


def _talk(messages: list[dict[str, Any]], *options: str) -> dict[int, dict[str, Any]]:
    """Send messages to a server behind no front; return the results of the requests by their ids."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "retentive", "--store", f"{folder}/m.db", "--embedder", "none", "mcp", *options]
        with subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, BEHIND: "1"}
        ) as server:
            if server.stdin is None or server.stdout is None:
                raise RuntimeError("the server has no pipes")
            found: dict[int, dict[str, Any]] = {}
            for message in messages:
                server.stdin.write(json.dumps(message) + "\n")
                server.stdin.flush()
            while len(found) < sum("id" in message for message in messages):
                answer = json.loads(server.stdout.readline())
                found[answer["id"]] = answer["result"]
            server.stdin.close()
    return found
