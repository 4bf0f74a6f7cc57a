"""Any service that speaks OpenAI's `/v1/embeddings`: OpenAI, Ollama, vLLM, TEI, LM Studio.

Every failure is `Unavailable`, so that a recall can go on without vectors. Failures that may pass (no connection, no
answer in time, 429, 5xx) are tried again with growing, jittered pauses; others are not.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from retentive.errors import Invalid, MissingExtra, Unavailable
from retentive.inference.embedders import Matrix
from retentive.models import Model
from retentive.text.splitting import split_text

if TYPE_CHECKING:
    import httpx2

_LONGEST_PAUSE = 5.0
_LOCAL = ("all://localhost", "all://127.0.0.1", "all://[::1]")
_WHAT_TO_DO = {
    400: "Check the model's name, or lower max_chars if the text is too long for it.",
    401: "Check the API key.",
    403: "Check the API key and what it may use.",
    404: "Check the address and that the service has this model.",
    413: "Lower batch or max_chars.",
    422: "Check the model's name, or lower batch or max_chars.",
    429: "Wait, or ask the service for a higher limit.",
}


class _MayPass(Unavailable):
    """A failure worth another try, after the pause that the service asked for, if it did."""

    def __init__(self, message: str, *, pause: float | None = None) -> None:
        super().__init__(message)
        self.pause = pause


class RemoteEmbedder:
    """The embeddings of a service, in batches.

    `timeout` is for one request, `deadline` for one call of `embed` with all its batches, tries and pauses, both in
    seconds. `url` is the service's base, its `/v1`, or the full address. Redirects are not followed: they could carry
    the API key elsewhere. Whether a text's vector depends on its batch is up to the service.
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
    ) -> None:
        try:
            import httpx2
            import stamina  # noqa: F401 - better to hear that it is missing now than at the first failure
        except ImportError as error:
            raise MissingExtra("The remote embedder", "remote") from error
        _require(above_zero=False, retries=retries, wait_initial=wait_initial)
        _require(timeout=timeout, deadline=deadline, batch=batch, max_chars=max_chars, dimension=dimension)
        self._url, self._address = _endpoint(url)
        self._name, self._dimension = model, dimension
        self._timeout, self._deadline = timeout, deadline
        self._retries, self._wait_initial = retries, wait_initial
        self._batch, self._max_chars = batch, max_chars
        self._secret, self._lock = _sendable(api_key), threading.Lock()
        headers = {"Authorization": f"Bearer {self._secret}"} if self._secret else {}
        # A proxy from the environment is for the world outside: it cannot reach this machine's own services.
        self._client = httpx2.Client(headers=headers, follow_redirects=False, mounts=dict.fromkeys(_LOCAL))

    def __repr__(self) -> str:
        return f"RemoteEmbedder({self._address!r}, model={self._name!r})"

    @property
    def model(self) -> Model:
        """Whose vectors these are, as far as can be seen from here.

        The fingerprint is of the name and the dimension only. A service can change the weights behind a name, and
        nothing in its answers tells. The dimension is learnt from one request, unless it was given.
        """
        dimension = self._dimension or self.embed(["dimension"]).shape[1]
        fingerprint = hashlib.sha256(f"remote\0{self._name}\0{dimension}".encode()).hexdigest()
        return Model(name=self._name, revision="", dimension=dimension, fingerprint=fingerprint)

    def embed(self, texts: Sequence[str]) -> Matrix:
        """One unit vector a text, in order."""
        until = time.monotonic() + self._deadline
        batches = [texts[start : start + self._batch] for start in range(0, len(texts), self._batch)]
        if not batches:
            return np.zeros((0, self._dimension or 0), dtype=np.float32)
        return np.concatenate([self._vectors(self._ask(batch, until), len(batch)) for batch in batches])

    def split(self, text: str) -> list[str]:
        """The text in parts of at most `max_chars` characters, because the service's tokenizer cannot be asked."""
        return split_text(text, lambda part: len(part) <= self._max_chars)

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def _ask(self, texts: Sequence[str], until: float) -> bytes:
        import stamina

        tries, pause = 0, 0.0
        attempts = stamina.retry_context(
            on=lambda error: _worth_another(error, usual=pause, left=until - time.monotonic()),
            attempts=self._retries + 1,
            timeout=None,  # the deadline is for all batches together, so it is kept here
            wait_initial=self._wait_initial,
            wait_max=_LONGEST_PAUSE,
            wait_jitter=self._wait_initial,
        )
        try:
            for attempt in attempts:
                tries, pause = attempt.num, attempt.next_wait + self._wait_initial
                with attempt:
                    return self._post(texts, until)
        except _MayPass as error:
            raise Unavailable(f"{error} Tried {tries} time{'s' if tries > 1 else ''}.") from error
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _post(self, texts: Sequence[str], until: float) -> bytes:
        import httpx2

        now = time.monotonic()
        if now >= until:
            self._fail(
                f"was not done within the deadline of {self._deadline:g} s", "Raise deadline or send fewer texts."
            )
        if self._client.is_closed:
            self._fail("can no longer be asked, because the embedder was closed", "Open a new one.")
        patience = min(self._timeout, until - now)
        query = {"model": self._name, "input": [_without_lone_surrogates(text) for text in texts]}
        try:
            with self._client.stream("POST", self._url, json=query, timeout=patience) as response:
                body = _read(response, until=now + patience)
        except httpx2.TimeoutException as error:
            what = f"{self._service} did not answer within {patience:.3g} s."
            raise _MayPass(f"{what} Check that it is not overloaded, or raise timeout.") from error
        except (httpx2.NetworkError, httpx2.RemoteProtocolError, httpx2.ProxyError) as error:
            what = f"{self._service} could not be reached: {self._clean(str(error) or type(error).__name__)}."
            raise _MayPass(f"{what} Check that it runs there.") from error
        except httpx2.RequestError as error:
            self._fail(f"could not be asked: {self._clean(str(error))}", "Check the address.")
        self._check_status(response, body)
        return body

    def _check_status(self, response: httpx2.Response, body: bytes) -> None:
        status = response.status_code
        if 200 <= status < 300:
            return
        if 300 <= status < 400:
            target = self._clean(response.headers.get("Location", "an unknown address"))
            self._fail(f"answered {status}, a redirect to {target}", "Give the address it leads to.")
        said = f"answered {status}: {self._clean(_message(body)) or 'no reason given'}"
        if status != 429 and status < 500:
            self._fail(said, _WHAT_TO_DO.get(status, "Check the address and the model's name."))
        pause = _seconds(response.headers.get("Retry-After"))
        asks = "" if pause is None else f" (it asks to wait {pause:g} s)"
        advice = _WHAT_TO_DO.get(status, "Look into the service's own log, or try again later.")
        raise _MayPass(f"{self._service} {said}{asks}. {advice}", pause=pause)

    def _vectors(self, body: bytes, count: int) -> Matrix:
        """The rows of an answer in the order of the query, checked and of length 1."""
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            self._reject(f"it is not JSON: {self._clean(_message(body)) or 'it is empty'}")
        items = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            self._reject(f"it has no list 'data' of objects: {self._clean(_message(body))}")
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
        row = row / largest  # else the squares of very large or small numbers leave the range of a float
        return (row / np.linalg.norm(row)).astype(np.float32)

    def _learn(self, widths: set[int]) -> None:
        with self._lock:
            expected = min(widths) if self._dimension is None else self._dimension
            wrong = widths - {expected}
            if wrong:
                self._reject(f"a vector has {min(wrong)} numbers where {expected} were expected")
            self._dimension = expected

    def _reject(self, what: str) -> NoReturn:
        self._fail(f"gave an answer that cannot be used: {what}", "Check the address, the model and its dimension.")

    def _fail(self, what: str, advice: str) -> NoReturn:
        raise Unavailable(f"{self._service} {what}. {advice}")

    @property
    def _service(self) -> str:
        return f"The embedding service at {self._address} (model {self._name!r})"

    def _clean(self, text: str) -> str:
        """What somebody else said, on one line, without the API key, cut to 200 characters."""
        if self._secret:
            text = text.replace(self._secret, "***")
        words = "".join(letter if letter.isprintable() else " " for letter in text).split()
        return " ".join(words)[:200].rstrip(".")


