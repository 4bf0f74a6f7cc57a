"""Several processes that serve one store at one address.

    supervisor ──starts──► worker 0 … worker N−1, each with an engine and a socket of its own on the same port

The system distributes connections among the sockets. What requests change is in the store, so it is the same for all
workers. The metrics are those of all workers, by files of the Prometheus client. What else a process only remembers
(requests in progress, statistics) is its own.
"""
