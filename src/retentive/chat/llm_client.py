"""The model's server: any that speaks OpenAI's chat completions, reached over one pool of connections."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from retentive.errors import Invalid, MissingExtra
from retentive.settings import UpstreamSettings

try:
    import httpx2
except ImportError as error:
    raise MissingExtra("Chat with memory", "server") from error

_LOCAL = ("all://localhost", "all://127.0.0.1", "all://[::1]")
_CONNECT_SECONDS = 10.0
_OWN_AFFAIR = {
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding",
    "upgrade", "content-length", "content-encoding", "date", "server", "set-cookie", "alt-svc",
}  # fmt: skip
"""Headers that speak of the connection to the model, and not of its answer."""


class LlmError(Exception):
    """The model's server gave no answer, or not all of it."""

    def __init__(self, status: int, message: str, *, code: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code

    def to_dict(self) -> dict[str, Any]:
        """The error as OpenAI's clients know it."""
        return {"error": {"message": str(self), "type": "upstream_error", "param": None, "code": self.code}}


class LlmResponse:
    """An answer that has begun. Close it, or read it to its end."""

    def __init__(self, upstream: LlmClient, response: httpx2.Response) -> None:
        self._upstream = upstream
        self._response = response

    @property
    def status(self) -> int:
        """Its HTTP status."""
        return self._response.status_code

    @property
    def ok(self) -> bool:
        """Whether it is an answer at all, and no error."""
        return 200 <= self.status < 300

    @property
    def streams(self) -> bool:
        """Whether it comes as server-sent events."""
        return self.ok and self._response.headers.get("content-type", "").startswith("text/event-stream")

    @property
    def headers(self) -> dict[str, str]:
        """What its headers say of the answer itself."""
        return {name: value for name, value in self._response.headers.items() if name.lower() not in _OWN_AFFAIR}

    async def read(self) -> bytes:
        """The whole body."""
        with self._upstream.explained(begun=True):
            return await self._response.aread()

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes."""
        with self._upstream.explained(begun=True):
            async for piece in self._response.aiter_bytes():
                yield piece

    async def close(self) -> None:
        """Let go of it, read or not."""
        await self._response.aclose()


class LlmClient:
    """Connections to the model's server, made when they are first needed."""

    def __init__(self, settings: UpstreamSettings) -> None:
        self._settings = settings

    def check(self) -> None:
        """An error that says what to set if there is no server to ask."""
        if self._settings.url is None:
            raise LlmError(
                501,
                "no model is configured for chat: set RETENTIVE_UPSTREAM_URL, or url of [upstream] in a config file,"
                " to a server that speaks OpenAI's API, such as http://127.0.0.1:11434/v1",
                code="upstream_not_configured",
            )

    async def post(self, path: str, body: bytes, *, headers: Mapping[str, str]) -> LlmResponse:
        """The beginning of the answer to a request."""
        return await self._send("POST", path, headers={**headers, "Content-Type": "application/json"}, content=body)

    async def get(self, path: str, *, headers: Mapping[str, str]) -> LlmResponse:
        """The beginning of the answer to a query without a body."""
        return await self._send("GET", path, headers=headers)

    async def close(self) -> None:
        """Let go of the connections."""
        if "_client" in self.__dict__:
            await self._client.aclose()

    async def _send(self, method: str, path: str, *, headers: Mapping[str, str], **options: Any) -> LlmResponse:
        self.check()
        key = self._settings.api_key
        own = {"Authorization": f"Bearer {key.get_secret_value()}"} if key else {}
        # What is compressed could not be passed on and read at the same time as it comes.
        sent = {**headers, **own, "Accept-Encoding": "identity"}
        with self.explained(begun=False):
            url = self._address.copy_with(path=f"{self._address.path}/{path}")
            request = self._client.build_request(method, url, headers=sent, **options)
            response = await self._client.send(request, stream=True)
        if 300 <= response.status_code < 400:
            await response.aclose()
            raise LlmError(
                502,
                f"{self._name} answered {response.status_code}, a redirect; set the address that it leads to",
                code="upstream_redirects",
            )
        return LlmResponse(self, response)

    @contextmanager
    def explained(self, *, begun: bool) -> Iterator[None]:
        """What goes wrong with the connection, told as what it means for whoever waits for the answer."""
        try:
            yield
        except (httpx2.ConnectTimeout, httpx2.ConnectError) as error:
            raise LlmError(
                502, f"{self._name} cannot be reached; is it running?", code="upstream_unreachable"
            ) from error
        except httpx2.TimeoutException as error:
            raise LlmError(
                504,
                f"{self._name} was silent for {self._settings.timeout:g} s; "
                "try again, or raise RETENTIVE_UPSTREAM_TIMEOUT",
                code="upstream_timeout",
            ) from error
        except httpx2.HTTPError as error:
            what = "broke off in the middle of its answer" if begun else "closed the connection without an answer"
            raise LlmError(502, f"{self._name} {what}; try again", code="upstream_broke_off") from error

    @cached_property
    def _client(self) -> httpx2.AsyncClient:
        seconds = self._settings.timeout
        timeout = httpx2.Timeout(seconds, connect=min(seconds, _CONNECT_SECONDS))
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
        # A proxy from the environment is for the world outside: it cannot reach this machine's own services.
        return httpx2.AsyncClient(timeout=timeout, limits=limits, mounts=dict.fromkeys(_LOCAL))

    @property
    def _name(self) -> str:
        return f"the model's server at {self._address.copy_with(userinfo=b'', query=None)}"

    @cached_property
    def _address(self) -> httpx2.URL:
        given = (self._settings.url or "").strip()
        try:
            url = httpx2.URL(given)
        except httpx2.InvalidURL as error:
            raise Invalid(f"upstream.url is not an address: {error}") from error
        if url.scheme not in ("http", "https") or not url.host:
            raise Invalid("upstream.url begins with http:// or https:// and a host; see RETENTIVE_UPSTREAM_URL")
        path = url.path.rstrip("/").removesuffix("/chat/completions") or "/v1"
        return url.copy_with(path=path, fragment=None)
