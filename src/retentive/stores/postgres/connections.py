"""Reading and writing on a server: reads outlive its loss, writes happen once, errors are in our words."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any, TypeVar
from uuid import UUID, uuid4

import psycopg

from retentive.errors import RetentiveError, Unavailable
from retentive.stores.postgres.address import Address
from retentive.stores.postgres.error_mapping import in_our_words, is_lost, is_undone
from retentive.stores.postgres.pools import Connection, Pool

log = logging.getLogger(__name__)

T = TypeVar("T")

_AVOID_SECONDS = 5.0
"""How long a replica that could not be reached is left alone."""

_NOTE = "INSERT INTO writes (token) VALUES (%s) ON CONFLICT DO NOTHING RETURNING true"


class Connections:
    """Reading and writing on one server, and perhaps reading on a replica, for any number of threads."""

    def __init__(self, address: Address, *, wait_seconds: float) -> None:
        self.address = address
        writing = {"lock_timeout": f"{int(wait_seconds * 1000)}ms"}
        reading = {
            "default_transaction_read_only": "on",
            # Planned once: planning takes as long as a search. It may be when the tables are still empty, and then only
            # what is forbidden keeps a plan from reading all of them when they no longer are.
            "plan_cache_mode": "force_generic_plan",
            "enable_seqscan": "off",
        }
        self._writers = Pool(address.server, address.schema, size=address.writers, settings=writing)
        self._readers = Pool(address.server, address.schema, size=address.readers, settings=reading)
        self._replicas = (
            Pool(address.replica, address.schema, size=address.readers, settings=reading) if address.replica else None
        )
        self._avoided_until = 0.0
        self._written, self._replayed = 0, 0

    def close(self) -> None:
        """Close everything; a connection in use is closed when it comes back."""
        for pool in (self._writers, self._readers, self._replicas):
            if pool is not None:
                pool.close()

    # Reading

    def read(self, work: Callable[[Connection], T], *, here: bool = False) -> T:
        """What a piece of reading gives, on the replica if there is one that has seen our last write.

        It is done again if the server is lost meanwhile, until the deadline. `here` asks the server itself.
        """
        if self._replicas is not None and not here and monotonic() >= self._avoided_until:
            try:
                with self._replicas.connection(monotonic() + 1) as connection:
                    if self._has_seen_our_writes(connection):
                        return work(connection)
            except (psycopg.Error, RetentiveError) as error:
                # Away, too far behind to have our tables, or replaying what the statement looked at. What is wrong with
                # the statement itself, the server will say too.
                log.warning("the replica is left alone for a while: %s", error)
                self._avoided_until = monotonic() + _AVOID_SECONDS
        for deadline in self._tries():
            try:
                with self._readers.connection(deadline) as connection:
                    return work(connection)
            except psycopg.Error as error:
                if not is_lost(error) or monotonic() > deadline:
                    raise in_our_words(error, self.address) from error
        raise AssertionError  # pragma: no cover - the last try returns or raises

    def _has_seen_our_writes(self, connection: Connection) -> bool:
        if self._written > self._replayed:
            [row] = connection.execute("SELECT pg_last_wal_replay_lsn()::text").fetchall()
            self._replayed = _place(row[0])
        return self._written <= self._replayed

    def _tries(self) -> Iterator[float]:
        """The deadline, as often as there is time for another try; each waits a little longer than the last."""
        deadline, wait = monotonic() + self.address.deadline, 0.02
        while True:
            yield deadline
            sleep(wait * (0.5 + random.random() / 2))  # noqa: S311 - so that not everybody comes back at once
            wait = min(2 * wait, 0.5)

    # Writing

    def write(self, work: Callable[[Connection], T], *, durable: bool = True) -> T:
        """What a piece of writing gives, carried out once in a transaction that is durable when this returns.

        If the server is lost, nobody knows whether the transaction was committed. So it leaves a token behind and is
        tried again with the same one, until the deadline: whoever finds the token there knows that it was.
        """
        token = uuid4()
        done: list[T] = []
        for deadline in self._tries():
            try:
                with self._writers.connection(deadline) as connection:
                    return self._carry_out(connection, work, token, done, durable=durable)
            except psycopg.Error as error:
                if not (is_lost(error) or is_undone(error)) or monotonic() > deadline:
                    raise in_our_words(error, self.address, maybe_done=bool(done) and is_lost(error)) from error
        raise AssertionError  # pragma: no cover - the last try returns or raises

    def _carry_out(
        self, connection: Connection, work: Callable[[Connection], T], token: UUID, done: list[T], *, durable: bool
    ) -> T:
        with connection.pipeline():
            connection.execute("BEGIN", prepare=False)
            if not durable:
                connection.execute("SET LOCAL synchronous_commit = off", prepare=False)
            # Waits for the earlier try, should it still be under way.
            noted = connection.execute(_NOTE, (token,))
        try:
            if noted.fetchone() is None:
                connection.execute("ROLLBACK", prepare=False)
                return done[-1]
            outcome = work(connection)
            done.append(outcome)
            connection.execute("COMMIT", prepare=False)
        except BaseException:
            if not connection.closed and connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                connection.rollback()
            raise
        self.note_written(connection)
        return outcome

    def note_written(self, connection: psycopg.Connection[Any]) -> None:
        """Remember how far the server's log has come: a replica that is not as far does not know what we wrote."""
        if self._replicas is not None:
            [row] = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchall()
            self._written = max(self._written, _place(row[0]))

    @contextmanager
    def upkeep(self) -> Iterator[Connection]:
        """A connection outside of any transaction, for what takes long and may be broken off."""
        try:
            with self._writers.connection(monotonic() + self.address.deadline) as connection:
                yield connection
        except psycopg.Error as error:
            raise in_our_words(error, self.address) from error

    @contextmanager
    def first(self) -> Iterator[psycopg.Connection[Any]]:
        """A plain connection to a server of which nothing is known yet."""
        try:
            with self._writers.plain() as connection:
                yield connection
        except psycopg.Error as error:
            raise in_our_words(error, self.address) from error
        except RetentiveError:
            raise
        except OSError as error:
            raise Unavailable(f"{self.address.shown}: {error}") from error


def _place(lsn: str | None) -> int:
    """A place in the server's log as a number; they grow."""
    high, _, low = (lsn or "0/0").partition("/")
    return (int(high, 16) << 32) + int(low, 16)
