"""An OpenAI-compatible `/v1/embeddings` on this machine that answers with prepared vectors.

Peers that embed through an address get the same vectors as those that take them.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from bench.corpus import Matrix

Embed = Callable[[Sequence[str]], Matrix]


def _handler(embed: Embed) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Otherwise the answer waits for the client's acknowledgement of its header.
        disable_nagle_algorithm = True
        wbufsize = -1

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            known = self.path.rstrip("/").endswith("/embeddings")
            answer = _answer(body, embed) if known else {"error": {"message": f"there is no {self.path}"}}
            plain = json.dumps(answer).encode()
            self.send_response(200 if known else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(plain)))
            self.end_headers()
            self.wfile.write(plain)

        def log_message(self, format: str, *arguments: object) -> None:
            """Log nothing."""
            del format, arguments

    return Handler


def _answer(body: dict[str, Any], embed: Embed) -> dict[str, Any]:
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    encoded = body.get("encoding_format") == "base64"
    rows = embed(texts)
    data = [
        {"object": "embedding", "index": index, "embedding": _encode(row) if encoded else row.tolist()}
        for index, row in enumerate(rows)
    ]
    usage = {"prompt_tokens": 0, "total_tokens": 0}
    return {"object": "list", "data": data, "model": body.get("model", "given"), "usage": usage}


def _encode(row: Matrix) -> str:
    return base64.b64encode(row.astype("<f4").tobytes()).decode("ascii")


def prepared(vectors: dict[str, Sequence[float]], fallback: Embed) -> Embed:
    """Return a function that looks vectors up, and asks the embedder for texts that are not among them."""

    def embed(texts: Sequence[str]) -> Matrix:
        missing = [text for text in dict.fromkeys(texts) if text not in vectors]
        if missing:
            vectors.update(zip(missing, fallback(missing).tolist(), strict=True))
        return np.asarray([vectors[text] for text in texts], np.float32)

    return embed


@contextmanager
def serving(embed: Embed) -> Iterator[str]:
    """Serve until the end of the block; yields the base address, which ends in /v1."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(embed))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
