"""The forms in which the rows of a query are sent.

Rows behind which a message comes end with a line each, so that a client sees a row when it comes.
Those of a table's present state are separated, so that the array is valid without a last message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from barnabas.pipeline.sql import exact_json
from barnabas.pipeline.sql.shell.answer_values import DeletedRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from barnabas.pipeline.rest.sql.sql_errors import SqlRestError
    from barnabas.pipeline.sql.shell.answer_values import Rows

V1_JSON: Final = "application/vnd.ksql.v1+json"
JSON: Final = "application/json"
DELIMITED: Final = "application/vnd.ksqlapi.delimited.v1"
_LIMIT: Final = "Limit Reached"
_COMPLETED: Final = "Query Completed"


def dumps(value: Any) -> bytes:
    """Return compact JSON."""
    return exact_json.dumps(value).encode()


class RowFormat(Protocol):
    """Makes the parts of a response."""

    content_type: str

    def head(self) -> bytes:
        """Return what is before the first row."""
        ...

    def rows(self, rows: Sequence[Sequence[Any]]) -> bytes:
        """Return rows."""
        ...

    def failed(self, error: SqlRestError) -> bytes:
        """Return an error, and the end."""
        ...

    def end(self) -> bytes:
        """Return the end."""
        ...


def _metadata(rows: Rows) -> dict[str, Any]:
    return {
        "queryId": rows.query_id,
        "columnNames": list(rows.names),
        "columnTypes": [str(each.type) for each in rows.columns],
    }


class DelimitedRows:
    """A line with the columns, then a line with an array for each row."""

    content_type = DELIMITED

    def __init__(self, rows: Rows) -> None:
        self._metadata = _metadata(rows)

    def head(self) -> bytes:
        """Return the line with the columns."""
        return dumps(self._metadata) + b"\n"

    def rows(self, rows: Sequence[Sequence[Any]]) -> bytes:
        """Return the lines of rows."""
        return b"".join(dumps(row) + b"\n" for row in rows)

    def failed(self, error: SqlRestError) -> bytes:
        """Return the line of an error."""
        return dumps(error.body()) + b"\n"

    def end(self) -> bytes:
        """Return nothing."""
        return b""


class PrintedText:
    """Lines of PRINT; an error is the last line."""

    content_type = "text/plain; charset=utf-8"

    def head(self) -> bytes:
        """Return nothing."""
        return b""

    def rows(self, rows: Sequence[Sequence[Any]]) -> bytes:
        """Return the lines of records."""
        return "".join(f"{row[0]}\n" for row in rows).encode()

    def failed(self, error: SqlRestError) -> bytes:
        """Return the line of an error."""
        return f"{error.message}\n".encode()

    def end(self) -> bytes:
        """Return nothing."""
        return b""


class PrintedArrays(PrintedText):
    """Lines of PRINT as arrays of one text, from which an object with an error differs."""

    content_type = DELIMITED

    def rows(self, rows: Sequence[Sequence[Any]]) -> bytes:
        """Return the lines of records."""
        return b"".join(dumps([row[0]]) + b"\n" for row in rows)

    def failed(self, error: SqlRestError) -> bytes:
        """Return the line of an error."""
        return dumps(error.body()) + b"\n"


class _Array:
    """An array of JSON whose elements come one by one."""

    def __init__(self, *, has_end: bool) -> None:
        self._has_end = has_end

    def first(self, element: Any) -> bytes:
        return b"[" + dumps(element) + (b",\n" if self._has_end else b"")

    def more(self, elements: Iterable[Any]) -> bytes:
        if self._has_end:
            return b"".join(dumps(each) + b",\n" for each in elements)
        return b"".join(b",\n" + dumps(each) for each in elements)

    def last(self, element: Any) -> bytes:
        """Return the last element, which an array of `has_end` must have, and the end."""
        if element is None:
            return b"]\n"
        return (b"" if self._has_end else b",\n") + dumps(element) + b"]\n"


class StreamedRows:
    """An array of objects: header, row, errorMessage, finalMessage."""

    content_type = V1_JSON

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._array = _Array(has_end=rows.table_key is None)
        self._sent = 0

    def head(self) -> bytes:
        """Return the header, in which a table's key is named."""
        key = self._rows.table_key or ()
        columns = [f"{each} KEY" if each.name in key else str(each) for each in self._rows.columns]
        schema = ", ".join(columns)
        return self._array.first({"header": {"queryId": self._rows.query_id, "schema": schema}})

    def rows(self, rows: Sequence[Sequence[Any]]) -> bytes:
        """Return rows."""
        self._sent += len(rows)
        return self._array.more({"row": row_json(each)} for each in rows)

    def failed(self, error: SqlRestError) -> bytes:
        """Return an error message, and the end."""
        return self._array.last({"errorMessage": error.body()})

    def end(self) -> bytes:
        """Return the final message, which a table's present state does not have, and the end."""
        if self._rows.table_key is not None:
            return self._array.last(None)
        limit = self._rows.limit
        message = _LIMIT if limit is not None and self._sent >= limit else _COMPLETED
        return self._array.last({"finalMessage": message})


def row_json(row: Sequence[Any]) -> dict[str, Any]:
    """Return the JSON of a row, which says when a table no longer has it."""
    found: dict[str, Any] = {"columns": row}
    return {**found, "tombstone": True} if isinstance(row, DeletedRow) else found


class ArrayRows:
    """One array: an object with the columns, then an array for each row."""

    content_type = JSON

    def __init__(self, rows: Rows) -> None:
        self._metadata = _metadata(rows)
        self._array = _Array(has_end=False)

    def head(self) -> bytes:
        """Return the object with the columns."""
        return self._array.first(self._metadata)

    def rows(self, rows: Sequence[Sequence[Any]]) -> bytes:
        """Return rows."""
        return self._array.more(rows)

    def failed(self, error: SqlRestError) -> bytes:
        """Return an error, and the end."""
        return self._array.last(error.body())

    def end(self) -> bytes:
        """Return the end."""
        return self._array.last(None)


FORMATS: Final = {V1_JSON: StreamedRows, JSON: ArrayRows, DELIMITED: DelimitedRows}
"""By their content types."""
PRINTED: Final = {DELIMITED: PrintedArrays}
"""Those of PRINT beside its text."""
