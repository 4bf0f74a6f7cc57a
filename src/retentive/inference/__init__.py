"""Models: embedders and the judge, and the runtime that computes them."""

import os

# onnxruntime 1.31 and newer send events to its maker from the time it is imported, unless this is set.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
