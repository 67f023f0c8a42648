"""Records as rows of tables, exactly once: rows and positions are in one database transaction.

The table `barnabas_offsets` has the next offset of each partition, the number of the batch that
wrote it, and whether Kafka is known to have committed a batch. A batch whose database transaction
was committed and whose Kafka transaction was not is read again, and its rows are skipped. The
batch's number is also the note in Kafka: when the note is missing although Kafka had it, a user has
set the offsets, and the database follows them.

Where a new table or column commits the transaction, the rows so far are committed before it, with
the positions after them: as after a failure, they are skipped when the batch is read again.

The position of a batch is written only when it still is the one after which the batch began. So a
task that was suspended, and wakes up after another has taken its place, rolls back.
"""

from collections.abc import Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

import attrs

from barnabas.pipeline.connect.connectors.database_access import (
    DatabaseSettings,
    TableName,
    connect,
)
from barnabas.pipeline.connect.connectors.jdbc_config import SINK
from barnabas.pipeline.connect.connectors.jdbc_positions import JdbcPositions, StoredPosition
from barnabas.pipeline.connect.connectors.jdbc_rows import (
    Cell,
    RowForm,
    SinkSettings,
    form_key,
    form_of,
    marked_cells,
)
from barnabas.pipeline.connect.connectors.jdbc_validation import raise_first, sink_errors
from barnabas.pipeline.connect.plugin_api import (
    CommittedPosition,
    Properties,
    SinkTask,
    TopicPartition,
)
from barnabas.pipeline.data.connect_errors import ConnectError
from barnabas.pipeline.data.records import SinkRecord
from barnabas.pipeline.definitions.config_def import ConfigDef
from barnabas.pipeline.definitions.config_types import ParsedValue

if TYPE_CHECKING:
    from barnabas.pipeline.connect.connectors.sql_database import (
        Database,
        Parameters,
        ResultColumn,
    )


@attrs.frozen
class _Writing:
    """The table, the statement and its parameters, for rows of one form."""

    table: TableName
    form: RowForm
    statement: str
    cells: tuple[Cell, ...]


