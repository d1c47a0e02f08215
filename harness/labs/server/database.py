"""Database of a lab's server: SQLite in a file, or PostgreSQL.

It holds what the lab's folder does not: submissions that wait, invitations, sessions, organisers and the audit trail.
Statements are written for SQLite; `?` becomes PostgreSQL's `%s`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from harness.errors import HarnessError
from harness.labs.names import stamp

_SCHEMA = """
CREATE TABLE IF NOT EXISTS uploads (
    number {serial}, id TEXT NOT NULL UNIQUE, team TEXT NOT NULL, key TEXT NOT NULL, sha256 TEXT NOT NULL,
    file TEXT NOT NULL, fields TEXT NOT NULL, received TEXT NOT NULL, state TEXT NOT NULL, attempts INTEGER NOT NULL,
    worker TEXT NOT NULL, lease DOUBLE PRECISION NOT NULL, finished TEXT NOT NULL, result TEXT NOT NULL,
    UNIQUE (team, key)
);
CREATE INDEX IF NOT EXISTS uploads_by_state ON uploads (state, team, number);
CREATE TABLE IF NOT EXISTS shares (team TEXT PRIMARY KEY, seconds DOUBLE PRECISION NOT NULL);
CREATE TABLE IF NOT EXISTS invitations (
    hash TEXT PRIMARY KEY, team TEXT NOT NULL, contact TEXT NOT NULL, state TEXT NOT NULL, created TEXT NOT NULL,
    expires TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS contacts (team TEXT PRIMARY KEY, address TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS organisers (name TEXT PRIMARY KEY, hash TEXT NOT NULL, created TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS sessions (
    hash TEXT PRIMARY KEY, role TEXT NOT NULL, name TEXT NOT NULL, token TEXT NOT NULL, csrf TEXT NOT NULL,
    expires TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS audit (
    number {serial}, at TEXT NOT NULL, actor TEXT NOT NULL, action TEXT NOT NULL, details TEXT NOT NULL
);
"""
_WAIT = 30.0  # seconds to wait for another connection's lock


class Session:
    """A transaction."""

    def __init__(self, connection: Any, postgres: bool) -> None:  # noqa: ANN401  (sqlite3's or psycopg's)
        self._connection, self._postgres = connection, postgres

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Runs a statement and returns its rows; none for a statement that returns none."""
        cursor = self._connection.execute(sql.replace("?", "%s") if self._postgres else sql, values)
        return cursor.fetchall() if cursor.description else []

    def alone(self) -> None:
        """Waits until no other transaction that has asked for this runs; SQLite has one writer at a time anyway."""
        if self._postgres:
            self.rows("SELECT pg_advisory_xact_lock(5083928)")


def record_action(session: Session, actor: str, action: str, details: Mapping[str, Any]) -> None:
    """Adds a line to the audit trail, in the transaction of what it tells."""
    sql = "INSERT INTO audit (at, actor, action, details) VALUES (?, ?, ?, ?)"
    session.rows(sql, stamp(), actor, action, json.dumps(details, sort_keys=True))


class Database:
    """Connections to a database, created with its tables if it is new. Safe for threads.

    Parameters
    ----------
    address : path of an SQLite file, or `postgresql://...`.

    Raises
    ------
    HarnessError
        It cannot be opened, or the package `psycopg` is missing.

    Examples
    --------
    >>> database = Database("queue.sqlite")
    >>> with database.transaction() as session:
    ...     _ = session.rows("INSERT INTO contacts VALUES (?, ?)", "DPRL", "a@example.org")
    ...     session.rows("SELECT address FROM contacts WHERE team = ?", "DPRL")
    [('a@example.org',)]
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.postgres = address.startswith(("postgresql://", "postgres://"))
        self._idle: SimpleQueue[Any] = SimpleQueue()
        serial = "BIGSERIAL PRIMARY KEY" if self.postgres else "INTEGER PRIMARY KEY AUTOINCREMENT"
        try:
            with self.transaction() as session:
                if self.postgres:  # two servers that start at once would both create the tables
                    session.rows("SELECT pg_advisory_xact_lock(5083927)")
                for statement in _SCHEMA.format(serial=serial).split(";\n"):
                    if statement.strip():
                        session.rows(statement)
        except HarnessError:
            raise
        except Exception as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise HarnessError(f"database {_shown(address)}: cannot be opened: {reason}") from None

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """Opens a transaction for the block: committed at its end, rolled back on an error."""
        try:
            connection = self._idle.get_nowait()
        except Empty:
            connection = self._connect()
        try:
            connection.execute("BEGIN" if self.postgres else "BEGIN IMMEDIATE")
            yield Session(connection, self.postgres)
            connection.execute("COMMIT")
        except BaseException:
            try:
                connection.execute("ROLLBACK")
            except Exception:  # the connection is lost; the next transaction opens another
                connection.close()
                raise
            self._idle.put(connection)
            raise
        self._idle.put(connection)

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Runs one statement in a transaction of its own and returns its rows."""
        with self.transaction() as session:
            return session.rows(sql, *values)

    def close(self) -> None:
        """Closes the idle connections."""
        while True:
            try:
                self._idle.get_nowait().close()
            except Empty:
                return

    def _connect(self) -> Any:  # noqa: ANN401
        if not self.postgres:
            Path(self.address).touch(mode=0o600)  # it holds hashes of tokens
            connection = sqlite3.connect(self.address, timeout=_WAIT, isolation_level=None, check_same_thread=False)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")  # an upload that was acknowledged survives a power failure
            return connection
        try:
            import psycopg
        except ImportError:
            reason = "database: the package psycopg is missing; pip install 'mathir-harness[postgres]'"
            raise HarnessError(reason) from None
        return psycopg.connect(self.address, autocommit=True, connect_timeout=10)


def errors() -> tuple[type[Exception], ...]:
    """Returns the errors of a database that cannot be used now: its disk is full, or it does not answer."""
    try:
        import psycopg
    except ImportError:
        return (sqlite3.OperationalError,)
    return (sqlite3.OperationalError, psycopg.OperationalError)


def _shown(address: str) -> str:
    """Returns an address without its password."""
    head, at, tail = address.rpartition("@")
    scheme, colon, user = head.partition("://")
    return f"{scheme}{colon}{user.partition(':')[0]}{at}{tail}"
