"""`python -m bench`: Retentive measured, and LanceDB on the same memories and queries in the same run."""

import os

# LanceDB logs a line a query about a future change; writing it would count against LanceDB.
os.environ.setdefault("LANCEDB_LOG", "error")