class JdbcSinkTask(SinkTask):
    """Writes rows in one database transaction for each batch."""

    needs_all_partitions: bool = False

    def __init__(self) -> None:
        self._database: Database | None = None
        self._is_open = False

    def start(self, props: Properties) -> None:
        """Connect, and create the table of offsets. Raises ConnectError."""
        values = SINK.parse(props)
        self._settings = SinkSettings.of(values, props.get("name", ""))
        self._database = connect(DatabaseSettings.of(values))
        self._columns: dict[TableName, set[str]] = {}
        self._writings: dict[Hashable, _Writing] = {}
        try:
            self._positions = JdbcPositions(self._database, self._settings.job)
            self._positions.create()
        except BaseException:
            self.stop()
            raise

    def open(self, positions: Mapping[TopicPartition, CommittedPosition]) -> None:
        """Begin the database transaction, and find what an earlier batch has written."""
        self._begin()
        self._stored = self._positions.read()
        self._reached: dict[TopicPartition, int] = {}
        self._noted = {where for where, position in positions.items() if position.note}
        self._flushed: list[TopicPartition] = []

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Write the rows that an earlier batch has not written. Raises ConnectError."""
        statement, pending = "", list["Parameters"]()
        parameter = self._connected().parameter
        for record in records:
            topic, partition, offset = record.original
            where = topic, partition
            if offset < self._written(where):
                continue
            writing = self._writing(record)
            if writing.statement != statement:
                self._write(statement, pending)
                statement, pending = writing.statement, []
                if not writing.form.is_deletion:
                    self._prepare(writing.table, writing.form)
            pending.append(
                [parameter(cell.schema, cell.value_of(record)) for cell in writing.cells]
            )
            self._reached[where] = offset + 1
        self._write(statement, pending)

    def flush(self, offsets: Mapping[TopicPartition, int]) -> str | None:
        """Commit rows and positions in the database; return the number of the batch.

        Raises RetriableError when another task has written a position since the batch began.
        """
        batch = 0
        for where, following in offsets.items():
            self._store(where, following)
            stored = self._stored.get(where)
            batch = max(batch, 1 if stored is None else stored.batch + 1)
        self._commit()
        self._flushed = [where for where in offsets if where not in self._noted]
        return str(batch)

    def close(self, *, is_committed: bool) -> None:
        """End a batch: one that was not flushed is rolled back."""
        if self._is_open:
            self._is_open = False
            self._columns.clear()
            self._connected().rollback()
        elif is_committed:
            for where in self._flushed:
                self._positions.confirm(where)
        self._flushed = []

    def stop(self) -> None:
        """Close the connection; the database rolls an open transaction back."""
        self._is_open = False
        if self._database is not None:
            self._database.close()
            self._database = None

    def _connected(self) -> "Database":
        if self._database is None:
            raise ConnectError("the task is not started")
        return self._database

    def _begin(self) -> None:
        self._connected().begin()
        self._is_open = True

    def _commit(self) -> None:
        self._connected().commit()
        self._is_open = False

    def _written(self, where: TopicPartition) -> int:
        """Return the offset before which the database has the rows of a partition."""
        stored = self._stored.get(where)
        if stored is None:
            return 0
        is_reset = stored.is_confirmed and where not in self._noted
        return 0 if is_reset else stored.next

    def _store(self, where: TopicPartition, following: int) -> None:
        """Write the position of a partition. Raises RetriableError when it has changed."""
        self._positions.write(where, self._stored.get(where), following, where in self._noted)

    def _writing(self, record: SinkRecord) -> _Writing:
        """Return how a record is written, decided once for records with the same schemas."""
        key = form_key(record)
        found = self._writings.get(key)
        if found is None:
            database, mode = self._connected(), self._settings.mode
            form = form_of(self._settings, record)
            table = database.table(self._settings.table.replace("${topic}", record.topic))
            statement = database.sql.writing(mode, table, form)
            found = _Writing(table, form, statement, marked_cells(mode, form))
            self._writings[key] = found
        return found

    def _write(self, statement: str, parameters: "Sequence[Parameters]") -> None:
        if parameters:
            self._connected().execute_each(statement, parameters)

    def _prepare(self, table: TableName, form: RowForm) -> None:
        """Create the table or add columns, if that is allowed. Raises ConnectError."""
        known = self._columns.get(table)
        names = {cell.name for cell in form.cells}
        if known is None or not names <= known:
            known = self._columns[table] = self._changed(table, form)
        missing = sorted(names - known)
        if missing:
            raise ConnectError(
                f"table {table} has no column {', '.join(missing)} and auto.evolve is false"
            )

    def _changed(self, table: TableName, form: RowForm) -> set[str]:
        """Return the columns of a table, after it has got what is missing."""
        database, settings = self._connected(), self._settings
        columns = _names(database.columns(table))
        if columns and (reason := database.untransactional(table)) is not None:
            raise ConnectError(reason)
        if not columns and not settings.creates:
            raise ConnectError(f"table {table} does not exist and auto.create is false")
        missing = [cell for cell in form.cells if cell.name not in columns]
        if not missing or (columns and not settings.evolves):
            return columns
        with self._definitions():
            columns = _names(database.columns(table))
            if not columns:
                created = {cell.name: cell.schema for cell in form.cells}
                keys = {cell.name for cell in form.keys}
                database.execute(database.sql.creation(table, created, keys))
                return {*created}
            for cell in form.cells:
                if cell.name not in columns:
                    database.execute(database.sql.addition(table, cell.name, cell.schema))
                    columns.add(cell.name)
        return columns

    @contextmanager
    def _definitions(self) -> Generator[None]:
        """Create and change tables in the block, within the transaction or between two."""
        database = self._connected()
        if database.are_definitions_transactional:
            with database.definitions():
                yield
            return
        self._save()
        with database.definitions():
            yield
        self._begin()

    def _save(self) -> None:
        """Commit the rows so far and the positions after them. Raises RetriableError."""
        for where, following in self._reached.items():
            self._store(where, following)
        self._commit()
        for where, following in self._reached.items():
            stored = self._stored.get(where)
            batch = 1 if stored is None else stored.batch + 1
            self._stored[where] = StoredPosition(following, batch, where in self._noted)
        self._reached.clear()


def _names(columns: "Sequence[ResultColumn]") -> set[str]:
    return {column.name for column in columns}


class JdbcSinkConnector:
    """Writes tables."""

    kind: ClassVar[str] = "sink"
    java_class = "io.confluent.connect.jdbc.JdbcSinkConnector"

    def config(self) -> ConfigDef:
        """Return the definition of the connector's properties."""
        return SINK

    def config_errors(self, values: Mapping[str, ParsedValue]) -> Iterator[tuple[str, str]]:
        """Return the errors that are seen without a connection."""
        return sink_errors(values)

    def task_configs(self, props: Properties, max_tasks: int) -> list[dict[str, str]]:
        """Return one task; the delivery runs it once for each partition. Raises ConnectError."""
        raise_first(sink_errors(SINK.parse(props)))
        return [dict(props)]

    def sink_task(self) -> type[SinkTask]:
        """Return the class of the tasks."""
        return JdbcSinkTask
