"""The positions of a JDBC sink, in the table `barnabas_offsets` of its database.

A row has the next offset of a partition, the number of the batch that wrote it, and whether Kafka
is known to have committed a batch.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from barnabas.pipeline.connect.plugin_api import TopicPartition
from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data.connect_errors import RetriableError
from barnabas.pipeline.data.connect_schema import Schema

if TYPE_CHECKING:
    from barnabas.pipeline.connect.connectors.sql_database import Database

_TABLE: Final = "barnabas_offsets"
_KEYS: Final = ("job", "topic", "part")
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
        self._database = database
        self._job = job
        self._name = database.table(_TABLE)
        self._place = database.sql.place(self._name, tuple(_COLUMNS))

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
        shown = [self._place.c[name] for name in _COLUMNS if name != "job"]
        sql = self._database.sql
        query = sql.query(shown, self._place, [self._place.c.job == sql.marked(self._job)])
        return {
            (topic, partition): StoredPosition(following, batch, bool(is_confirmed))
            for topic, partition, following, batch, is_confirmed in self._database.fetch(query)
        }

    def write(
        self, where: TopicPartition, stored: StoredPosition | None, following: int, is_noted: bool
    ) -> None:
        """Write a position in place of the stored one.

        Raises RetriableError when another task has written it since.
        """
        key, batch = self._key(where), 1 if stored is None else stored.batch + 1
        values = {"next": following, "batch": batch, "confirmed": int(is_noted)}
        if stored is None:
            changed = self._database.insert_new(self._place, _KEYS, {**key, **values})
        else:
            matches = {**key, "batch": stored.batch}
            change = self._database.sql.change(self._place, values, matches)
            changed = self._database.execute(change)
        if changed != 1:
            topic, partition = where
            raise RetriableError(
                f"another task of {self._job} has written {topic}-{partition} since this batch "
                "began: the batch is rolled back"
            )

    def confirm(self, where: TopicPartition) -> None:
        """Note that Kafka has committed a batch."""
        change = self._database.sql.change(self._place, {"confirmed": 1}, self._key(where))
        self._database.execute(change)

    def _key(self, where: TopicPartition) -> dict[str, Any]:
        return dict(zip(_KEYS, (self._job, *where), strict=True))
