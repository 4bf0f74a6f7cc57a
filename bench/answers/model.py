"""A language model behind OpenAI's chat completions API, and what it used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx2


class ModelError(Exception):
    """The model's server did not answer as it should."""


@dataclass(slots=True)
class Usage:
    """Requests and tokens, as the server counts them."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def cost(self, per_million: tuple[float, float]) -> float:
        """Return the cost, given the prices of a million prompt tokens and of a million completion tokens."""
        return (self.prompt_tokens * per_million[0] + self.completion_tokens * per_million[1]) / 1e6


class ChatModel:
    """Answers messages. A request that fails for a passing reason is sent again."""

    def __init__(self, url: str, name: str, *, key: str | None = None, seconds: float = 120, tries: int = 3) -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._client = httpx2.Client(base_url=url.rstrip("/"), headers=headers, timeout=seconds)
        self._tries = tries
        self.name = name
        self.usage = Usage()

    def ask(self, messages: Sequence[dict[str, str]]) -> str:
        """Return the answer to some messages."""
        problem = ""
        for _ in range(self._tries):
            try:
                body = {"model": self.name, "messages": list(messages), "temperature": 0}
                response = self._client.post("/chat/completions", json=body)
            except httpx2.HTTPError as error:
                problem = f"{type(error).__name__}: {error}"
                continue
            if response.status_code == 200:
                return self._text(response.json())
            problem = f"status {response.status_code}: {response.text[:200]}"
            if response.status_code not in (408, 429) and response.status_code < 500:
                break
        raise ModelError(f"{self.name} did not answer: {problem}")

    def _text(self, body: dict[str, Any]) -> str:
        used = body.get("usage") or {}
        self.usage.requests += 1
        self.usage.prompt_tokens += used.get("prompt_tokens", 0)
        self.usage.completion_tokens += used.get("completion_tokens", 0)
        return str(body["choices"][0]["message"]["content"] or "")

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
