"""The common part of the databases that a server has: names, percent signs, columns of queries."""

import abc
from collections.abc import Callable, Collection, Sequence
from typing import Any

from barnabas.pipeline.connect.connectors.database_access import (
    Column,
    TableName,
    in_quotes,
    listed,
    table_of,
)
from barnabas.pipeline.data.connect_errors import ConnectError, DataError
from barnabas.pipeline.data.connect_schema import Schema


class ServerDatabase(abc.ABC):
    """A connection whose driver has `%s` for a parameter."""

    mark: str = "%s"

    def __init__(self, quote: str, convert: Callable[[Schema, Any], Any]) -> None:
        """Take the character around an identifier, and what converts a value of the driver."""
        self._quote = quote
        self._convert = convert

    @abc.abstractmethod
    def described(self, source: str) -> list[Column]:
        """Return the columns of a table, or of a query in brackets, as FROM names it."""

    def table(self, text: str) -> TableName:
        """Return the table of "table" or "schema.table". Raises ConnectError.

        A schema of MariaDB and MySQL is a database.
        """
        return table_of(text)

    def columns_of_query(self, query: str) -> list[Column]:
        """Return the columns of a query's result."""
        return self.described(f"({self.escaped(query)}) q")

    def escaped(self, text: str) -> str:
        """Return a part of a statement whose percent signs are not parameters."""
        return text.replace("%", "%%")

    def quoted(self, name: str) -> str:
        """Return an identifier in quotes."""
        return self.escaped(in_quotes(name, self._quote))

    def reference(self, table: TableName) -> str:
        """Return the quoted name of a table."""
        return ".".join(self.quoted(part) for part in (table.schema, table.table) if part)

    def value(self, column: Column, value: Any) -> Any:
        """Return a value of the driver as one of the column's schema. Raises DataError."""
        try:
            return self._convert(column.schema, value)
        except DataError as error:
            raise DataError(f"column {column.name}: {error}") from error


def check_table_types(types: Sequence[str], known: Collection[str]) -> None:
    """Raise ConnectError for a value of `table.types` that a database does not have."""
    unknown = [each for each in types if each.upper() not in known]
    if unknown:
        raise ConnectError(f"table.types={listed(unknown)}: known types: {listed(known)}")
