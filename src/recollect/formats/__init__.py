"""Files that other programs write and read: memories in, memories out, one module a format."""
