"""The SQLite file of a view: rows, positions in the topic, and where the rows come from.

One process feeds a file at a time, which a lock beside the file ensures. Any number of threads
read it: each call has its own snapshot.
"""

import fcntl
import logging
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import attrs

from barnabas.pipeline.views.view_keys import RowKey

logger = logging.getLogger(__name__)

_VERSION: Final = 1
_SCHEMA: Final = """
CREATE TABLE rows (
    key BLOB NOT NULL,
    start_ms INTEGER NOT NULL,
    end_ms INTEGER NOT NULL,
    value BLOB NOT NULL,
    timestamp INTEGER NOT NULL,
    PRIMARY KEY (key, start_ms, end_ms)
);
CREATE INDEX rows_by_end ON rows (end_ms) WHERE end_ms > 0;
CREATE TABLE positions (partition INTEGER PRIMARY KEY, next_offset INTEGER NOT NULL);
CREATE TABLE origin (
    cluster_id TEXT NOT NULL,
    topic TEXT NOT NULL,
    topic_id TEXT NOT NULL,
    keys TEXT NOT NULL,
    is_built INTEGER NOT NULL,
    current_at_ms INTEGER NOT NULL,
    stream_time_ms INTEGER NOT NULL
);
"""
_PUT: Final = (
    "INSERT INTO rows VALUES (?, ?, ?, ?, ?) ON CONFLICT (key, start_ms, end_ms) "
    "DO UPDATE SET value = excluded.value, timestamp = excluded.timestamp"
)
_REMOVE: Final = "DELETE FROM rows WHERE key = ? AND start_ms = ? AND end_ms = ?"
_COLUMNS: Final = "key, start_ms, end_ms, value, timestamp"
_BUSY_S: Final = 10.0
_PAGE_ROWS: Final = 500


class ViewStoreError(Exception):
    """The file of a view cannot be used."""


@attrs.frozen
class Origin:
    """The source of a view's rows. Rows of another origin are of no use."""

    cluster_id: str
    topic: str
    topic_id: str
    keys: str
    """The form of the keys, as text."""

    def difference(self, other: "Origin") -> str | None:
        """Return how another origin differs, None when it is the same."""
        if (self.cluster_id, self.topic) != (other.cluster_id, other.topic):
            return (
                f"the view holds topic {self.topic} of cluster {self.cluster_id}, not topic "
                f"{other.topic} of cluster {other.cluster_id}"
            )
        if self.topic_id != other.topic_id:
            return (
                f"topic {self.topic} was recreated: its id was {self.topic_id}, now it is "
                f"{other.topic_id}"
            )
        if self.keys != other.keys:
            return f"the view was built for {self.keys} keys, not for {other.keys} keys"
        return None


@attrs.frozen
class Change:
    """A record: the new value of a row, None to remove it."""

    key: RowKey
    value: bytes | None
    timestamp: int


@attrs.frozen
class Row:
    """A row as it is stored."""

    key: RowKey
    value: bytes
    timestamp: int


