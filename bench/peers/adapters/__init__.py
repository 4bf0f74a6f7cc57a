"""The peers, one module each; each uses its peer as the peer's documentation recommends."""
