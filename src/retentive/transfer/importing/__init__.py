"""Imports files into a store: `importer` reads them, `writing` stores their contents, `log` makes an undo possible."""