class ViewStore:
    """One view's file, opened by the process that feeds it."""

    def __init__(self, path: Path, retention_ms: int | None = None) -> None:
        self.path = path
        self.is_built = False
        """True once the view has read its topic up to an end."""
        self.current_at_ms = 0
        """The newest time at which the view held all that its topic held."""
        self._retention_ms = retention_ms
        self._stream_time_ms = -1
        self._lock = _lock(path)
        self._writer: sqlite3.Connection | None = None
        self._readers = threading.local()
        self._open_readers: list[sqlite3.Connection] = []
        self._readers_lock = threading.Lock()

    def open(self, origin: Origin) -> str | None:
        """Open or create the file for an origin; return why its rows were removed, or None.

        None is also the answer for a file that was not there.
        """
        reason = None
        try:
            self._writer = self._connect()
            stored = self._stored_origin()
            reason = None if stored is None else stored.difference(origin)
        except (sqlite3.DatabaseError, ViewStoreError) as error:
            reason, stored = f"the file {self.path} cannot be read: {error}", None
        if stored is None or reason is not None:
            self.reset(origin)
        return reason

    def close(self) -> None:
        """Close the file and give its lock back."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        with self._readers_lock:
            for reader in self._open_readers:
                reader.close()
            self._open_readers.clear()
            self._readers = threading.local()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def reset(self, origin: Origin) -> None:
        """Remove all rows and positions, for an origin to be read from its start."""
        try:
            self._create(self._written(), origin)
        except (sqlite3.DatabaseError, ViewStoreError):
            self._remove_file()
            self._writer = self._connect()
            self._create(self._writer, origin)
        self.is_built, self.current_at_ms, self._stream_time_ms = False, 0, -1

    def positions(self) -> dict[int, int]:
        """Return the next offset of each partition that was read."""
        found = self._written().execute("SELECT partition, next_offset FROM positions")
        return dict(found.fetchall())

    def apply(self, partition: int, before: int, after: int, changes: Sequence[Change]) -> None:
        """Apply the records of a partition from offset `before` up to `after`, in one transaction.

        Raises ViewStoreError when the stored position is not `before`.
        """
        connection = self._written()
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            self._move(connection, partition, before, after)
            for change in changes:
                if change.value is None:
                    connection.execute(_REMOVE, change.key)
                else:
                    connection.execute(_PUT, (*change.key, change.value, change.timestamp))
            newest = max((change.timestamp for change in changes), default=-1)
            if newest > self._stream_time_ms:
                self._advance(connection, newest)
        self._stream_time_ms = max(self._stream_time_ms, newest)

    def note_current(self, now_ms: int) -> None:
        """Store that the view holds all that its topic held at a time."""
        connection = self._written()
        with connection:
            connection.execute("UPDATE origin SET is_built = 1, current_at_ms = ?", (now_ms,))
        self.is_built, self.current_at_ms = True, now_ms

    def get(self, key: RowKey) -> Row | None:
        """Return a row, None when there is none."""
        query = f"SELECT {_COLUMNS} FROM rows WHERE key = ? AND start_ms = ? AND end_ms = ?"
        found = self._reader().execute(query, key).fetchone()
        return None if found is None else _row(found)

    def windows(self, key: bytes, from_ms: int | None, to_ms: int | None) -> list[Row]:
        """Return the rows of a key whose windows start between two times, the earliest first."""
        query = f"SELECT {_COLUMNS} FROM rows WHERE key = ?"
        bounds: list[object] = [key]
        for bound, operator in ((from_ms, ">="), (to_ms, "<=")):
            if bound is not None:
                query += f" AND start_ms {operator} ?"
                bounds.append(bound)
        found = self._reader().execute(f"{query} ORDER BY start_ms, end_ms", bounds)
        return [_row(each) for each in found.fetchall()]

    def range(
        self, low: bytes | None = None, high: bytes | None = None, after: RowKey | None = None
    ) -> Iterator[Row]:
        """Iterate over the rows of keys from `low` to `high`, both included, in one snapshot.

        Rows come in the order of the keys' bytes, then of windows, and begin after the row `after`.
        """
        query, bounds = f"SELECT {_COLUMNS} FROM rows WHERE 1", list[object]()
        for bound, operator in ((low, ">="), (high, "<=")):
            if bound is not None:
                query += f" AND key {operator} ?"
                bounds.append(bound)
        if after is not None:
            query += " AND (key, start_ms, end_ms) > (?, ?, ?)"
            bounds.extend(after)
        with closing(self._connect_reader()) as connection:
            found = connection.execute(f"{query} ORDER BY key, start_ms, end_ms", bounds)
            while page := found.fetchmany(_PAGE_ROWS):
                yield from map(_row, page)

    def count(self) -> int:
        """Return the number of rows; the time it takes grows with them."""
        return self._reader().execute("SELECT count(*) FROM rows").fetchone()[0]

    def _connect(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(
            self.path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
        )
        try:
            # A power cut may take the newest transactions, each of them whole with its positions.
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
        except sqlite3.DatabaseError:
            connection.close()
            raise
        return connection

    def _connect_reader(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode=ro",
            uri=True,
            timeout=_BUSY_S,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.execute("PRAGMA query_only = 1")
        return connection

    def _reader(self) -> sqlite3.Connection:
        """Return this thread's connection for short reads."""
        found: sqlite3.Connection | None = getattr(self._readers, "connection", None)
        if found is None:
            found = self._readers.connection = self._connect_reader()
            with self._readers_lock:
                self._open_readers.append(found)
        return found

    def _written(self) -> sqlite3.Connection:
        if self._writer is None:
            raise ViewStoreError(f"the view {self.path} is not open")
        return self._writer

    def _stored_origin(self) -> Origin | None:
        """Return the origin of the stored rows, None for an empty file. Raises ViewStoreError."""
        connection = self._written()
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            return None
        if version != _VERSION:
            raise ViewStoreError(f"it has version {version}, and this program reads {_VERSION}")
        found = connection.execute("SELECT * FROM origin").fetchone()
        if found is None:
            return None
        *texts, is_built, self.current_at_ms, self._stream_time_ms = found
        self.is_built = bool(is_built)
        return Origin(*texts)

    @staticmethod
    def _create(connection: sqlite3.Connection, origin: Origin) -> None:
        names = ("rows", "positions", "origin")
        drops = "".join(f"DROP TABLE IF EXISTS {name};" for name in names)
        connection.executescript(
            f"BEGIN IMMEDIATE; {drops} {_SCHEMA} PRAGMA user_version = {_VERSION};"
        )
        connection.execute(
            "INSERT INTO origin VALUES (?, ?, ?, ?, 0, 0, -1)", attrs.astuple(origin)
        )
        connection.execute("COMMIT")

    def _remove_file(self) -> None:
        if self._writer is not None:
            self._writer.close()
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)

    def _move(
        self, connection: sqlite3.Connection, partition: int, before: int, after: int
    ) -> None:
        found = connection.execute(
            "SELECT next_offset FROM positions WHERE partition = ?", (partition,)
        ).fetchone()
        if found is not None and found[0] != before:
            raise ViewStoreError(
                f"partition {partition} is at offset {found[0]}, and the records begin at {before}"
            )
        connection.execute("INSERT OR REPLACE INTO positions VALUES (?, ?)", (partition, after))

    def _advance(self, connection: sqlite3.Connection, stream_time_ms: int) -> None:
        """Store a newer time of the stream, and remove windows that are older than retention."""
        connection.execute("UPDATE origin SET stream_time_ms = ?", (stream_time_ms,))
        if self._retention_ms is not None:
            oldest = stream_time_ms - self._retention_ms
            connection.execute("DELETE FROM rows WHERE end_ms > 0 AND end_ms < ?", (oldest,))


def _row(columns: Sequence[object]) -> Row:
    key, start_ms, end_ms, value, timestamp = columns
    return Row(RowKey(key, start_ms, end_ms), value, timestamp)  # pyright: ignore[reportArgumentType]


def _lock(path: Path) -> int:
    """Take the lock of a view's file; the process's end gives it back. Raises ViewStoreError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise ViewStoreError(
            f"the view {path} is in use by another process: give each its own directory"
        ) from None
    return descriptor
