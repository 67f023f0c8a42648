"""INSERT INTO .. VALUES, and rows as JSON: encoded by the formats of their source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from barnabas.pipeline.sql import exact_json
from barnabas.pipeline.sql.analysis.relations import Relations
from barnabas.pipeline.sql.catalog.source_values import SourceColumn
from barnabas.pipeline.sql.functions.casts import cast
from barnabas.pipeline.sql.functions.typed_expressions import typed
from barnabas.pipeline.sql.planning.column_structs import struct_of
from barnabas.pipeline.sql.planning.json_texts import value_of
from barnabas.pipeline.sql.planning.sql_serdes import JsonColumns, key_serde, value_serde
from barnabas.pipeline.sql.shell.misfit_numbers import misfit
from barnabas.pipeline.sql.sql_failures import UnresolvedError, nearest
from barnabas.pipeline.sql.sql_types import BIGINT, NULL, STRING, SqlType, to_spark, widens
from barnabas.pipeline.streams.serdes import SerdeContext, functions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sqlglot import expressions as exp

    from barnabas.pipeline.sql.catalog.catalog_changes import Catalog
    from barnabas.pipeline.sql.catalog.source_values import Source
    from barnabas.pipeline.sql.functions.literals import TypedExpression
    from barnabas.pipeline.sql.statement_values import InsertValues
    from barnabas.pipeline.streams.serdes import Column

_TIMES: Final = ("DATE", "TIME", "TIMESTAMP")


@dataclass(frozen=True)
class EncodedRow:
    """The bytes of key and value, and the time in milliseconds, None for the present time."""

    key: bytes | None
    value: bytes | None
    time_ms: int | None


def time_problem(time_ms: int | None) -> str:
    """Return why a row cannot have this ROWTIME, "" for one that it can have."""
    if time_ms is None or time_ms > 0:
        return ""
    if time_ms < 0:
        return f"ROWTIME is {time_ms}: the time of a record is not negative"
    return "ROWTIME is 0, for which librdkafka would write the present time: 1 is the next"


class InsertedRow:
    """The row of one statement: its source, the bytes of key and value, and its time.

    Raises UnresolvedError, SqlError.
    """

    def __init__(self, statement: InsertValues, catalog: Catalog) -> None:
        """Check the columns and the types of the values."""
        self.source = _target(statement.target, catalog)
        self._values = _values(statement, self.source, Relations((), catalog.types, "VALUES"))
        if self.source.is_table and any(each.name not in self._values for each in self.source.key):
            raise UnresolvedError(f"A row of the table {self.source.name} needs its key")

    @property
    def left_out(self) -> list[str]:
        """The fields of structs that their columns do not have, and that are not written."""
        types = {each.name: each.type for each in (*self.source.key, *self.source.value)}
        return [
            path
            for name, value in self._values.items()
            if name in types
            for path in _left_out(name, value.type, types[name])
        ]

    def encoded(self, session: Any, registry: str) -> EncodedRow:
        """Return the row as it is written."""
        key = [(each.name, self._column(each.name, each.type)) for each in self.source.key]
        value = [(each.name, self._column(each.name, each.type)) for each in self.source.value]
        time = self._column("ROWTIME", BIGINT)
        rows = session.range(1).select(
            struct_of(key).alias("key"), struct_of(value).alias("value"), time.alias("time")
        )
        encoded = _encoded(rows, self.source, registry).select("key", "value", "time")
        (row,) = encoded.collect()
        problem = time_problem(row["time"])
        if problem:
            raise UnresolvedError(problem)
        return EncodedRow(_bytes(row["key"]), _bytes(row["value"]), row["time"])

    def _column(self, name: str, kind: SqlType) -> Column:
        found = self._values.get(name)
        if found is None or found.type == NULL:
            return functions().lit(None).cast(to_spark(kind))
        return cast(found.column(_no_column), found.type, kind)


class JsonRows:
    """Rows as JSON objects, whose names are those of the columns in any case.

    Columns of times take texts, as in ksqlDB, and numbers, as topics have them.

    Raises UnresolvedError for a source that takes no rows.
    """

    def __init__(self, target: str, catalog: Catalog) -> None:
        """Find the source."""
        self.source = _target(target, catalog)
        self._columns = (*self.source.key, *self.source.value, SourceColumn("ROWTIME", BIGINT))

    def encoded(
        self, rows: Sequence[Mapping[str, Any]], session: Any, registry: str
    ) -> list[EncodedRow | str]:
        """Return each row as it is written, or what is wrong with it."""
        named = [{name.upper().strip("`"): each for name, each in row.items()} for row in rows]
        found: list[EncodedRow | str] = [self._problem(row) for row in named]
        texts = [
            (number, exact_json.dumps(row).encode(errors="replace"))
            for number, row in enumerate(named)
            if not found[number]
        ]
        if texts:
            for row in self._frame(texts, session, registry).collect():
                problem = (
                    f"a value does not have the type of its column: {self.source.schema}"
                    if row["bad"]
                    else time_problem(row["time"])
                )
                key, value = _bytes(row["key"]), _bytes(row["value"])
                found[row["number"]] = problem or EncodedRow(key, value, row["time"])
        return found

    def _problem(self, row: Mapping[str, Any]) -> str:
        names = [each.name for each in self._columns]
        upper = {name.upper(): name for name in names}
        for name in row:
            if name not in upper:
                return f"{self.source.name} has no column {name}{nearest(name, names)}"
        if self.source.is_table and any(row.get(each.name) is None for each in self.source.key):
            return f"A row of the table {self.source.name} needs its key"
        found = [misfit(each.name, row.get(each.name), each.type) for each in self._columns]
        return next(filter(None, found), "")

    def _frame(self, texts: list[tuple[int, bytes]], session: Any, registry: str) -> Any:
        f = functions()
        serde = JsonColumns(tuple(map(_with_text, self._columns)), is_wrapped=True)
        rows = session.createDataFrame(texts, "number int, row binary")
        # Each step is a projection: one expression of all would repeat what it reads.
        rows = rows.select("number", "row", serde.parse(f.col("row")).alias("parsed"))
        is_bad = serde.is_bad(f.col("row"), f.col("parsed"))
        rows = rows.select(
            "number", is_bad.alias("bad"), serde.value(f.col("parsed")).alias("texts")
        )
        given = struct_of([(each.name, _value(f.col("texts"), each)) for each in self._columns])
        rows = rows.select("number", "bad", "texts", given.alias("given"))
        is_bad = f.col("bad")
        for each in filter(_is_time, self._columns):
            is_given = f.col("texts").getField(each.name).isNotNull()
            is_bad |= is_given & f.col("given").getField(each.name).isNull()

        def part(columns: Sequence[SourceColumn]) -> Column:
            fields = [(each.name, f.col("given").getField(each.name)) for each in columns]
            return struct_of(fields)

        values = rows.select(
            "number",
            is_bad.alias("bad"),
            part(self.source.key).alias("key"),
            part(self.source.value).alias("value"),
            f.col("given").getField("ROWTIME").alias("time"),
        )
        return _encoded(values, self.source, registry)


def _is_time(column: SourceColumn) -> bool:
    return column.type.name in _TIMES


def _with_text(column: SourceColumn) -> SourceColumn:
    """Return the column as it is read first: a time as a text."""
    return SourceColumn(column.name, STRING) if _is_time(column) else column


def _value(given: Column, column: SourceColumn) -> Column:
    """Return the value of a column; the text of a time may be its number."""
    value = given.getField(column.name)
    if not _is_time(column):
        return value
    return functions().coalesce(value_of(value, column.type), cast(value, STRING, column.type))


def _target(name: str, catalog: Catalog) -> Source:
    """Return a source that takes rows. Raises UnresolvedError."""
    source = catalog.source(name)
    if source.is_read_only:
        raise UnresolvedError(f"{source.name} is a SOURCE, which is only read")
    if source.window is not None:
        raise UnresolvedError(f"{source.name} has windows: INSERT INTO does not take it")
    return source


def _encoded(rows: Any, source: Source, registry: str) -> Any:
    """Return a frame with the bytes of the structs `key` and `value`, beside its other columns."""
    f = functions()
    serdes = {
        "key": key_serde(source, with_window=False, writes=True),
        "value": value_serde(source, writes=True),
    }
    contexts = {side: SerdeContext(source.topic, side, registry) for side in serdes}
    return rows.withColumns(
        {side: serde.prepared(contexts[side]).encode(f.col(side)) for side, serde in serdes.items()}
    )


def _bytes(data: Any) -> bytes | None:
    return None if data is None else bytes(data)


def _no_column(name: exp.Column) -> Column:
    raise UnresolvedError(f"{name.name} is a column, and VALUES takes none")


def _values(
    statement: InsertValues, source: Source, scope: Relations
) -> dict[str, TypedExpression]:
    types = {each.name: each.type for each in (*source.key, *source.value)}
    names = statement.columns or tuple(types)
    if len(names) != len(statement.values):
        raise UnresolvedError(
            f"There are {len(statement.values)} values for the {len(names)} columns "
            f"{', '.join(names)}"
        )
    types["ROWTIME"] = BIGINT
    found: dict[str, TypedExpression] = {}
    for name, node in zip(names, statement.values, strict=True):
        if name not in types:
            raise UnresolvedError(f"{source.name} has no column {name}{nearest(name, types)}")
        value = typed(node, scope)
        if not _fits(value.type, types[name]) and value.type.name != "STRING":
            raise UnresolvedError(
                f"The column {name} is {types[name]}, and its value is {value.type}: use CAST"
            )
        found[name] = value
    return found


def _left_out(name: str, kind: SqlType, to: SqlType) -> Iterator[str]:
    """Yield the fields of a value that its column does not have, as `COLUMN->FIELD`."""
    if kind.name == to.name == "STRUCT":
        wanted = dict(to.fields)
        for field, each in kind.fields:
            path = f"{name}->{field}"
            if field in wanted:
                yield from _left_out(path, each, wanted[field])
            else:
                yield path
    elif kind.name == to.name:
        for pair in zip(kind.elements, to.elements, strict=True):
            yield from _left_out(name, *pair)


def _fits(kind: SqlType, to: SqlType) -> bool:
    """True for a value that a column takes.

    A struct may leave out fields, which are NULL then; its others are left out, as in ksqlDB.
    """
    if kind.name == to.name == "STRUCT":
        wanted = dict(to.fields)
        return all(_fits(each, wanted[name]) for name, each in kind.fields if name in wanted)
    if kind.name == to.name and kind.elements:
        return all(_fits(*pair) for pair in zip(kind.elements, to.elements, strict=True))
    return widens(kind, to)