def _require(*, above_zero: bool = True, **options: float | None) -> None:
    for name, value in options.items():
        if value is not None and (value < 0 or (above_zero and value == 0)):
            raise Invalid(
                f"The remote embedder's {name} must {'be above' if above_zero else 'not be below'} 0, not {value}."
            )


def _worth_another(error: Exception, *, usual: float, left: float) -> bool | float:
    """Whether to try again: never past the deadline, and after the service's own pause if it named one."""
    if not isinstance(error, _MayPass):
        return False
    if error.pause is None:
        return usual < left
    return error.pause if error.pause < left else False


def _endpoint(url: str) -> tuple[str, str]:
    """The full address of the embeddings, and the same without its query for people to read."""
    import httpx2

    try:
        parsed = httpx2.URL(url.strip())
    except httpx2.InvalidURL as error:
        raise Invalid(f"The address of the embedding service is not valid: {error}") from error
    if parsed.userinfo:
        raise Invalid("The address of the embedding service holds a user name or password: give it an api_key instead.")
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise Invalid(f"The address of an embedding service begins with http:// or https:// and a host, not {url!r}.")
    path = parsed.path.rstrip("/")
    if not path.endswith("/embeddings"):
        path += "/embeddings" if re.search(r"/v\d\w*$", path) else "/v1/embeddings"
    parsed = parsed.copy_with(path=path, fragment=None)
    return str(parsed), str(parsed.copy_with(query=None))


def _sendable(api_key: str | None) -> str:
    secret = (api_key or "").strip()
    # The HTTP library would refuse it too, with a message that quotes the key.
    if not secret.isascii() or not secret.isprintable():
        raise Invalid("The API key of the embedding service has characters that cannot be sent in a header.")
    return secret


def _read(response: httpx2.Response, *, until: float) -> bytes:
    """The whole body, unless it takes too long: the client's own time-out starts again with every piece."""
    import httpx2

    pieces = []
    for piece in response.iter_bytes():
        pieces.append(piece)
        if time.monotonic() > until:
            raise httpx2.ReadTimeout("The answer came too slowly.", request=response.request)
    return b"".join(pieces)


def _message(body: bytes) -> str:
    """The reason in an error's body, in any of the shapes that these services use, or else the body."""
    try:
        said: Any = json.loads(body)
    except (ValueError, RecursionError):
        return body[:2000].decode("utf-8", "replace")
    while isinstance(said, dict) and (inner := said.get("error") or said.get("message") or said.get("detail")):
        said = inner
    return said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)


def _seconds(value: str | None) -> float | None:
    return float(value) if value and re.fullmatch(r"\d+(\.\d+)?", value.strip()) else None


def _without_lone_surrogates(text: str) -> str:
    """The text as it can be written in UTF-8: half a surrogate pair becomes the replacement character."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
