"""Embeddings from a service with OpenAI's `/v1/embeddings` API: OpenAI, Ollama, vLLM, TEI, LM Studio.

Every failure raises `Unavailable`, so that a recall can continue without vectors; a text that the service does not
accept raises `Refused`. Transient failures (no connection, time-out, 429, 5xx) are retried with exponential, jittered
back-off; after the last one, calls fail at once for some seconds. What a service writes in an error may contain the
text it was sent, so an error has its status and length, never its contents.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import threading
import time
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from retentive.errors import Invalid, Refused, Unavailable
from retentive.extras import needs_extra
from retentive.inference.embedders import Embedder, Matrix
from retentive.inference.embedders.circuit import OPEN_SECONDS, CircuitBreaker
from retentive.models import Model
from retentive.text.splitting import split_text

if TYPE_CHECKING:
    import httpx2

    from retentive.settings import EmbedderSettings

_MAX_WAIT = 5.0
_LOCAL = ("all://localhost", "all://127.0.0.1", "all://[::1]")
_PROBE = "dimension"
"""A text that every model accepts: from its vector the dimension is learnt."""

_REFUSALS = (400, 413, 415, 422)
"""What services answer if they do not accept a text: too long, empty for their tokenizer, filtered."""

_ADVICE = {
    400: "Check the model's name, or lower max_chars if the text is too long for it.",
    401: "Check the API key.",
    403: "Check the API key and what it may use.",
    404: "Check the address and that the service has this model.",
    413: "Lower batch or max_chars.",
    422: "Check the model's name, or lower batch or max_chars.",
    429: "Wait, or ask the service for a higher limit.",
}


class _Transient(Unavailable):
    """A failure that is worth a retry, after the wait that the service named, if it did."""

    def __init__(self, message: str, *, wait: float | None = None, timed_out: bool = False) -> None:
        super().__init__(message)
        self.wait = wait
        self.timed_out = timed_out


def open_remote(settings: EmbedderSettings) -> RemoteEmbedder:
    """Open the embedder at the address that the settings name."""
    if not settings.model:
        raise Invalid(
            f"the embedder at {settings.name} needs a model name: set embedder.model or RETENTIVE_EMBEDDER_MODEL"
        )
    key = settings.api_key.get_secret_value() if settings.api_key else None
    return RemoteEmbedder(
        settings.name, model=settings.model, api_key=key, timeout=settings.timeout, retries=settings.retries
    )


class RemoteEmbedder(Embedder):
    """The embeddings of a service, requested in batches.

    `timeout` limits one request, `deadline` one call of `embed` with all its batches and retries, both in seconds.
    `url` is the service's base, its `/v1`, or the full address. Redirects are not followed: they could send the API key
    to another host. Whether a text's vector depends on its batch is up to the service.
    """

    def __init__(
        self,
        url: str,
        *,
        model: str,
        api_key: str | None = None,
        timeout: float = 10.0,
        retries: int = 3,
        batch: int = 64,
        dimension: int | None = None,
        max_chars: int = 6000,
        deadline: float = 60,
        wait_initial: float = 0.2,
        open_seconds: float = OPEN_SECONDS,
    ) -> None:
        with needs_extra("The remote embedder", "remote"):
            import httpx2
        _require(above_zero=False, retries=retries, wait_initial=wait_initial, open_seconds=open_seconds)
        _require(timeout=timeout, deadline=deadline, batch=batch, max_chars=max_chars, dimension=dimension)
        self._url, self._address = _endpoint(url)
        self._name, self._dimension = model, dimension
        self._timeout, self._deadline = timeout, deadline
        self._retries, self._wait_initial = retries, wait_initial
        self._batch, self._max_chars = batch, max_chars
        self._secret, self._lock = _sendable(api_key), threading.Lock()
        self._circuit = CircuitBreaker(seconds=open_seconds)
        headers = {"Authorization": f"Bearer {self._secret}"} if self._secret else {}
        # A proxy from the environment cannot reach services on this machine.
        self._client = httpx2.Client(headers=headers, follow_redirects=False, mounts=dict.fromkeys(_LOCAL))

    def __repr__(self) -> str:
        return f"RemoteEmbedder({self._address!r}, model={self._name!r})"

    @cached_property
    def model(self) -> Model:
        """The model, identified by its name and dimension only: a service may change the weights without notice.

        The dimension is learnt from one request, unless it was given.
        """
        dimension = self._dimension or self.embed([_PROBE]).shape[1]
        fingerprint = hashlib.sha256(f"remote\0{self._name}\0{dimension}".encode()).hexdigest()
        return Model(name=self._name, revision="", dimension=dimension, fingerprint=fingerprint)

    def embed(self, texts: Sequence[str]) -> Matrix:
        until = time.monotonic() + self._deadline
        batches = [texts[start : start + self._batch] for start in range(0, len(texts), self._batch)]
        if not batches:
            return np.zeros((0, self._dimension or 0), dtype=np.float32)
        return np.concatenate([self._vectors(self._request(batch, until), len(batch)) for batch in batches])

    def split(self, text: str) -> list[str]:
        """Return the text in parts of at most `max_chars` characters: the service's tokenizer is not accessible."""
        return split_text(text, lambda part: len(part) <= self._max_chars)

    def close(self) -> None:
        self._client.close()

    @property
    def outage(self) -> str | None:
        return self._circuit.failure

    def _request(self, texts: Sequence[str], until: float) -> bytes:
        with self._circuit.call() as is_probe:
            last = 1 if is_probe else self._retries + 1
            for number in range(1, last + 1):
                try:
                    body = self._post(texts, until)
                except _Transient as error:
                    wait = self._wait(number, error)
                    final = number == last or time.monotonic() + wait >= until
                    if final or error.timed_out:  # other calls do not wait for a service that hangs
                        self._circuit.trip(str(error))
                    if not final:
                        time.sleep(wait)
                        continue
                    raise Unavailable(f"{error} Tried {number} time{'s' if number > 1 else ''}.") from error
                except Refused as error:
                    if len(texts) == 1 and not self._accepts_others(texts[0], until):
                        raise Unavailable(str(error)) from error
                    raise
                return body
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _accepts_others(self, refused: str, until: float) -> bool:
        """Whether the service accepts any text; if not, it is not about the one that it refused."""
        if refused == _PROBE:
            return False
        try:
            self._post([_PROBE], until)
        except Refused:
            return False
        return True

    def _wait(self, number: int, error: _Transient) -> float:
        """Seconds before the next attempt: as long as the service named, or exponential with jitter."""
        if error.wait is not None:
            return error.wait
        jitter = random.uniform(0, self._wait_initial)  # noqa: S311 - it spreads retries and hides nothing
        return min(self._wait_initial * float(1 << (number - 1)) + jitter, _MAX_WAIT)

    def _post(self, texts: Sequence[str], until: float) -> bytes:
        import httpx2

        now = time.monotonic()
        if now >= until:
            self._fail(
                f"did not finish within the deadline of {self._deadline:g} s", "Raise deadline or send fewer texts."
            )
        if self._client.is_closed:
            self._fail("cannot be used, because the embedder was closed", "Open a new one.")
        timeout = min(self._timeout, until - now)
        request = {"model": self._name, "input": [_without_lone_surrogates(text) for text in texts]}
        try:
            with self._client.stream("POST", self._url, json=request, timeout=timeout) as response:
                body = _read(response, until=now + timeout)
        except httpx2.TimeoutException as error:
            what = f"{self._service} did not answer within {timeout:.3g} s."
            raise _Transient(f"{what} Check that it is not overloaded, or raise timeout.", timed_out=True) from error
        except httpx2.NetworkError as error:
            what = f"{self._service} could not be reached: {self._clean(str(error) or type(error).__name__)}."
            raise _Transient(f"{what} Check that it runs there.") from error
        except (httpx2.RemoteProtocolError, httpx2.ProxyError) as error:
            # The messages of these contain what was received.
            what = f"{self._service} could not be reached: {type(error).__name__}."
            raise _Transient(f"{what} Check that it runs there.") from None
        except httpx2.RequestError as error:
            self._fail(f"could not be requested: {type(error).__name__}", "Check the address.")
        self._check_status(response, body)
        return body

    def _check_status(self, response: httpx2.Response, body: bytes) -> None:
        status = response.status_code
        if status < 500 and status != 429:
            self._circuit.reset()
        if 200 <= status < 300:
            return
        if 300 <= status < 400:
            self._fail(f"answered {status}, a redirect", "Use the address to which it redirects.")
        answer = f"{self._service} answered {status} with {len(body):,} bytes"
        if status in _REFUSALS:
            raise Refused(f"{answer}. {_ADVICE.get(status, 'Check the model and what texts it accepts.')}")
        if status != 429 and status < 500:
            raise Unavailable(f"{answer}. {_ADVICE.get(status, 'Check the address and the name of the model.')}")
        wait = _seconds(response.headers.get("Retry-After"))
        retry = "" if wait is None else f" (retry after {wait:g} s)"
        advice = _ADVICE.get(status, "See the log of the service, or try again later.")
        raise _Transient(f"{answer}{retry}. {advice}", wait=wait)

    def _vectors(self, body: bytes, count: int) -> Matrix:
        """Check a response and return its vectors in the order of the request, normalised."""
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            self._reject(f"it is not JSON ({len(body):,} bytes)")
        items = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            self._reject(f"it has no list 'data' of objects ({len(body):,} bytes)")
        if len(items) != count:
            self._reject(f"it has {len(items)} embeddings for {count} texts")
        by_index = {item.get("index"): item for item in items if type(item.get("index")) is int}
        if set(by_index) != set(range(count)):
            self._reject(f"the fields 'index' are not the numbers 0 to {count - 1}, once each")
        rows = [self._unit(by_index[index].get("embedding"), index) for index in range(count)]
        self._learn({len(row) for row in rows})
        return np.stack(rows)

    def _unit(self, numbers: object, index: int) -> Matrix:
        try:
            row = np.asarray(numbers if isinstance(numbers, list) else None, dtype=np.float64)
        except (ValueError, TypeError, OverflowError):
            row = np.empty(0)
        if row.ndim != 1 or row.size == 0:
            self._reject(f"the field 'embedding' of text {index} is not a list of numbers")
        largest = float(np.abs(row).max())
        if not np.isfinite(largest):
            self._reject(f"the vector of text {index} has numbers that are not finite")
        if largest == 0:
            self._reject(f"the vector of text {index} is zero")
        row = row / largest  # otherwise squares of very large or small numbers overflow or underflow
        return (row / np.linalg.norm(row)).astype(np.float32)

    def _learn(self, widths: set[int]) -> None:
        with self._lock:
            expected = min(widths) if self._dimension is None else self._dimension
            wrong = widths - {expected}
            if wrong:
                self._reject(f"a vector has {min(wrong)} numbers where {expected} were expected")
            self._dimension = expected

    def _reject(self, what: str) -> NoReturn:
        self._fail(f"returned an answer that cannot be used: {what}", "Check the address, the model and its dimension.")

    def _fail(self, what: str, advice: str) -> NoReturn:
        raise Unavailable(f"{self._service} {what}. {advice}")

    @property
    def _service(self) -> str:
        return f"The embedding service at {self._address} (model {self._name!r})"

    def _clean(self, text: str) -> str:
        """A message of the operating system on one line, without the API key, cut to 200 characters."""
        if self._secret:
            text = text.replace(self._secret, "***")
        words = "".join(char if char.isprintable() else " " for char in text).split()
        return " ".join(words)[:200].rstrip(".")


