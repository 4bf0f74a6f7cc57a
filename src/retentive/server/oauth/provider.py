"""`OAuth`: the provider behind the routes of the MCP SDK, with everything in the store."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Any

from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    AuthorizeError,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    RegistrationError,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.routes import build_resource_metadata_url, create_auth_routes, create_protected_resource_routes
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyUrl, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.routing import Route

from retentive.engine import Engine
from retentive.errors import Invalid
from retentive.pipeline.access_tokens import ACCESSES, Access, Token
from retentive.server.oauth.bounds import bounded
from retentive.server.oauth.grants import (
    ACCESS_SECONDS,
    CLIENT_SECONDS,
    CODE_SECONDS,
    MARK,
    MAX_WAITING,
    REFRESH_SECONDS,
    REQUEST_SECONDS,
    Client,
    Code,
    Grant,
    Request,
    Table,
)

SCOPES = ["read", "write"]
"""What a client can ask for. No client gets admin access."""

MAX_CLIENT_NAME = 200
MAX_REDIRECTS = 10
MAX_STATE = 2000
MAX_CHALLENGE = 128
"""Characters of the hash of a code verifier (RFC 7636)."""

_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_NOT_OF_AN_APP = {
    "about", "blob", "data", "file", "filesystem", "ftp", "intent", "javascript", "mailto", "sms", "tel", "vbscript",
    "view-source", "ws", "wss",
}  # fmt: skip
"""Schemes that a browser or the system answers itself."""


class OAuth(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """The authorization server of one service, at its public address."""

    def __init__(self, engine: Engine, public_url: str, clock: Callable[[], float] = time.time) -> None:
        self.public_url = public_url.rstrip("/")
        self.resource = f"{self.public_url}/mcp"
        self._engine = engine
        store = engine.store
        self.clients = Table(store, "client", Client, clock)
        self.requests = Table(store, "request", Request, clock)
        self.codes = Table(store, "code", Code, clock)
        self.access = Table(store, "access", Grant, clock)
        self.refresh = Table(store, "refresh", Grant, clock)
        self._clock = clock
        self._urls: Any = AuthSettings.model_validate(
            {"issuer_url": self.public_url, "resource_server_url": self.resource, "validate_token_resource": False}
        )

    def routes(self) -> list[Route]:
        """Return the routes of the SDK; `Invalid` if the public address is not allowed."""
        try:
            auth = create_auth_routes(
                self,
                self._urls.issuer_url,
                client_registration_options=ClientRegistrationOptions(
                    enabled=True, valid_scopes=SCOPES, default_scopes=SCOPES
                ),
                revocation_options=RevocationOptions(enabled=True),
            )
        except ValueError as error:
            raise Invalid(f"server.public_url: {error}") from None
        return [
            *map(bounded, auth),
            *create_protected_resource_routes(
                self._urls.resource_server_url, [self._urls.issuer_url], SCOPES, resource_name="Retentive"
            ),
        ]

    @property
    def challenge(self) -> str:
        """What a 401 tells a client: where the metadata of the protected resource is."""
        return f'resource_metadata="{build_resource_metadata_url(self._urls.resource_server_url)}"'

    def find(self, secret: str) -> Grant | None:
        """Return the grant of an access token; None if it has expired, or if the API token behind it was revoked."""
        grant = self.access.get(secret)
        return grant if grant is not None and self._token(grant.token_id) is not None else None

    def approve(self, request: Request, token: Token) -> str:
        """Approve a request with an API token, and return the address that the browser goes to."""
        params = AuthorizationParams.model_validate(request.params)
        asked: Access = "write" if "write" in (params.scopes or SCOPES) else "read"
        access = ACCESSES[min(ACCESSES.index(asked), ACCESSES.index(token.access))]
        code = Code(
            client_id=request.client_id,
            token_id=token.id,
            profile=token.profile or self._engine.settings.profile,
            access=access,
            scopes=SCOPES[: ACCESSES.index(access) + 1],
            resource=params.resource,
            code_challenge=params.code_challenge,
            redirect_uri=str(params.redirect_uri),
            explicit=params.redirect_uri_provided_explicitly,
            family=secrets.token_hex(8),
        )
        secret = self.codes.add(code, seconds=CODE_SECONDS, mark=f"{code.family}.")
        client = self.clients.get(request.client_id)
        if client is not None:
            self.clients.put(request.client_id, client, seconds=0)  # from now on it is kept
        uri = str(params.redirect_uri)
        return construct_redirect_uri(uri, code=secret, state=params.state, iss=self.public_url)

    def refuse(self, request: Request) -> str:
        """Refuse a request, and return the address that the browser goes to."""
        params = AuthorizationParams.model_validate(request.params)
        uri = str(params.redirect_uri)
        return construct_redirect_uri(uri, error="access_denied", state=params.state, iss=self.public_url)

    # The methods that the routes of the SDK call:

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        """Return a registered client."""
        found = await run_in_threadpool(self.clients.get, client_id)
        try:
            return None if found is None else OAuthClientInformationFull.model_validate(found.info)
        except ValidationError:
            return None

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        """Store a client."""
        uris = client_info.redirect_uris or []
        if len(client_info.client_name or "") > MAX_CLIENT_NAME:
            raise RegistrationError("invalid_client_metadata", f"client_name has over {MAX_CLIENT_NAME} characters")
        if len(uris) > MAX_REDIRECTS:
            raise RegistrationError("invalid_redirect_uri", f"a client has at most {MAX_REDIRECTS} redirect_uris")
        for uri in uris:
            if not _may_redirect(uri):
                raise RegistrationError(
                    "invalid_redirect_uri", "a redirect_uri is https, http on loopback, or a scheme of an app"
                )
        entry = Client(info=client_info.model_dump(mode="json"))
        id = str(client_info.client_id)
        await run_in_threadpool(self.clients.put, id, entry, seconds=CLIENT_SECONDS, most=MAX_WAITING)

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        """Return the address of the consent page."""
        if params.resource is not None and params.resource.rstrip("/") != self.resource:
            raise AuthorizeError("invalid_target", f"this service is {self.resource}")
        if len(params.state or "") > MAX_STATE or len(params.code_challenge) > MAX_CHALLENGE:
            raise AuthorizeError("invalid_request", f"state has at most {MAX_STATE:,} characters")
        entry = Request(client_id=str(client.client_id), params=params.model_dump(mode="json"))
        secret = await run_in_threadpool(self.requests.add, entry, seconds=REQUEST_SECONDS, most=MAX_WAITING)
        return f"{self.public_url}/oauth/consent?request={secret}"

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        """Return a code of this client."""
        code = await run_in_threadpool(self.codes.get, authorization_code)
        if code is None:
            await run_in_threadpool(self._revoke_replayed, client, authorization_code)
        if code is None or code.client_id != client.client_id:
            return None
        return AuthorizationCode(
            code=authorization_code,
            scopes=code.scopes,
            expires_at=code.expires,
            client_id=code.client_id,
            code_challenge=code.code_challenge,
            redirect_uri=AnyUrl(code.redirect_uri),
            redirect_uri_provided_explicitly=code.explicit,
            resource=code.resource,
            subject=code.profile,
        )

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        """Exchange a code, which works once, for tokens."""
        return await self._exchange(self.codes, authorization_code.code, client, authorization_code.scopes)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        """Return a refresh token of this client."""
        grant = await run_in_threadpool(self.refresh.get, refresh_token)
        if grant is None:
            await run_in_threadpool(self._revoke_replayed, client, refresh_token)
        if grant is None or grant.client_id != client.client_id:
            return None
        return RefreshToken(
            token=refresh_token, client_id=grant.client_id, scopes=grant.scopes, expires_at=int(grant.expires)
        )

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        """Exchange a refresh token, which works once, for new tokens."""
        return await self._exchange(self.refresh, refresh_token.token, client, scopes or refresh_token.scopes)

    async def load_access_token(self, token: str) -> AccessToken | None:
        """Return an access token."""
        grant = await run_in_threadpool(self.find, token)
        if grant is None:
            return None
        expires = int(grant.expires)
        return AccessToken(token=token, client_id=grant.client_id, scopes=grant.scopes, expires_at=expires)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        """Revoke all tokens of the same consent."""

        def revoke() -> None:
            grant = self.access.get(token.token) or self.refresh.get(token.token)
            if grant is not None:
                self._revoke_family(grant.client_id, grant.family)

        await run_in_threadpool(revoke)

    def _revoke_replayed(self, client: OAuthClientInformationFull, secret: str) -> None:
        """Revoke the tokens of a code or refresh token that was used before: somebody else may have it."""
        family, separator, _ = secret.partition(".")
        if separator and family:
            self._revoke_family(str(client.client_id), family)

    def _revoke_family(self, client_id: str, family: str) -> None:
        for table in (self.access, self.refresh):
            table.remove(lambda other: (other.client_id, other.family) == (client_id, family))

    async def _exchange(
        self, table: Table[Any], secret: str, client: OAuthClientInformationFull, scopes: list[str]
    ) -> OAuthToken:
        def exchange() -> OAuthToken:
            old: Grant | None = table.take(secret)
            if old is None:
                self._revoke_replayed(client, secret)
            if old is None or old.client_id != client.client_id or self._token(old.token_id) is None:
                raise TokenError("invalid_grant", "it was used before, has expired, or was revoked")
            access: Access = "write" if "write" in scopes and old.access != "read" else "read"
            fields = old.model_dump(include=set(Grant.model_fields) - {"expires"})
            family = old.family or secrets.token_hex(8)
            grant = Grant.model_validate(
                {**fields, "access": access, "scopes": SCOPES[: ACCESSES.index(access) + 1], "family": family}
            )
            return OAuthToken(
                access_token=self.access.add(grant, seconds=ACCESS_SECONDS, mark=MARK),
                refresh_token=self.refresh.add(grant, seconds=REFRESH_SECONDS, mark=f"{family}."),
                expires_in=ACCESS_SECONDS,
                scope=" ".join(grant.scopes),
            )

        return await run_in_threadpool(exchange)

    def _token(self, id: str) -> Token | None:
        return next((token for token in self._engine.tokens.list() if token.id == id), None)


def _may_redirect(uri: AnyUrl) -> bool:
    """Whether a code may be sent to an address: over https, on this machine, or to an app by its own scheme."""
    if uri.username is not None or uri.password is not None:
        return False
    if uri.scheme == "http":
        return uri.host in _LOOPBACK
    return uri.scheme not in _NOT_OF_AN_APP
