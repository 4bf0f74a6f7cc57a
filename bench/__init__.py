"""Benchmarks: `python -m bench` measures Retentive, and LanceDB with the same memories and queries in the same run."""

import os

# LanceDB logs a line per query about a future change; writing it would add to LanceDB's times.
os.environ.setdefault("LANCEDB_LOG", "error")
