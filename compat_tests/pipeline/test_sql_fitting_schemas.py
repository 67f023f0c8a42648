"""The schemas of a subject that fit the columns of a query."""

import json
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import types as t

from barnabas.pipeline.connect.registry_client import RegisteredSchema
from barnabas.pipeline.sql.catalog.source_values import Format, SourceColumn
from barnabas.pipeline.sql.planning.fitting_schemas import fits
from barnabas.pipeline.sql.planning.registry_columns import RegistryColumns
from barnabas.pipeline.sql.sql_types import BIGINT, INTEGER, STRING, SqlType, array, struct
from barnabas.pipeline.streams import registry_serdes
from barnabas.pipeline.streams.serdes import SerdeContext


def record(name: str, kind: Any) -> Any:
    return t.StructType([t.StructField(name, kind)])


def fit(kind: SqlType, field: Any, *, name: str = "N") -> bool:
    """Return whether a schema with one field, of Spark's type, fits a column."""
    schema = record(name, field)
    return fits([SourceColumn("N", kind)], schema, is_wrapped=True)


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        (BIGINT, t.IntegerType()),
        (BIGINT, t.LongType()),
        (STRING, t.StringType()),
        (STRING, t.DoubleType()),
        (SqlType("TIMESTAMP"), t.TimestampType()),
        (SqlType("TIMESTAMP"), t.LongType()),
        (SqlType("DOUBLE"), t.FloatType()),
        (array(BIGINT), t.ArrayType(t.IntegerType())),
        (struct([("A", STRING)]), record("a", t.StringType())),
        (SqlType("MAP", (STRING, INTEGER)), t.MapType(t.StringType(), t.IntegerType())),
    ],
)
def test_field_of_the_type_or_of_a_narrower_one_fits(kind: SqlType, field: Any) -> None:
    assert fit(kind, field)
    assert fit(kind, field, name="n")


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        (BIGINT, t.StringType()),
        (INTEGER, t.LongType()),
        (STRING, t.ArrayType(t.StringType())),
        (SqlType("BOOLEAN"), t.IntegerType()),
        (array(BIGINT), t.ArrayType(t.StringType())),
        (array(BIGINT), t.LongType()),
        (struct([("A", STRING)]), record("b", t.StringType())),
        (SqlType("MAP", (STRING, INTEGER)), t.MapType(t.StringType(), t.StringType())),
    ],
)
def test_field_of_another_type_does_not_fit(kind: SqlType, field: Any) -> None:
    assert not fit(kind, field)


def test_schema_without_a_column_does_not_fit() -> None:
    assert not fit(STRING, t.StringType(), name="other")


def test_value_without_a_record_is_the_column() -> None:
    column = [SourceColumn("N", BIGINT)]
    assert fits(column, t.IntegerType(), is_wrapped=False)
    assert not fits(column, t.StringType(), is_wrapped=False)


def avro(kind: str) -> RegisteredSchema:
    fields = [{"name": "n", "type": kind}]
    text = json.dumps({"type": "record", "name": "R", "fields": fields})
    return RegisteredSchema("AVRO", text)


class Registry:
    """A registry whose subject has three versions, of which the first one fits a BIGINT."""

    schemas: ClassVar = {7: avro("long"), 8: avro("string"), 9: avro("boolean")}
    requested: ClassVar[list[int]] = []

    def __init__(self, urls: str) -> None:
        assert urls

    def latest(self, subject: str) -> tuple[int, RegisteredSchema]:
        assert subject == "t-value"
        return 9, self.schema_of(9)

    def ids_of_versions(self, subject: str) -> Iterator[int]:
        assert subject == "t-value"
        return iter([9, 8, 7])

    def schema_of(self, schema_id: int) -> RegisteredSchema:
        self.requested.append(schema_id)
        return self.schemas[schema_id]


def test_newest_schema_that_does_not_fit_is_requested_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_serdes, "RegistryClient", Registry)
    columns = RegistryColumns((SourceColumn("N", BIGINT),), Format("AVRO"), writes=False)
    found = columns.prepared(SerdeContext("t", "value", "http://registry"))
    assert isinstance(found, RegistryColumns)
    assert found.inner.schema_id == 7
    assert Registry.requested == [9, 8, 7]
