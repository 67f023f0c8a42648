"""An Iceberg table of a lake sink: its creation, and its columns."""

from collections.abc import Mapping
from typing import Any, Final

from barnabas.pipeline.connect.connectors.spark_sink import ICEBERG, SparkSinkSettings
from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.delivery.driver import spark_internals
from barnabas.pipeline.delivery.driver.spark_library import SparkSession, pyspark

_WIDENED: Final = ("byte", "short")
"""Types of Spark that Iceberg lacks: their columns are integers."""


def widened(kind: Any) -> Any:
    """Return a type in Spark's JSON with columns that Iceberg has."""
    if isinstance(kind, str):
        return "integer" if kind in _WIDENED else kind
    if kind["type"] == "struct":
        fields = [{**each, "type": widened(each["type"])} for each in kind["fields"]]
        return {**kind, "fields": fields}
    inner = ("elementType", "keyType", "valueType")
    return {name: widened(part) if name in inner else part for name, part in kind.items()}


def exists(session: SparkSession, path: str) -> bool:
    """True when there is a table at a path."""
    return bool(_tables(session).exists(path))


def prepare(session: SparkSession, settings: SparkSinkSettings, columns: dict[str, Any]) -> None:
    """Create the table if there is none. Raises DataError when it has other columns."""
    jvm: Any = spark_internals.jvm(session)
    if not exists(session, settings.path):
        rows: Any = session.createDataFrame([], pyspark("sql.types").StructType.fromJson(columns))
        schema = jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert(
            spark_internals.java_schema(rows)
        )
        parts = jvm.org.apache.iceberg.PartitionSpec.builderFor(schema)
        for name in settings.partition_by:
            parts = parts.identity(name)
        _tables(session).create(schema, parts.build(), settings.path)
    table = session.read.format(ICEBERG).load(settings.path)
    _check_columns(settings.path, columns, table.schema.jsonValue())


def _tables(session: SparkSession) -> Any:
    """Return Iceberg's tables without a catalog."""
    jvm: Any = spark_internals.jvm(session)
    configuration: Any = spark_internals.hadoop_configuration(session)
    return jvm.org.apache.iceberg.hadoop.HadoopTables(configuration)


def _check_columns(path: str, columns: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Raise DataError for a table that does not take rows of these columns."""
    wanted, present = (
        {each["name"]: _shape(each["type"]) for each in kind["fields"]} for kind in (columns, found)
    )
    for name, kind in wanted.items():
        if present.get(name) != kind:
            there = f"{name} {present[name]}" if name in present else f"no column {name}"
            raise DataError(
                f"the rows have the column {name} {kind}, the table {path} has {there}: set "
                "schema, or another path"
            )
    for each in found["fields"]:
        if each["name"] not in wanted:
            raise DataError(f"the table {path} has the column {each['name']}, which the rows lack")
        if not each["nullable"]:
            raise DataError(f"the column {each['name']} of the table {path} takes no nulls")


def _shape(kind: Any) -> str:
    """Return a type without the notes that a table adds to it."""
    if isinstance(kind, str):
        return kind
    if kind["type"] == "struct":
        inner = ", ".join(f"{each['name']} {_shape(each['type'])}" for each in kind["fields"])
        return f"struct<{inner}>"
    parts = [_shape(kind[n]) for n in ("keyType", "valueType", "elementType") if n in kind]
    return f"{kind['type']}<{', '.join(parts)}>"
