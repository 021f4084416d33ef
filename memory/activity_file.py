"""The file of the activity log, a SQLite database: how it is opened, and its schema.

`memory/activity_rows.py` says what is written to it and read from it.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from memory.ledger import START

FILE_NAME = "activity.db"
"""In the state directory."""
BUSY_TIMEOUT = 2.0
"""Seconds to wait for another program that writes."""

type Migration = Sequence[str]

MIGRATIONS: Sequence[Migration] = (
    (
        """CREATE TABLE ledger (number INTEGER PRIMARY KEY, id TEXT NOT NULL, written INTEGER NOT NULL, client TEXT,
        model TEXT, notes INTEGER, hash TEXT NOT NULL, entry TEXT NOT NULL)""",
        # Only whole rows say a client: these are what entries are counted and found by.
        "CREATE INDEX ledger_id ON ledger (id, client)",
        "CREATE INDEX ledger_client ON ledger (client, id, model, notes) WHERE client IS NOT NULL",
        "CREATE INDEX ledger_model ON ledger (model, id, notes) WHERE client IS NOT NULL",
        "CREATE INDEX ledger_notes ON ledger (id) WHERE client IS NOT NULL AND notes > 0",
        "CREATE TABLE carried (note TEXT, id TEXT, PRIMARY KEY (note, id)) WITHOUT ROWID",
        # One row: the last ledger row that was pruned, and how many entries there are.
        "CREATE TABLE chain (anchor INTEGER NOT NULL, hash TEXT NOT NULL, entries INTEGER NOT NULL)",
        f"INSERT INTO chain VALUES ({START.number}, '{START.hash}', 0)",  # noqa: S608 - constants of ours
    ),
)
"""What brings a file from each version of the schema to the next; `PRAGMA user_version` counts those it has had."""


class NewerSchemaError(Exception):
    """The file was written by a newer mitmemory. The message says what to do."""


def open_to_write(file: Path, migrations: Sequence[Migration] = MIGRATIONS) -> sqlite3.Connection:
    """Open the file and bring its schema up to date. One that is not there is made, 0600, its directory 0700.

    Raises OSError, sqlite3.Error and NewerSchemaError; then the file is as it was.
    """
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Made with its final mode, which SQLite gives to the files beside it too.
    os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
    if file.stat().st_mode & 0o077:
        file.chmod(0o600)
    connection = sqlite3.connect(file, timeout=BUSY_TIMEOUT, isolation_level=None)
    try:
        _check_version(connection, file, len(migrations))
        _write_ahead(connection)
        connection.execute("PRAGMA synchronous = FULL")  # what is committed outlives a power failure too
        connection.execute("PRAGMA journal_size_limit = 16777216")
        connection.execute("PRAGMA cache_size = -8000")  # kB: what one batch touches
        connection.execute("PRAGMA secure_delete = ON")  # what is pruned shall be gone
        with transaction(connection):
            [version] = connection.execute("PRAGMA user_version").fetchone()
            for migration in migrations[version:]:
                for statement in migration:
                    connection.execute(statement)
            if version < len(migrations):
                connection.execute(f"PRAGMA user_version = {len(migrations)}")
    except BaseException:
        connection.close()
        raise
    return connection


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Turn the write-ahead log on. SQLite does not wait for another program that does so at the same moment."""
    until = time.monotonic() + BUSY_TIMEOUT
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= until:
                raise
            time.sleep(0.01)
        else:
            return


def open_to_read(file: Path) -> sqlite3.Connection:
    """Open a file that is there, beside whoever writes it. Raises sqlite3.Error and NewerSchemaError.

    The connection may be handed from thread to thread. Text that is not UTF-8 is read all the same: whoever goes along
    the chain shall find it.
    """
    address = f"{file.absolute().as_uri()}?mode=ro"
    try:
        return _open_to_read(file, address)
    except sqlite3.OperationalError:
        # SQLite makes files beside its own, which it cannot where nothing may be written, and need not where nobody does.
        if os.access(file.parent, os.W_OK) or file.with_name(f"{file.name}-wal").exists():
            raise
        return _open_to_read(file, f"{address}&immutable=1")


def _open_to_read(file: Path, address: str) -> sqlite3.Connection:
    connection = sqlite3.connect(address, uri=True, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)
    try:
        connection.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
        _check_version(connection, file, len(MIGRATIONS))
    except BaseException:
        connection.close()
        raise
    return connection


def _check_version(connection: sqlite3.Connection, file: Path, known: int) -> None:
    [version] = connection.execute("PRAGMA user_version").fetchone()
    if version > known:
        raise NewerSchemaError(
            f"{file} was written by a newer mitmemory (schema {version}, this one knows {known}): "
            "update mitmemory, or move that file away"
        )


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing, and nobody else writes meanwhile."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite ends it by itself after some errors
            connection.execute("ROLLBACK")
        raise


def is_damaged(error: BaseException) -> bool:
    """Whether an error means that the file is no database any more."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def set_aside(file: Path, now: datetime) -> Path:
    """Rename a damaged file, and what SQLite keeps beside it, so that a new one can begin; the new name.

    Raises OSError.
    """
    name = f"{file.name}.damaged-{now:%Y%m%d-%H%M%S-%f}"
    for ending in ("-wal", "-shm", ""):
        beside = file.with_name(f"{file.name}{ending}")
        if beside.exists():
            beside.rename(file.with_name(f"{name}{ending}"))
    return file.with_name(name)
