"""The MCP server: memory as tools, resources and a prompt, over whatever transport it is run on.

Whose memories, and of which project and session, is chosen by whoever runs the server. No tool has an argument for it,
so a model cannot wander. Memory text is data: it goes out as JSON, and only as JSON.
"""

from retentive.server.mcp.server import build_server
from retentive.server.mcp.tool_scope import Place

__all__ = ["Place", "build_server"]
