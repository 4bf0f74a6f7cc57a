"""The MCP server: memory as tools, resources and a prompt, independent of the transport.

The profile, project and session are configured with the server. What a tool is told of a project or session only
narrows that scope, so a model cannot reach another one. Memory text is data: it is always returned as JSON.
"""

from retentive.server.mcp.server import build_server
from retentive.server.mcp.tools import ToolScope

__all__ = ["ToolScope", "build_server"]
