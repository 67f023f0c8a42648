"""The queries of a JDBC source: which rows come after a position, and the position of a row.

Offsets are those of Confluent's JDBC source: `incrementing`, `timestamp` in milliseconds, and
`timestamp_nanos`, the nanoseconds within the timestamp's second.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from barnabas.pipeline.connect.connectors.database_access import TableName, listed
from barnabas.pipeline.data.connect_errors import ConnectError

if TYPE_CHECKING:
    from sqlalchemy import ClauseElement

    from barnabas.pipeline.connect.connectors.sql_database import Database, Moment, ResultColumn
    from barnabas.pipeline.connect.connectors.sql_statements import Expression

_NANOS_PER_MS: Final = 1_000_000
_NANOS_PER_S: Final = 1_000_000_000
_MS_PER_S: Final = 1_000
_INCREMENTING: Final = "incrementing.column.name"
_TIMESTAMP: Final = "timestamp.column.name"


@attrs.frozen
class RowPosition:
    """The row that was read last."""

    incrementing: int | None = None
    nanos: int | None = None

    @classmethod
    def of(cls, offset: Mapping[str, Any]) -> "RowPosition":
        """Return the position of an offset; nothing when there is none."""
        ms, rest = offset.get("timestamp"), offset.get("timestamp_nanos")
        if ms is None:
            return cls(offset.get("incrementing"))
        nanos = ms * _NANOS_PER_MS if rest is None else ms // _MS_PER_S * _NANOS_PER_S + rest
        return cls(offset.get("incrementing"), nanos)

    def offset(self) -> dict[str, Any]:
        """Return the offset of the position."""
        found: dict[str, Any] = {}
        if self.incrementing is not None:
            found["incrementing"] = self.incrementing
        if self.nanos is not None:
            found["timestamp"] = self.nanos // _NANOS_PER_MS
            found["timestamp_nanos"] = self.nanos % _NANOS_PER_S
        return found


@attrs.frozen
class ReadMode:
    """The columns that find new rows; both are missing in mode bulk."""

    incrementing: str = ""
    timestamps: tuple[str, ...] = ()
    delay_ms: int = 0


@attrs.frozen
class RowQuery:
    """A query of a table or of a user's query, with the columns of its rows.

    The timestamp of a row comes after its columns.
    """

    columns: "Sequence[ResultColumn]"
    statement: "ClauseElement"
    moment: "Moment | None"
    incrementing_at: int | None

    def position(self, row: Sequence[Any]) -> RowPosition:
        """Return the position of a row."""
        at = self.incrementing_at
        return RowPosition(
            None if at is None else int(row[at]),
            None if self.moment is None else self.moment.nanos(row[-1]),
        )


def row_query(
    database: "Database", source: TableName | str, mode: ReadMode, position: RowPosition
) -> RowQuery:
    """Return the query of the rows after a position. Raises ConnectError."""
    columns = database.columns(source)
    if not columns:
        raise ConnectError(f"the table {source} does not exist")
    place = str(source) if isinstance(source, TableName) else f"({source}) q"
    stamps = [_column(columns, _TIMESTAMP, name, place) for name in mode.timestamps]
    moment = database.moment(stamps) if stamps else None
    number = (
        _column(columns, _INCREMENTING, mode.incrementing, place) if mode.incrementing else None
    )
    selected = [column.expression for column in columns]
    order: list[Expression] = []
    if moment is not None:
        selected.append(moment.expression)
        order.append(moment.expression)
    if number is not None:
        order.append(number.expression)
    conditions = _conditions(database, moment, number, mode.delay_ms, position)
    query = database.sql.query(selected, database.sql.place(source), conditions, order)
    at = None if number is None else columns.index(number)
    return RowQuery(columns, query, moment, at)


def check_required(database: "Database", table: TableName, mode: ReadMode) -> None:
    """Raise ConnectError when a column of the mode may have no value (validate.non.null)."""
    columns = database.columns(table)
    if not columns:
        raise ConnectError(f"the table {table} does not exist")
    names = [mode.incrementing] if mode.incrementing else []
    for name in names:
        if not _column(columns, _INCREMENTING, name, str(table)).is_required:
            raise ConnectError(_may_be_null(table, _INCREMENTING, name))
    stamps = [_column(columns, _TIMESTAMP, name, str(table)) for name in mode.timestamps]
    if stamps and not any(column.is_required for column in stamps):
        shown = listed(mode.timestamps)
        raise ConnectError(_may_be_null(table, _TIMESTAMP, shown))


def _may_be_null(table: TableName, name: str, value: str) -> str:
    return (
        f"{name}={value}: the column of {table} may be NULL, and such rows would not be read; "
        "declare it NOT NULL, or set validate.non.null=false"
    )


def _conditions(
    database: "Database",
    moment: "Moment | None",
    number: "ResultColumn | None",
    delay_ms: int,
    position: RowPosition,
) -> "list[Expression]":
    """Return the conditions of rows after the position."""
    marked, last = database.sql.marked, position.incrementing
    if moment is None:
        if number is None:
            return []
        after = number.expression.is_not(None) if last is None else number.expression > marked(last)
        return [after]
    end = moment.parameter(database.now_nanos() - delay_ms * _NANOS_PER_MS)
    conditions: list[Expression] = [moment.expression < marked(end)]
    if number is not None:
        conditions.append(number.expression.is_not(None))
    if position.nanos is None:
        return conditions
    reached = moment.parameter(position.nanos)
    later = moment.expression > marked(reached)
    if number is None or last is None:
        return [*conditions, later]
    same = (moment.expression == marked(reached)) & (number.expression > marked(last))
    return [*conditions, same | later]


def _column(columns: "Sequence[ResultColumn]", key: str, name: str, place: str) -> "ResultColumn":
    """Return the column that a property names. Raises ConnectError."""
    for column in columns:
        if column.name == name:
            return column
    raise ConnectError(
        f"{key}={name}: {place} has no such column; name one of its columns: {_names(columns)}"
    )


def _names(columns: "Sequence[ResultColumn]") -> str:
    return listed(column.name for column in columns)
