"""The page on which a person approves a client with an API token. It has no script and cannot be framed."""

from __future__ import annotations

from html import escape
from unicodedata import category
from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request as HttpRequest
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from retentive.engine import Engine
from retentive.server.oauth.bounds import bounded
from retentive.server.oauth.grants import Request
from retentive.server.oauth.provider import OAuth

PATH = "/oauth/consent"
_STYLE = "body{font:16px/1.5 system-ui;max-width:34em;margin:3em auto;padding:0 1em}input{width:100%;font:inherit}"
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Retentive: approve a client</title>
<meta name="viewport" content="width=device-width"><style>{style}</style>
<h1>Approve “{name}”?</h1>
<p>This client asks for <strong>{access}</strong> access to your memories. After your approval, the browser goes to
<strong>{target}</strong>. Anybody can register a client under any name: approve it only if you have just started to
connect it.</p>{problem}
<form method="post"><input type="hidden" name="request" value="{request}">
<p><label>An API token of this service (<code>retentive token create</code>). The client gets at most its access to its
profile, until you revoke it. <input name="token" type="password" autocomplete="off" autofocus></label></p>
<p><button name="answer" value="approve">Approve</button> <button name="answer" value="refuse">Refuse</button></p>
</form></html>"""


def consent_route(engine: Engine, oauth: OAuth) -> Route:
    """Return the route of the page."""

    async def consent(request: HttpRequest) -> Response:
        form = await request.form() if request.method == "POST" else {}
        secret = str(form.get("request") or request.query_params.get("request") or "")
        waiting = await run_in_threadpool(oauth.requests.get, secret)
        if waiting is None:
            return HTMLResponse(
                "<!doctype html><title>Retentive</title><p>This request has expired or was answered. Connect the "
                "client again.",
                404,
                _headers(None),
            )
        if request.method == "GET":
            return await _page(oauth, secret, waiting)
        token = None
        if form.get("answer") == "approve":
            token = await run_in_threadpool(engine.tokens.find, str(form.get("token") or "").strip())
            if token is None:
                return await _page(oauth, secret, waiting, problem="This token is unknown or was revoked.")
        if await run_in_threadpool(oauth.requests.take, secret) is None:
            return await _page(oauth, secret, waiting, problem="This request was answered already.")
        target = (
            await run_in_threadpool(oauth.refuse, waiting)
            if token is None
            else await run_in_threadpool(oauth.approve, waiting, token)
        )
        return RedirectResponse(target, 302, _headers(waiting))

    return bounded(Route(PATH, consent, methods=["GET", "POST"], include_in_schema=False))


async def _page(oauth: OAuth, secret: str, waiting: Request, *, problem: str = "") -> Response:
    client = await oauth.get_client(waiting.client_id)
    access = "write" if "write" in (waiting.params.get("scopes") or ["write"]) else "read"
    page = _PAGE.format(
        style=_STYLE,
        name=escape(_visible(str((client and client.client_name) or waiting.client_id)[:100])),
        access="read and write" if access == "write" else "read",
        target=escape(_origin(waiting)),
        problem=f'<p role="alert"><strong>{escape(problem)}</strong></p>' if problem else "",
        request=escape(secret),
    )
    return HTMLResponse(page, 403 if problem else 200, _headers(waiting))


def _origin(waiting: Request) -> str:
    """Return scheme, host and port of the address that the browser goes to."""
    parts = urlsplit(str(waiting.params.get("redirect_uri")))
    place = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{place}" if place else f"{parts.scheme}:"


def _visible(name: str) -> str:
    """Return a name without characters that are not shown, or that change the direction of the text after them."""
    return "".join(char if category(char)[0] not in "CZ" or char == " " else "�" for char in name)


def _headers(waiting: Request | None) -> dict[str, str]:
    # Browsers apply `form-action` to the redirect as well.
    target = f" {_origin(waiting)}" if waiting is not None else ""
    policy = f"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; form-action 'self'{target}"
    return {
        "Content-Security-Policy": policy,
        "X-Frame-Options": "DENY",
        "X-Content-Type-Options": "nosniff",
        # With "no-referrer", browsers send the form with `Origin: null`, which `RequestGuard` refuses.
        "Referrer-Policy": "same-origin",
        "Cache-Control": "no-store",
    }
