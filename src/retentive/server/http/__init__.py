"""The service over HTTP: REST, settings, chat with memory, and the mount of the MCP server."""
