"""Values in the rows of a SELECT as ksqlDB answers them, by the types of their columns.

Rows come as JSON of topics, with times as numbers. ksqlDB's `ApiJsonMapper` writes them as texts,
but inside a STRUCT as numbers, since it writes structs as Kafka's `JsonConverter` does. DECIMAL
keeps its digits; DOUBLE is a float.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from barnabas.pipeline.data.java_calendar import civil_time
from barnabas.pipeline.sql.shell.answer_values import DeletedRow, RowSource

if TYPE_CHECKING:
    from barnabas.pipeline.sql.catalog.source_values import SourceColumn
    from barnabas.pipeline.sql.sql_types import SqlType

_Shown: TypeAlias = "Callable[[Any], Any]"
_EPOCH: Final = date(1970, 1, 1)
_CYCLE_DAYS: Final = 146_097
"""The days of 400 years, after which the calendar repeats."""


def timestamp_text(ms: int) -> str:
    """Return milliseconds since 1970 as SimpleDateFormat does: 2021-11-19T08:10:09.000, in UTC."""
    at = civil_time(ms)
    return (
        f"{at.year:04}-{at.month:02}-{at.day:02}T"
        f"{at.hour:02}:{at.minute:02}:{at.second:02}.{at.millisecond:03}"
    )


def date_text(days: int) -> str:
    """Return days since 1970 as LocalDate does: 2021-11-19, and +10000-01-01."""
    cycles, rest = divmod(days, _CYCLE_DAYS)
    found = _EPOCH + timedelta(rest)
    year = found.year + 400 * cycles
    sign = "+" if year > 9999 else "-" if year < 0 else ""
    return f"{sign}{abs(year):04}-{found.month:02}-{found.day:02}"


def time_text(ms: int) -> str:
    """Return milliseconds of a day as LocalTime does, in whole seconds: 08:10:09, and 08:10."""
    minutes, seconds = divmod(ms // 1000, 60)
    text = f"{minutes // 60:02}:{minutes % 60:02}"
    return f"{text}:{seconds:02}" if seconds else text


def _float(value: Any) -> Any:
    """Return a DOUBLE; NaN and infinities are texts."""
    return float(value) if isinstance(value, Decimal) else value


_TIMES: Final[Mapping[str, _Shown]] = {
    "TIMESTAMP": timestamp_text,
    "DATE": date_text,
    "TIME": time_text,
}


class ShownRows:
    """Rows whose values are as ksqlDB answers them."""

    def __init__(self, rows: RowSource, columns: Sequence[SourceColumn]) -> None:
        """Take the rows, and their columns."""
        self._rows = rows
        self._shown = [_shown_of(each.type) for each in columns]

    def take(self, timeout_s: float) -> list[Sequence[Any]] | None:
        """Return the rows that are there, waiting for the first; None behind the last."""
        rows = self._rows.take(timeout_s)
        if rows is None or not any(self._shown):
            return rows
        return [self._row(row) for row in rows]

    def close(self) -> None:
        """End the query."""
        self._rows.close()

    def _row(self, row: Sequence[Any]) -> Sequence[Any]:
        found = [_of(shown, value) for value, shown in zip(row, self._shown, strict=True)]
        return DeletedRow(found) if isinstance(row, DeletedRow) else found


def _of(shown: _Shown | None, value: Any) -> Any:
    return value if shown is None or value is None else shown(value)


def _shown_of(kind: SqlType, *, is_in_struct: bool = False) -> _Shown | None:
    """Return what makes a value that is not null, None for a type whose values stay."""
    if kind.name == "DOUBLE":
        return _float
    if kind.name == "STRUCT":
        fields = {name: _shown_of(each, is_in_struct=True) for name, each in kind.fields}
        if not any(fields.values()):
            return None
        return lambda value: {name: _of(fields[name], each) for name, each in value.items()}
    if kind.name not in ("ARRAY", "MAP"):
        return None if is_in_struct else _TIMES.get(kind.name)
    element = _shown_of(kind.element, is_in_struct=is_in_struct)
    if element is None:
        return None
    if kind.name == "ARRAY":
        return lambda values: [_of(element, each) for each in values]
    return lambda values: {key: _of(element, each) for key, each in values.items()}
