"""OAuth 2.1 for MCP clients on other machines: PKCE, dynamic registration, and metadata of the protected resource.

    client ──► /register ──► /authorize ──► consent page ──► code ──► /token ──► access token for /mcp

The routes and their checks are those of the MCP SDK. The person who approves a client identifies with an API token of
the service; what the client gets is limited to the profile and the access of that token, and ends when it is revoked.
"""

from retentive.server.oauth.provider import OAuth

__all__ = ["OAuth"]
