"""Compares Retentive with other libraries and memory products: `python -m bench.peers SET...`

Every peer gets the same memories, the same vectors where it takes vectors, and the same queries, in one run. A peer is
installed in an environment of its own and runs in a process of its own, which speaks JSON lines with the runner.
`protocol`, `serve` and the adapters run in a peer's environment, so they import the standard library and the peer only.
"""
