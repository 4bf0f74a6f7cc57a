"""Hooks: programs that an agent's client runs at the start of a session, at each prompt and after each turn.

    client ──JSON──► events ──► service of the store, or an engine in a child process ──► answer in the client's form

A hook must not delay its client. `main` and what it imports use the standard library only, and the engine runs in a
child process that is ended at the deadline.
"""
