"""OAuth on /mcp: the client of the MCP SDK against a real server on loopback."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
import uvicorn
from mcp import Client
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from retentive import Engine
from retentive.errors import Invalid
from retentive.server.http.app import create_app
from retentive.server.oauth import OAuth
from retentive.settings import ServerSettings, Settings
from retentive.transfer.copying.copier import copied_entries

CALLBACK = "http://127.0.0.1:45678/callback"
VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
"""Of RFC 7636, appendix B."""


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine.open("memory://", embedder="none") as opened:
        yield opened


@contextmanager
def serving(engine: Engine) -> Iterator[str]:
    """A real server at its public address, which is known before it starts."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        address = f"http://127.0.0.1:{bound.getsockname()[1]}"
        app = create_app(engine, Settings(store="memory://", server=ServerSettings(public_url=address)))
        running = uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none", lifespan="on"))
        thread = threading.Thread(target=running.run, kwargs={"sockets": [bound]})
        thread.start()
        try:
            yield address
        finally:
            running.should_exit = True
            thread.join(timeout=60)
    assert not thread.is_alive()


def post(url: str, **sent: Any) -> httpx2.Response:
    return httpx2.post(url, timeout=90, **sent)


class Storage:
    """What a client keeps."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Person:
    """Somebody with a browser and an API token."""

    def __init__(self, token: str, answer: str = "approve") -> None:
        self._form = {"token": token, "answer": answer}
        self.page = ""
        self.target = ""

    async def open(self, url: str) -> None:
        async with httpx2.AsyncClient(timeout=90) as browser:
            consent = (await browser.get(url)).headers["location"]
            self.page = (await browser.get(consent)).text
            hidden = re.search(r'name="request" value="([^"]+)"', self.page)
            assert hidden
            answered = await browser.post(consent, data={"request": hidden[1], **self._form})
            self.target = answered.headers.get("location", "")
            self.page = self.page if self.target else answered.text

    async def come_back(self) -> AuthorizationCodeResult:
        query = {name: values[0] for name, values in parse_qs(urlsplit(self.target).query).items()}
        return AuthorizationCodeResult(code=query.get("code", ""), state=query.get("state"), iss=query.get("iss"))


def talk(address: str, person: Person, say: Callable[[Client], Awaitable[Any]], storage: Storage) -> Any:
    """Connect as a client that knows only the address of the server."""
    metadata = OAuthClientMetadata(client_name="Desk <b>client</b>", redirect_uris=[AnyUrl(CALLBACK)])

    async def conversation() -> Any:
        auth = OAuthClientProvider(f"{address}/mcp", metadata, storage, person.open, person.come_back)
        async with (
            httpx2.AsyncClient(auth=auth, timeout=90) as http,
            Client(streamable_http_client(f"{address}/mcp", http_client=http)) as client,
        ):
            return await say(client)

    return asyncio.run(conversation())


async def tool_names(client: Client) -> set[str]:
    return {tool.name for tool in (await client.list_tools()).tools}


async def remember(client: Client) -> Any:
    return await client.call_tool("memory_remember", {"text": "The key is under the pot"})


def test_a_client_of_the_sdk_is_approved_with_a_token_and_acts_in_its_profile(engine: Engine) -> None:
    token, secret = engine.tokens.create(profile="ana", access="admin")
    with serving(engine) as address:
        person, storage = Person(secret), Storage()
        assert not talk(address, person, remember, storage).is_error
        assert [memory.profile for memory in engine.list(engine.scope(profile="ana")).memories] == ["ana"]
        assert "Desk &lt;b&gt;client&lt;/b&gt;" in person.page
        assert "http://127.0.0.1:45678" in person.page
        assert storage.tokens is not None
        assert storage.tokens.access_token.startswith("rto_")
        assert secret not in storage.tokens.model_dump_json()

        # An access token of OAuth is for /mcp only, and ends with the API token behind it.
        bearer = {"Authorization": f"Bearer {storage.tokens.access_token}"}
        assert httpx2.get(f"{address}/v1/memories", headers=bearer, timeout=90).status_code == 401
        assert post(f"{address}/mcp", headers=bearer, json={}).status_code != 401
        engine.tokens.revoke(token.id)
        refused = post(f"{address}/mcp", headers=bearer, json={})
        assert refused.status_code == 401
        assert "invalid_token" in refused.headers["www-authenticate"]


def test_a_client_gets_no_more_than_it_asks_for_and_no_more_than_the_token_has(engine: Engine) -> None:
    reading, writing = (engine.tokens.create(access=access)[1] for access in ("read", "write"))
    with serving(engine) as address:
        assert "memory_remember" not in talk(address, Person(reading), tool_names, Storage())
        assert "memory_remember" in talk(address, Person(writing), tool_names, Storage())
        # The SDK's client asks for all scopes that the service offers; another one may ask for less.
        client, person = _registered(address), Person(writing)
        asyncio.run(person.open(_authorize(address, client, code_challenge=CHALLENGE, scope="read")))
        granted = post(f"{address}/token", data={**_form(client, person), "code_verifier": VERIFIER}).json()
        assert granted["scope"] == "read"


def test_a_refresh_token_works_once_and_a_revoked_one_never(engine: Engine) -> None:
    secret = engine.tokens.create(access="write")[1]
    with serving(engine) as address:
        storage = Storage()
        talk(address, Person(secret), tool_names, storage)
        first, client = storage.tokens, storage.client
        assert first is not None
        assert client is not None
        who = {"client_id": client.client_id, "client_secret": client.client_secret}

        def refreshed(token: str | None) -> httpx2.Response:
            form = {"grant_type": "refresh_token", "refresh_token": token, **who}
            return post(f"{address}/token", data=form)

        second = refreshed(first.refresh_token)
        assert second.status_code == 200
        assert refreshed(first.refresh_token).json()["error"] == "invalid_grant"
        new = second.json()
        assert post(f"{address}/revoke", data={"token": new["access_token"], **who}).status_code == 200
        assert refreshed(new["refresh_token"]).json()["error"] == "invalid_grant"
        again = post(f"{address}/mcp", headers={"Authorization": f"Bearer {new['access_token']}"}, json={})
        assert again.status_code == 401


def test_a_code_needs_its_verifier_and_is_used_once(engine: Engine) -> None:
    secret = engine.tokens.create(access="write")[1]
    with serving(engine) as address:
        client = _registered(address)
        person = Person(secret)
        asyncio.run(person.open(_authorize(address, client, code_challenge=CHALLENGE)))

        def exchanged(**more: str) -> httpx2.Response:
            return post(f"{address}/token", data={**_form(client, person), **more})

        assert exchanged(code_verifier="x" * 43).json()["error"] == "invalid_grant"
        assert (
            exchanged(code_verifier=VERIFIER, redirect_uri="http://127.0.0.1:1/").json()["error"] == "invalid_request"
        )
        assert exchanged(code_verifier=VERIFIER).status_code == 200
        assert exchanged(code_verifier=VERIFIER).json()["error"] == "invalid_grant"


def test_a_wrong_token_or_a_refusal_gives_the_client_nothing(engine: Engine) -> None:
    secret = engine.tokens.create(access="write")[1]
    with serving(engine) as address:
        wrong = Person("rtv_wrong")
        with pytest.raises(BaseException) as caught:
            talk(address, wrong, tool_names, Storage())
        assert _leaf(caught.value, OAuthFlowError)
        assert "unknown or was revoked" in wrong.page
        refusing = Person(secret, answer="refuse")
        with pytest.raises(BaseException) as caught:
            talk(address, refusing, tool_names, Storage())
        assert _leaf(caught.value, OAuthFlowError)
        assert "error=access_denied" in refusing.target


def test_the_consent_page_cannot_be_framed_and_a_request_is_answered_once(engine: Engine) -> None:
    secret = engine.tokens.create(access="write")[1]
    with serving(engine) as address, httpx2.Client(timeout=90) as browser:
        consent = browser.get(_authorize(address, _registered(address))).headers["location"]
        page = browser.get(consent)
        policy = page.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy
        assert "form-action 'self' http://127.0.0.1:45678" in policy
        form = {"token": secret, "answer": "approve"}
        assert browser.post(consent, data=form).status_code == 302
        assert browser.post(consent, data=form).status_code == 404
        assert browser.get(f"{address}/oauth/consent?request=x").status_code == 404


def test_metadata_tells_a_client_where_to_go_and_another_resource_is_refused(engine: Engine) -> None:
    engine.tokens.create()
    with serving(engine) as address, httpx2.Client(timeout=90) as client:
        refused = client.post(f"{address}/mcp", json={})
        assert refused.status_code == 401
        where = re.search(r'resource_metadata="([^"]+)"', refused.headers["www-authenticate"])
        assert where
        resource = client.get(where[1]).json()
        assert (resource["resource"], resource["scopes_supported"]) == (f"{address}/mcp", ["read", "write"])
        server = client.get(f"{resource['authorization_servers'][0]}/.well-known/oauth-authorization-server").json()
        assert server["code_challenge_methods_supported"] == ["S256"]
        assert server["registration_endpoint"] == f"{address}/register"
        asked = client.get(_authorize(address, _registered(address), resource="https://elsewhere.example/mcp"))
        assert "error=invalid_target" in asked.headers["location"]
        wrong = client.post(f"{address}/mcp", json={}, headers={"Authorization": "Bearer rtv_x"})
        assert 'error="invalid_token", resource_metadata=' in wrong.headers["www-authenticate"]


def test_a_grant_expires_and_a_client_that_nobody_approved_is_removed(engine: Engine) -> None:
    now = [1000.0]
    oauth = OAuth(engine, "https://memory.example.org", clock=lambda: now[0])
    client = OAuthClientInformationFull(client_id="c1", redirect_uris=[AnyUrl(CALLBACK)])
    asyncio.run(oauth.register_client(client))
    assert asyncio.run(oauth.get_client("c1")) is not None
    now[0] += 25 * 3600
    assert asyncio.run(oauth.get_client("c1")) is None
    asyncio.run(oauth.register_client(client.model_copy(update={"client_id": "c2"})))
    assert len(engine.store.list_values("oauth/client/")) == 1


def _refusal(address: str, **sent: Any) -> tuple[int, str]:
    answer = post(f"{address}/register", json={"redirect_uris": [CALLBACK], "client_name": "raw", **sent})
    return answer.status_code, answer.json().get("error", "")


def test_what_anybody_may_register_is_bounded(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retentive.server.oauth.provider.MAX_WAITING", 3)
    engine.tokens.create()
    with serving(engine) as address:
        assert _refusal(address, contacts=["x" * 8000])[0] == 413
        assert _refusal(address, client_name="x" * 201) == (400, "invalid_client_metadata")
        assert _refusal(address, redirect_uris=[f"{CALLBACK}/{at}" for at in range(11)]) == (
            400,
            "invalid_redirect_uri",
        )
        first, *clients = [_registered(address) for _ in range(4)]
        gone, waiting = (httpx2.get(_authorize(address, one), timeout=90) for one in (first, clients[0]))
        assert (gone.status_code, waiting.status_code) == (400, 302)
        long = httpx2.get(_authorize(address, clients[0], state="x" * 2001), timeout=90)
        assert "error=invalid_request" in long.headers["location"]
        statuses = [_refusal(address)[0] for _ in range(20)]
        assert statuses[0] == 201
        assert statuses[-1] == 429


@pytest.mark.parametrize(
    ("uri", "status"),
    [
        ("https://app.example/back", 201),
        ("http://localhost:3000/back", 201),
        ("http://[::1]:3000/back", 201),
        ("cursor://anysphere.cursor-mcp/back", 201),
        ("http://app.example/back", 400),
        ("javascript:alert(1)", 400),
        ("data:text/html,x", 400),
        ("https://memory.example.org@evil.example/back", 400),
    ],
)
def test_a_code_is_sent_to_https_this_machine_or_an_app_only(engine: Engine, uri: str, status: int) -> None:
    engine.tokens.create()
    with serving(engine) as address:
        assert _refusal(address, redirect_uris=[uri])[0] == status


def test_a_name_cannot_hide_or_turn_the_text_of_the_page(engine: Engine) -> None:
    engine.tokens.create()
    sent = {"client_name": "Desk\u202e\u200b\nfdp", "redirect_uris": [CALLBACK]}
    with serving(engine) as address, httpx2.Client(timeout=90) as browser:
        client = browser.post(f"{address}/register", json=sent).json()
        page = browser.get(browser.get(_authorize(address, client)).headers["location"]).text
    assert "“Desk���fdp”" in page


@pytest.mark.parametrize("replayed", ["code", "refresh_token"])
def test_a_code_or_a_refresh_token_that_is_used_twice_ends_all_tokens_of_its_consent(
    engine: Engine, replayed: str
) -> None:
    _, secret = engine.tokens.create(access="write")
    with serving(engine) as address:
        client, person = _registered(address), Person(secret)
        asyncio.run(person.open(_authorize(address, client, code_challenge=CHALLENGE)))
        first = _form(client, person) | {"code_verifier": VERIFIER}
        tokens = post(f"{address}/token", data=first).json()
        who = {"client_id": client["client_id"], "client_secret": client["client_secret"]}
        again = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"], **who}
        newer = post(f"{address}/token", data=again).json()

        def status() -> int:
            bearer = {"Authorization": f"Bearer {newer['access_token']}", "Accept": "application/json"}
            return post(f"{address}/mcp", json={}, headers=bearer).status_code

        before = status()
        refused = post(f"{address}/token", data=first if replayed == "code" else again)

        assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant")
        assert before != 401
        assert status() == 401
        renewed = post(f"{address}/token", data=again | {"refresh_token": newer["refresh_token"]})
        assert renewed.status_code == 400


def test_a_public_address_must_be_https_unless_it_is_this_machine(engine: Engine) -> None:
    engine.tokens.create()
    settings = Settings(store="memory://", server=ServerSettings(public_url="http://memory.example.org"))
    with pytest.raises(Invalid, match=r"server\.public_url: Issuer URL must be HTTPS"):
        create_app(engine, settings)


def _registered(address: str) -> dict[str, Any]:
    sent = {"client_name": "raw", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "client_secret_post"}
    answer: dict[str, Any] = post(f"{address}/register", json=sent).json()
    return answer


def _authorize(address: str, client: dict[str, Any], **more: str) -> str:
    query = {
        "client_id": client["client_id"], "response_type": "code", "code_challenge": "x" * 43,
        "code_challenge_method": "S256", "redirect_uri": CALLBACK, "state": "s", **more,
    }  # fmt: skip
    return str(httpx2.URL(f"{address}/authorize", params=query))


def _form(client: dict[str, Any], person: Person) -> dict[str, str]:
    """What a client sends to get its first tokens."""
    code = parse_qs(urlsplit(person.target).query)["code"][0]
    who = {"client_id": client["client_id"], "client_secret": client["client_secret"]}
    return {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, **who}


def _leaf(error: BaseException, kind: type[BaseException]) -> bool:
    """Whether an error is of this kind, or contains one."""
    if isinstance(error, BaseExceptionGroup):
        return any(_leaf(inner, kind) for inner in error.exceptions)
    return isinstance(error, kind)


def test_no_copy_of_a_store_has_the_grants_of_its_service(engine: Engine) -> None:
    oauth = OAuth(engine, "https://memory.example.org")
    client = OAuthClientInformationFull(client_id="c1", redirect_uris=[AnyUrl(CALLBACK)])
    asyncio.run(oauth.register_client(client))
    assert copied_entries(engine.store, tokens=True) == {}