def _require(*, above_zero: bool = True, **options: float | None) -> None:
    for name, value in options.items():
        if value is not None and (value < 0 or (above_zero and value == 0)):
            raise Invalid(
                f"The remote embedder's {name} must {'be above' if above_zero else 'not be below'} 0, not {value}."
            )


def _endpoint(url: str) -> tuple[str, str]:
    """Return the full address of the API, and the same without its query string for messages."""
    import httpx2

    try:
        parsed = httpx2.URL(url.strip())
    except httpx2.InvalidURL as error:
        raise Invalid(f"The address of the embedding service is not valid: {error}") from error
    if parsed.userinfo:
        raise Invalid("The address of the embedding service contains a user name or password: use api_key instead.")
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise Invalid(f"The address of an embedding service starts with http:// or https:// and a host, not {url!r}.")
    path = parsed.path.rstrip("/")
    if not path.endswith("/embeddings"):
        path += "/embeddings" if re.search(r"/v\d\w*$", path) else "/v1/embeddings"
    parsed = parsed.copy_with(path=path, fragment=None)
    return str(parsed), str(parsed.copy_with(query=None))


def _sendable(api_key: str | None) -> str:
    secret = (api_key or "").strip()
    # The HTTP library would reject it too, with a message that contains the key.
    if not secret.isascii() or not secret.isprintable():
        raise Invalid("The API key of the embedding service has characters that cannot be sent in a header.")
    return secret


def _read(response: httpx2.Response, *, until: float) -> bytes:
    """Read the whole body within a time limit: the client's own time-out restarts with every chunk."""
    import httpx2

    chunks = []
    for chunk in response.iter_bytes():
        chunks.append(chunk)
        if time.monotonic() > until:
            raise httpx2.ReadTimeout("The response took too long.", request=response.request)
    return b"".join(chunks)


def _seconds(value: str | None) -> float | None:
    return float(value) if value and re.fullmatch(r"\d+(\.\d+)?", value.strip()) else None


def _without_lone_surrogates(text: str) -> str:
    """Replace halves of surrogate pairs, which UTF-8 cannot encode, with the replacement character."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
