"""A client for the LLM server: any server with OpenAI's chat completions API, over one pool of connections."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from retentive.errors import Invalid
from retentive.extras import needs_extra
from retentive.settings import LlmSettings

with needs_extra("Chat with memory", "server"):
    import httpx2

_LOCAL = ("all://localhost", "all://127.0.0.1", "all://[::1]")
_CONNECT_SECONDS = 10.0
_HEADERS = ("retry-after", "retry-after-ms", "x-request-id", "x-should-retry")
_HEADER_PREFIXES = ("openai-", "x-ratelimit-")
"""Response headers of OpenAI's API, which are passed on. Others could give the server rights over our pages."""

_TYPES = ("application/json", "application/problem+json", "text/event-stream", "text/plain")
_INERT = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
}
"""No browser runs an answer, or shows it as a page of the service."""

MAX_BODY = 32_000_000
"""Bytes of a whole response body."""


class LlmError(Exception):
    """The LLM server did not answer, or not completely."""

    def __init__(self, status: int, message: str, *, code: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code

    def to_dict(self) -> dict[str, Any]:
        """Return the error in OpenAI's format."""
        return {"error": {"message": str(self), "type": "llm_error", "param": None, "code": self.code}}


class LlmResponse:
    """A response whose headers have arrived. Read it to its end, or close it."""

    def __init__(self, client: LlmClient, response: httpx2.Response) -> None:
        self._client = client
        self._response = response
        # Headers are sent as Latin-1. Read as such, any bytes are passed on unchanged.
        response.headers.encoding = "latin-1"

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self._response.status_code

    @property
    def ok(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300

    @property
    def streams(self) -> bool:
        """Whether the body is a stream of server-sent events."""
        return self.ok and self._response.headers.get("content-type", "").startswith("text/event-stream")

    @property
    def headers(self) -> dict[str, str]:
        """The headers that are passed on to the client. A type that is not one of the API is that of a file."""
        headers = {name.lower(): value for name, value in self._response.headers.items()}
        passed = {name: text for name, text in headers.items() if name in _HEADERS or name.startswith(_HEADER_PREFIXES)}
        type = headers.get("content-type", "")
        known = type.partition(";")[0].strip().lower() in _TYPES
        return {"content-type": type if known else "application/octet-stream", **passed, **_INERT}

    async def read(self) -> bytes:
        """Return the whole body."""
        body = bytearray()
        async for piece in self.pieces():
            body += piece
            if len(body) > MAX_BODY:
                raise LlmError(502, f"the LLM server's answer has more than {MAX_BODY:,} bytes", code="llm_too_large")
        return bytes(body)

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Yield the body as it arrives."""
        with self._client.translated_errors(started=True):
            async for piece in self._response.aiter_bytes():
                yield piece

    async def close(self) -> None:
        """Release the connection."""
        await self._response.aclose()


class LlmClient:
    """Sends requests to the LLM server. Connections are opened when they are first needed."""

    def __init__(self, settings: LlmSettings) -> None:
        self._settings = settings

    def check(self) -> None:
        """Raise an `LlmError` with instructions if no LLM server is configured."""
        if self._settings.url is None:
            raise LlmError(
                501,
                "no LLM is configured for chat: set RETENTIVE_LLM_URL, or url under [llm] in a config file, "
                "to a server with OpenAI's API, such as http://127.0.0.1:11434/v1",
                code="llm_not_configured",
            )

    async def post(self, path: str, body: bytes, *, headers: Mapping[str, str]) -> LlmResponse:
        """Send a POST request and return the response when its headers have arrived."""
        return await self._send("POST", path, headers={**headers, "Content-Type": "application/json"}, content=body)

    async def get(self, path: str, *, headers: Mapping[str, str]) -> LlmResponse:
        """Send a GET request and return the response when its headers have arrived."""
        return await self._send("GET", path, headers=headers)

    async def close(self) -> None:
        """Close the connections."""
        if "_client" in self.__dict__:
            await self._client.aclose()

    async def _send(self, method: str, path: str, *, headers: Mapping[str, str], **options: Any) -> LlmResponse:
        self.check()
        key = self._settings.api_key
        own = {"Authorization": f"Bearer {key.get_secret_value()}"} if key else {}
        # A compressed stream could not be passed on unchanged and read at the same time.
        sent = httpx2.Headers({**headers, **own, "Accept-Encoding": "identity"}, encoding="latin-1")
        with self.translated_errors(started=False):
            url = self._address.copy_with(path=f"{self._address.path}/{path}")
            request = self._client.build_request(method, url, headers=sent, **options)
            response = await self._client.send(request, stream=True)
        if 300 <= response.status_code < 400:
            await response.aclose()
            raise LlmError(
                502,
                f"{self._name} answered with a redirect ({response.status_code}); configure the address it points to",
                code="llm_redirect",
            )
        return LlmResponse(self, response)

    @contextmanager
    def translated_errors(self, *, started: bool) -> Iterator[None]:
        """Raise connection errors as `LlmError`; `started` says whether the response had started."""
        try:
            yield
        except (httpx2.ConnectTimeout, httpx2.ConnectError) as error:
            raise LlmError(502, f"{self._name} cannot be reached; is it running?", code="llm_unreachable") from error
        except httpx2.TimeoutException as error:
            raise LlmError(
                504,
                f"{self._name} sent nothing for {self._settings.timeout:g} s; try again, or raise "
                "RETENTIVE_LLM_TIMEOUT",
                code="llm_timeout",
            ) from error
        except httpx2.HTTPError as error:
            what = "in the middle of its answer" if started else "without an answer"
            raise LlmError(
                502, f"{self._name} closed the connection {what}; try again", code="llm_disconnected"
            ) from error

    @cached_property
    def _client(self) -> httpx2.AsyncClient:
        seconds = self._settings.timeout
        timeout = httpx2.Timeout(seconds, connect=min(seconds, _CONNECT_SECONDS))
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
        # A proxy from the environment cannot reach servers on this machine.
        return httpx2.AsyncClient(timeout=timeout, limits=limits, mounts=dict.fromkeys(_LOCAL))

    @property
    def _name(self) -> str:
        return f"the LLM server at {self._address.copy_with(userinfo=b'', query=None)}"

    @cached_property
    def _address(self) -> httpx2.URL:
        given = (self._settings.url or "").strip()
        try:
            url = httpx2.URL(given)
        except httpx2.InvalidURL as error:
            raise Invalid(f"llm.url is not a valid address: {error}") from error
        if url.scheme not in ("http", "https") or not url.host:
            raise Invalid("llm.url must start with http:// or https:// and a host; see RETENTIVE_LLM_URL")
        path = url.path.rstrip("/").removesuffix("/chat/completions") or "/v1"
        return url.copy_with(path=path, fragment=None)
