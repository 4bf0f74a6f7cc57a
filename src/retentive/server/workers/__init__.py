"""Several processes that serve one store at one address.

    supervisor ──starts──► worker 0 … worker N−1, each with an engine and a socket of its own on the same port

The system distributes connections among the sockets. What requests change is in the store, so it is the same for all
workers. What a process only remembers (requests in progress, statistics, the tuning run) the workers share in a private
folder: counts in a file, metrics in files of the Prometheus client, the rest by asking each other.
"""
