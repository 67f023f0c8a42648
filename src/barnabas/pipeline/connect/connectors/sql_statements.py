"""Statements of the JDBC connectors, written by SQLAlchemy for the dialect of a database."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

import attrs
from sqlalchemy import (
    ClauseElement,
    Column,
    ColumnElement,
    Dialect,
    MetaData,
    Table,
    TableClause,
    bindparam,
    column,
    delete,
    func,
    insert,
    quoted_name,
    select,
    table,
    text,
    update,
)
from sqlalchemy.schema import CreateTable
from sqlalchemy.types import NullType

from barnabas.pipeline.connect.connectors.column_types import ColumnTypes
from barnabas.pipeline.connect.connectors.database_access import TableName
from barnabas.pipeline.connect.connectors.jdbc_rows import RowForm
from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.data.connect_schema import Schema

Expression: TypeAlias = ColumnElement[Any]
Upsert: TypeAlias = Callable[[TableClause, Sequence[str], Sequence[str]], Any]
"""Returns an INSERT into a table that replaces values of a row with the same keys, by names.

Without values the row stays as it is, and is not counted as changed. Raises ConnectError.
"""


@attrs.frozen
class SqlStatements:
    """Statements for one database. Parameters have no type: the driver takes values as they are."""

    dialect: Dialect
    types: ColumnTypes
    upsert: Upsert
    is_quoted: bool = True
    """False when a name has quotes only where the database needs them."""

    def compiled(self, statement: str | ClauseElement) -> tuple[str, Any]:
        """Return a statement as the driver takes it: its text and its parameters."""
        if isinstance(statement, str):
            return statement, ()
        found = statement.compile(dialect=self.dialect)
        names: Sequence[str] | None = getattr(found, "positiontup", None)
        values = dict(found.params or {})
        return str(found), values if names is None else tuple(values[each] for each in names)

    def place(self, source: TableName | str, columns: Sequence[str] = ()) -> Any:
        """Return what FROM names: a table with some columns, or a query in brackets."""
        if isinstance(source, str):
            # A colon would begin a parameter.
            return text(f"({source.replace(':', chr(92) + ':')}) q")
        named = [self.column(each) for each in columns]
        return table(self._name(source.table), *named, schema=self._schema(source))

    def column(self, name: str) -> Any:
        """Return the expression of a column."""
        return column(self._name(name), NullType())

    @staticmethod
    def marked(value: Any = None) -> Any:
        """Return a parameter whose value the driver takes as it is."""
        return bindparam(None, value, type_=NullType(), unique=True)

    @staticmethod
    def query(
        columns: Sequence[Any], place: Any, matches: Sequence[Any], order: Sequence[Any] = ()
    ) -> Any:
        """Return the query of rows that match all conditions."""
        return select(*columns).select_from(place).where(*matches).order_by(*order)

    def selection(self, place: TableClause, columns: Sequence[str], keys: Sequence[str]) -> str:
        """Return the query of columns by keys, without values."""
        shown = [place.c[name] for name in columns]
        return self._text(self.query(shown, place, self._matches(place, keys)))

    def change(self, place: TableClause, columns: Sequence[str], keys: Sequence[str]) -> str:
        """Return the statement that sets columns by keys, without values."""
        changes = [(place.c[name], self.marked()) for name in columns]
        conditions = self._matches(place, keys)
        return self._text(update(place).where(*conditions).ordered_values(*changes))

    def new_row(self, place: TableClause, keys: Sequence[str]) -> str:
        """Return the statement that inserts a row unless its key exists, without values."""
        return self._text(
            self.upsert(place, keys, ()).values({c.name: self.marked() for c in place.c})
        )

    def _matches(self, place: TableClause, keys: Sequence[str]) -> list[Expression]:
        return [place.c[name] == self.marked() for name in keys]

    def all_of(self, source: TableName | str) -> Any:
        """Return the query of all columns of a table or a query."""
        return select(text("*")).select_from(self.place(source))

    def reference(self, name: TableName) -> str:
        """Return the name of a table in quotes."""
        return self.dialect.identifier_preparer.format_table(self.place(name))

    def writing(self, mode: str, name: TableName, form: RowForm) -> str:
        """Return the statement that writes rows of a form, without values. Raises DataError."""
        place = self.place(name, [cell.name for cell in form.cells])
        keys, values = [cell.name for cell in form.keys], [cell.name for cell in form.values]
        if form.is_deletion:
            return self._text(delete(place).where(*self._matches(place, keys)))
        if mode == "update":
            if not values:
                raise DataError(f"insert.mode=update: a record of {name} has no field to set")
            return self.change(place, values, keys)
        new = self.upsert(place, keys, values) if mode == "upsert" else insert(place)
        return self._text(new.values({c.name: self.marked() for c in place.c}))

    def creation(
        self, name: TableName, columns: Mapping[str, Schema], keys: Collection[str]
    ) -> str:
        """Return the statement that creates a table. Raises DataError."""
        defined = [
            Column(
                self._name(each),
                self.types.of(schema, is_key=each in keys),
                nullable=schema.optional and each not in keys,
                primary_key=each in keys,
                autoincrement=False,
            )
            for each, schema in columns.items()
        ]
        return self._text(CreateTable(self._defined(name, defined)))

    def addition(self, name: TableName, column: str, schema: Schema) -> str:
        """Return the statement that adds a column to a table. Raises DataError."""
        added = Column(self._name(column), self.types.of(schema))
        self._defined(name, [added])
        make_compiler: Any = self.dialect.ddl_compiler
        compiler = make_compiler(self.dialect, None)
        definition = compiler.get_column_specification(added)
        return f"ALTER TABLE {self.reference(name)} ADD {definition}"

    def _defined(self, name: TableName, columns: Sequence[Column[Any]]) -> Table:
        return Table(
            self._name(name.table),
            MetaData(),
            *columns,
            schema=self._schema(name),
            mysql_engine="InnoDB",
        )

    def _text(self, statement: ClauseElement) -> str:
        return str(statement.compile(dialect=self.dialect)).strip()

    def _schema(self, name: TableName) -> str | None:
        return self._name(name.schema) if name.schema else None

    def _name(self, name: str) -> str:
        return quoted_name(name, True) if self.is_quoted else name


def first_of(expressions: Sequence[Any]) -> Any:
    """Return the expression of the first that has a value."""
    return expressions[0] if len(expressions) == 1 else func.coalesce(*expressions)


def on_conflict(new: Any, keys: Sequence[str], values: Sequence[str]) -> Any:
    """Return an INSERT that replaces values, as PostgreSQL and SQLite have it."""
    if not values:
        return new.on_conflict_do_nothing(index_elements=keys)
    changes = {each: new.excluded[each] for each in values}
    return new.on_conflict_do_update(index_elements=keys, set_=changes)
