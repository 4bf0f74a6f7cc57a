"""PostgreSQL's errors as ours: which of them allow another attempt, and what the caller is told."""

from __future__ import annotations

import psycopg
from psycopg import errors

from retentive.errors import Conflict, Invalid, RetentiveError, Unavailable

_LOST = ("08", "57P01", "57P02", "57P03", "25006", "25P03", "53300")
"""SQLSTATEs: no connection, shut down, crashed, starting, turned into a standby, ended a transaction that was idle for
too long, too many connections."""

_REFUSED = ("authentication", "password", "does not exist", "pg_hba.conf", "not permitted", "no such user")
"""Parts of messages, without an SQLSTATE, of a server that refuses the connection for good."""


def is_lost(error: BaseException | None) -> bool:
    """Whether the server is unreachable for now, so that another attempt on a new connection may succeed."""
    if not isinstance(error, psycopg.Error):
        return False
    if error.sqlstate is not None:
        return error.sqlstate.startswith(_LOST)
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    return not any(part in str(error) for part in _REFUSED)


def is_rolled_back(error: psycopg.Error) -> bool:
    """Whether the server rolled the transaction back because of a concurrent one, so that it should be retried."""
    return isinstance(error, errors.DeadlockDetected | errors.SerializationFailure)


def to_store_error(error: psycopg.Error, server: str | None, *, may_be_committed: bool = False) -> RetentiveError:
    """Return our own error, which says what happened and what to do. `server` is its address without a password.

    Without one, as for the clients of a service, the error does not contain where the server is: libpq writes host and
    socket into errors of a connection, which have no SQLSTATE.
    """
    cause = first_line(error) if server is not None or error.sqlstate is not None else "the connection failed"
    server = server or "the database server"
    if may_be_committed:
        return Unavailable(
            f"{server} was lost during a commit ({cause}); check whether the change is there before you send it again"
        )
    if is_lost(error):
        return Unavailable(f"{server} cannot be reached ({cause}); check that the server is running, then try again")
    message = first_line(error)
    if error.sqlstate is None and "database" in message and "does not exist" in message:
        return Invalid(f"{server}: there is no such database ({cause}); create it with: createdb NAME")
    if error.sqlstate is None and any(part in message for part in _REFUSED):
        return Invalid(f"{server} refuses the connection ({cause}); check user and password in the store's address")
    if isinstance(error, errors.LockNotAvailable):
        return Unavailable(f"another transaction has kept {server} locked for too long; try again, nothing was changed")
    if isinstance(error, errors.UniqueViolation):
        return Conflict(f"the store already has this entry ({cause}); nothing was stored")
    if isinstance(error, errors.DiskFull):
        return Unavailable(f"the disk of {server} is full; free some space and try again, nothing was changed")
    if isinstance(error, errors.InsufficientPrivilege):
        return Invalid(f"{server}: the role lacks a privilege ({cause}); docs/postgres.md lists what it needs")
    if isinstance(error, errors.UndefinedTable | errors.InvalidSchemaName):
        return Unavailable(f"{server}: the schema of the store no longer exists ({cause}); open the store again")
    return Unavailable(f"{server}: {cause}")


def first_line(error: object) -> str:
    """Return the first line of an error's message, or its type if it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
