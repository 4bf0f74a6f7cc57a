"""The MCP server: memory as tools, resources and a prompt, independent of the transport.

The profile, project and session are configured with the server. No tool has an argument for them, so a model cannot
read another scope. Memory text is data: it is always returned as JSON.
"""

from retentive.server.mcp.server import build_server
from retentive.server.mcp.tools import ToolScope

__all__ = ["ToolScope", "build_server"]
