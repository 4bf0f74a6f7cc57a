"""The page on which a person approves a client of OAuth, in a browser."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from retentive.engine import Engine

PUBLIC = "https://memory.example.org"


@pytest.fixture
def callback(serve) -> str:
    """Return an address of another origin, to which the browser is sent with the code."""
    return f"{serve()}/docs"


def open_consent(page: Page, service: str, callback: str) -> None:
    """Register a client, and open the page for its request at the address of the service in this test."""
    sent = {"client_name": "Desk", "redirect_uris": [callback], "token_endpoint_auth_method": "none"}
    client = page.request.post(f"{service}/register", data=sent).json()
    query = {
        "client_id": client["client_id"], "response_type": "code", "code_challenge": "x" * 43,
        "code_challenge_method": "S256", "redirect_uri": callback, "state": "s",
    }  # fmt: skip
    answer = page.request.get(f"{service}/authorize", params=query, max_redirects=0)
    consent = answer.headers["location"]
    assert consent.startswith(f"{PUBLIC}/oauth/consent?")
    page.goto(consent.replace(PUBLIC, service))
    expect(page.get_by_role("heading", name="Approve “Desk”?")).to_be_visible()


def arrived(page: Page, callback: str) -> dict[str, list[str]]:
    """Return what the client is told, when the browser has arrived at its address."""
    page.wait_for_url(f"{callback}?**")
    return parse_qs(urlsplit(page.url).query)


def test_an_approval_sends_the_browser_to_the_client_with_a_code(page, serve, callback, engine: Engine):
    _, secret = engine.tokens.create(profile="ana", access="write")
    service = serve(public_url=PUBLIC)
    open_consent(page, service, callback)

    page.get_by_label("An API token of this service").fill(secret)
    page.get_by_role("button", name="Approve").click()

    told = arrived(page, callback)
    assert told["state"] == ["s"]
    assert told["code"]


def test_after_a_wrong_token_the_form_can_be_sent_again(page, serve, callback, engine: Engine, expected_errors):
    expected_errors.append("403")
    _, secret = engine.tokens.create(profile="ana", access="write")
    open_consent(page, serve(public_url=PUBLIC), callback)
    token = page.get_by_label("An API token of this service")

    token.fill("rtv_wrong")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("alert")).to_have_text("This token is unknown or was revoked.")
    token.fill(secret)
    page.get_by_role("button", name="Approve").click()

    assert arrived(page, callback)["code"]


def test_a_refusal_sends_the_browser_to_the_client_without_a_code(page, serve, callback):
    open_consent(page, serve(public_url=PUBLIC), callback)

    page.get_by_role("button", name="Refuse").click()

    told = arrived(page, callback)
    assert told["error"] == ["access_denied"]
    assert "code" not in told
