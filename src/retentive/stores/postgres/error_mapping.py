"""What PostgreSQL's errors mean: which are worth another try, and what to tell people."""

from __future__ import annotations

import psycopg
from psycopg import errors

from retentive.errors import Conflict, Invalid, RetentiveError, Unavailable
from retentive.stores.postgres.address import Address

_LOST = ("08", "57P01", "57P02", "57P03", "25006", "53300")
"""No connection, shut down, crashed, starting, turned into a standby, too many connections."""

_REACHED_IN_VAIN = ("authentication", "password", "does not exist", "pg_hba.conf", "not permitted", "no such user")


def is_lost(error: psycopg.Error) -> bool:
    """Whether the server is away, and may come back."""
    if error.sqlstate is not None:
        return error.sqlstate.startswith(_LOST)
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    return not any(part in str(error) for part in _REACHED_IN_VAIN)


def is_undone(error: psycopg.Error) -> bool:
    """Whether the server has undone a transaction that got into another one's way, and would have it tried again."""
    return isinstance(error, errors.DeadlockDetected | errors.SerializationFailure)


def in_our_words(error: psycopg.Error, address: Address, *, maybe_done: bool = False) -> RetentiveError:
    """The error as ours: what happened, and what to do."""
    where, said = address.shown, str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if maybe_done:
        return Unavailable(
            f"{where} was lost while it was storing ({said}); look whether it is there before you send it again"
        )
    if is_lost(error):
        return Unavailable(f"{where} cannot be reached ({said}); see that the server runs, then try again")
    if error.sqlstate is None and "database" in said and "does not exist" in said:
        return Invalid(f"{where}: there is no such database ({said}); make it with: createdb NAME")
    if error.sqlstate is None and any(part in said for part in _REACHED_IN_VAIN):
        return Invalid(f"{where} does not let us in ({said}); check user and password in the store's address")
    if isinstance(error, errors.LockNotAvailable):
        return Unavailable(f"somebody else has kept {where} locked for too long; try again, nothing was changed")
    if isinstance(error, errors.UniqueViolation):
        return Conflict(f"the store already holds that ({said}); nothing was stored")
    if isinstance(error, errors.DiskFull):
        return Unavailable(f"the disk of {where} is full; make room and try again, nothing was changed")
    if isinstance(error, errors.InsufficientPrivilege):
        return Invalid(f"{where}: the role is not allowed to do that ({said}); see docs/postgres.md for what it needs")
    if isinstance(error, errors.UndefinedTable | errors.InvalidSchemaName):
        return Unavailable(f"{where}: the schema '{address.schema}' is gone ({said}); open the store again")
    return Unavailable(f"{where}: {said}")
