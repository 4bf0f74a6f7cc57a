"""The store into files: as JSON lines that lose nothing, or as Markdown for people."""
