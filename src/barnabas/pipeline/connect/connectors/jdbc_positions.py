"""The positions of a JDBC sink, in the table `barnabas_offsets` of its database.

A row has the next offset of a partition, the number of the batch that wrote it, and whether Kafka
is known to have committed a batch.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import attrs

from barnabas.pipeline.connect.plugin_api import TopicPartition
from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data.connect_errors import RetriableError
from barnabas.pipeline.data.connect_schema import Schema

if TYPE_CHECKING:
    from barnabas.pipeline.connect.connectors.sql_database import Database

_TABLE: Final = "barnabas_offsets"
_KEYS: Final = ("job", "topic", "part")
_WRITTEN: Final = ("next", "batch", "confirmed")
_READ: Final = ("topic", "part", *_WRITTEN)
_COLUMNS: Final[Mapping[str, Schema]] = {
    "job": s.STRING,
    "topic": s.STRING,
    "part": s.INT32,
    "next": s.OPTIONAL_INT64,
    "batch": s.OPTIONAL_INT64,
    "confirmed": s.OPTIONAL_INT32,
}


@attrs.frozen
class StoredPosition:
    """The row of a partition."""

    next: int
    batch: int
    is_confirmed: bool


class JdbcPositions:
    """The rows of one job, read and written within the transactions of its task."""

    def __init__(self, database: "Database", job: str) -> None:
        """Write the statements, which each batch runs."""
        self._database = database
        self._job = job
        self._name = database.table(_TABLE)
        sql = database.sql
        place = sql.place(self._name, tuple(_COLUMNS))
        self._select = sql.selection(place, _READ, ("job",))
        self._insert = sql.new_row(place, _KEYS)
        self._change = sql.change(place, _WRITTEN, (*_KEYS, "batch"))
        self._confirm = sql.change(place, ("confirmed",), _KEYS)

    def create(self) -> None:
        """Create the table, unless it exists: that needs a privilege."""
        database = self._database
        if database.columns(self._name):
            return
        database.begin()
        with database.definitions():
            if not database.columns(self._name):
                database.execute(database.sql.creation(self._name, _COLUMNS, _KEYS))
        database.commit()

    def read(self) -> dict[TopicPartition, StoredPosition]:
        """Return the positions of the job."""
        return {
            (topic, partition): StoredPosition(following, batch, bool(is_confirmed))
            for topic, partition, following, batch, is_confirmed in self._database.fetch(
                self._select, [self._job]
            )
        }

    def write(
        self, where: TopicPartition, stored: StoredPosition | None, following: int, is_noted: bool
    ) -> None:
        """Write a position in place of the stored one.

        Raises RetriableError when another task has written it since.
        """
        batch = 1 if stored is None else stored.batch + 1
        key, values = (self._job, *where), (following, batch, int(is_noted))
        if stored is None:
            changed = self._database.insert_new(self._insert, (*key, *values))
        else:
            changed = self._database.execute(self._change, (*values, *key, stored.batch))
        if changed != 1:
            topic, partition = where
            raise RetriableError(
                f"another task of {self._job} has written {topic}-{partition} since this batch "
                "began: the batch is rolled back"
            )

    def confirm(self, where: TopicPartition) -> None:
        """Note that Kafka has committed a batch."""
        self._database.execute(self._confirm, (1, self._job, *where))
