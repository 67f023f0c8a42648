"""An Iceberg table of a lake sink: its creation, its columns, and the batches that it has.

Iceberg names a data file after the batch and the number of the task. A driver that was killed after
the table's commit repeats the batch, in tasks that may have the same numbers, and would write into
files that the table already has. So a batch of the table is marked as done in the checkpoint before
the query starts.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from barnabas.pipeline.connect.connectors.spark_sink import SparkSinkSettings
from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.delivery.hadoop_files import HadoopFiles
from barnabas.pipeline.delivery.spark_library import SparkSession, pyspark
from barnabas.pipeline.delivery.task_failures import refused

_FORMAT: Final = "iceberg"
_QUERY: Final = "summary['spark.sql.streaming.queryId']"
_EPOCH: Final = "CAST(summary['spark.sql.streaming.epochId'] AS BIGINT)"
_WIDENED: Final = ("byte", "short")
"""Types of Spark that Iceberg lacks: their columns are integers."""
_FIRST_COMMIT: Final = 'v1\n{"nextBatchWatermarkMs":0}'


def widened(kind: Any) -> Any:
    """Return a type in Spark's JSON with columns that Iceberg has."""
    if isinstance(kind, str):
        return "integer" if kind in _WIDENED else kind
    if kind["type"] == "struct":
        fields = [{**each, "type": widened(each["type"])} for each in kind["fields"]]
        return {**kind, "fields": fields}
    inner = ("elementType", "keyType", "valueType")
    return {name: widened(part) if name in inner else part for name, part in kind.items()}


def prepare(session: SparkSession, settings: SparkSinkSettings, columns: dict[str, Any]) -> None:
    """Create the table if there is none, and mark a batch that it has as done.

    Raises DataError when the table has other columns, JobStartError when another checkpoint wrote
    it.
    """
    jvm: Any = session._jvm
    configuration: Any = session._jsc.hadoopConfiguration()
    tables = jvm.org.apache.iceberg.hadoop.HadoopTables(configuration)
    if not tables.exists(settings.path):
        rows: Any = session.createDataFrame([], pyspark("sql.types").StructType.fromJson(columns))
        schema = jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert(rows._jdf.schema())
        parts = jvm.org.apache.iceberg.PartitionSpec.builderFor(schema)
        for name in settings.partition_by:
            parts = parts.identity(name)
        tables.create(schema, parts.build(), settings.path)
    table = session.read.format(_FORMAT).load(settings.path)
    _check_columns(settings.path, columns, table.schema.jsonValue())
    _mark_done(session, HadoopFiles(session), settings)


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


def _mark_done(session: SparkSession, files: HadoopFiles, settings: SparkSinkSettings) -> None:
    checkpoint = settings.checkpoint
    metadata = files.read(f"{checkpoint}/metadata")
    if metadata is None:
        return
    written = _newest_batch(session, settings.path, str(json.loads(metadata)["id"]))
    planned = files.newest(f"{checkpoint}/offsets")
    if written > planned:
        raise refused(
            f"the checkpoint {checkpoint} was rolled back: the table {settings.path} ends at batch "
            f"{written}, the checkpoint at {planned}; set another path"
        )
    done = files.newest(f"{checkpoint}/commits")
    if written > done:
        text = files.read(f"{checkpoint}/commits/{done}") if done >= 0 else None
        files.write(f"{checkpoint}/commits/{written}", text or _FIRST_COMMIT)


def _newest_batch(session: SparkSession, path: str, query_id: str) -> int:
    """Return the newest batch of a query in the table's snapshots, -1 without one."""
    snapshots = session.read.format(_FORMAT).load(f"{path}#snapshots")
    own = snapshots.where(f"{_QUERY} = '{query_id}'").selectExpr(f"max({_EPOCH})")
    found = own.collect()[0][0]
    return -1 if found is None else int(found)
