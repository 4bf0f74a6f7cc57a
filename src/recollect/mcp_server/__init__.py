"""The MCP server: memory as tools, resources and a prompt, over whatever transport it is run on.

Whose memories, and of which project and session, is chosen by whoever runs the server. No tool has an argument for it,
so a model cannot wander. Memory text is data: it goes out as JSON, and only as JSON.
"""

from recollect.mcp_server.place import Place
from recollect.mcp_server.server import build_server

__all__ = ["Place", "build_server"]
