"""INSERT INTO .. VALUES: one row, encoded by the formats of its source, produced to the topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.pipeline.sql.analysis.relations import Relations
from barnabas.pipeline.sql.functions.casts import cast
from barnabas.pipeline.sql.functions.typed_expressions import typed
from barnabas.pipeline.sql.planning.column_structs import struct_of
from barnabas.pipeline.sql.planning.sql_serdes import key_serde, value_serde
from barnabas.pipeline.sql.sql_failures import UnresolvedError, nearest
from barnabas.pipeline.sql.sql_types import BIGINT, NULL, SqlType, to_spark, widens
from barnabas.pipeline.streams.serdes import SerdeContext, functions

if TYPE_CHECKING:
    from sqlglot import expressions as exp

    from barnabas.pipeline.sql.catalog.catalog_changes import Catalog
    from barnabas.pipeline.sql.catalog.source_values import Source
    from barnabas.pipeline.sql.functions.literals import TypedExpression
    from barnabas.pipeline.sql.statement_values import InsertValues
    from barnabas.pipeline.streams.serdes import Column


class InsertedRow:
    """The row of one statement: its source, the bytes of key and value, and its time.

    Raises UnresolvedError, SqlError.
    """

    def __init__(self, statement: InsertValues, catalog: Catalog) -> None:
        """Check the columns and the types of the values."""
        self.source = catalog.source(statement.target)
        if self.source.is_read_only:
            raise UnresolvedError(f"{self.source.name} is a SOURCE, which is only read")
        if self.source.window is not None:
            raise UnresolvedError(f"{self.source.name} has windows: INSERT INTO does not take it")
        self._values = _values(statement, self.source, Relations((), catalog.types, "VALUES"))
        if self.source.is_table and any(each.name not in self._values for each in self.source.key):
            raise UnresolvedError(f"A row of the table {self.source.name} needs its key")

    def encoded(self, session: Any, registry: str) -> tuple[bytes | None, bytes | None, int | None]:
        """Return key, value and time in milliseconds, None for the present time."""
        key = [(each.name, self._column(each.name, each.type)) for each in self.source.key]
        value = [(each.name, self._column(each.name, each.type)) for each in self.source.value]
        time = self._column("ROWTIME", BIGINT)
        rows = session.range(1).select(
            struct_of(key).alias("key"), struct_of(value).alias("value"), time.alias("time")
        )
        f, source = functions(), self.source
        serdes = {
            "key": key_serde(source, with_window=False, writes=True),
            "value": value_serde(source, writes=True),
        }
        contexts = {side: SerdeContext(source.topic, side, registry) for side in serdes}
        (row,) = rows.select(
            *[
                serde.prepared(contexts[side]).encode(f.col(side)).alias(side)
                for side, serde in serdes.items()
            ],
            "time",
        ).collect()
        return _bytes(row["key"]), _bytes(row["value"]), row["time"]

    def _column(self, name: str, kind: SqlType) -> Column:
        found = self._values.get(name)
        if found is None or found.type == NULL:
            return functions().lit(None).cast(to_spark(kind))
        return cast(found.column(_no_column), found.type, kind)


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
        if not widens(value.type, types[name]) and value.type.name != "STRING":
            raise UnresolvedError(
                f"The column {name} is {types[name]}, and its value is {value.type}: use CAST"
            )
        found[name] = value
    return found
