"""Start a row source: one of Spark's streaming sources, whose rows are written in micro-batches.

The checkpoint has the source's position. Rows are converted, then dealt out by key, or by value
where there is no key, so that a micro-batch that is repeated has the same rows in each task.
"""

import functools
from typing import Any, Final

from barnabas.config import ConfigError
from barnabas.pipeline.connect.connectors.spark_sink import DELTA, ICEBERG, TABLE_FORMATS
from barnabas.pipeline.connect.connectors.spark_source import (
    FILES,
    SparkSourceSettings,
    data_source,
)
from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.definitions.config_types import ConfigValueError
from barnabas.pipeline.delivery import worker_tasks
from barnabas.pipeline.delivery.driver.cluster_state import ClusterState
from barnabas.pipeline.delivery.driver.query_job import QueryJob
from barnabas.pipeline.delivery.driver.spark_library import DataFrame, SparkSession, pyspark
from barnabas.pipeline.delivery.lake.hadoop_files import HadoopFiles
from barnabas.pipeline.delivery.lake.lake_job import check_libraries
from barnabas.pipeline.delivery.lake.source_rows import CORRUPT, RowsPlan
from barnabas.pipeline.delivery.micro_batches import micro_batch_job, query_version
from barnabas.pipeline.delivery.micro_batches.query_version import QueryVersion
from barnabas.pipeline.delivery.plan.job_plan import JobPlan
from barnabas.pipeline.delivery.plan.task_failures import JobStartError, refused
from barnabas.pipeline.delivery.plan.task_plans import task_plan
from barnabas.pipeline.delivery.rows import collected_rows
from barnabas.pipeline.delivery.rows.spark_columns import connect_schema

_GLOB: Final = "*?[{"
_LINES: Final = ("csv", "json")
"""The formats of lines, some of which may not be rows."""
_LINE_OPTIONS: Final = ("mode", "columnnameofcorruptrecord")
"""The options of a reader with which the user chooses the outcome of such a line."""
_OF_PACE: Final = ("trigger.ms", "batch.records.max", "records.per.second.max", "isolation")
"""Properties that do not decide the rows of a micro-batch that was begun."""
_ANALYSIS: Final = ("AnalysisException", "UNSUPPORTED", "PARSE_SYNTAX_ERROR", "DATA_SOURCE_NOT")
_ABSENT: Final = ("PATH_NOT_FOUND", "DELTA_SCHEMA_NOT_SET", "DELTA_TABLE_NOT_FOUND")
"""Errors of Spark when the files or the table are not there yet."""
_FIRST_FILES: Final = {DELTA: "/_delta_log", ICEBERG: "/metadata/version-hint.text"}
"""The file of a table that is there when the table is."""


def start(session: SparkSession, plan: JobPlan) -> QueryJob:
    """Start the query. Raises JobStartError."""
    try:
        settings = SparkSourceSettings.of(plan.properties)
        check_libraries(session, settings.format)
        _check_path(HadoopFiles(session), settings)
        own = session.newSession()
        own.conf.set("spark.sql.shuffle.partitions", str(settings.tasks))
        frame = _rows(own, settings)
        columns = _columns(frame)
        connect_schema(columns)
        _check_key(settings, columns)
        task = task_plan(plan, topic_ids={})
        ClusterState(task.consumer).create_dead_letter_topic(plan.properties)
        rows = RowsPlan(task, columns, settings.topic, settings.key_column)
        records = _records(frame, rows)
        version = _version(plan, settings)
        return micro_batch_job.start(plan, records, settings.checkpoint, "append", version)
    except (ConfigError, ConfigValueError, DataError) as error:
        raise refused(str(error)) from error
    except JobStartError:
        raise
    except Exception as error:
        text = f"{type(error).__name__} {error}"
        is_absent = any(mark in text for mark in _ABSENT)
        is_permanent = not is_absent and any(mark in text for mark in _ANALYSIS)
        raise refused(str(error), is_permanent=is_permanent) from error


def _check_path(files: HadoopFiles, settings: SparkSourceSettings) -> None:
    """Raise JobStartError when there is nothing at the path yet, which another job may create."""
    path, kind = settings.path, settings.format
    if path is None or kind not in (*FILES, *TABLE_FORMATS) or any(each in path for each in _GLOB):
        return
    if not files.exists(path + _FIRST_FILES.get(kind, "")):
        raise refused(
            f"the path {path} does not exist yet; the job is started again until it does",
            is_permanent=False,
        )


def _version(plan: JobPlan, settings: SparkSourceSettings) -> QueryVersion:
    """Return what the position depends on; other properties of the job may change."""
    parts = {
        "spark.format": settings.format,
        "path": settings.path or "",
        "tasks.write": str(settings.tasks),
    }
    deciding = {
        name: value
        for name, value in plan.properties.items()
        if name not in _OF_PACE and not name.startswith("application.")
    }
    return query_version.of_properties(parts, deciding)


def _rows(session: SparkSession, settings: SparkSourceSettings) -> DataFrame:
    """Return the rows of the source."""
    own = data_source(settings.format)
    if own is not None:
        session.dataSource.register(own)
    reader = session.readStream.format(settings.format).options(**settings.options)
    if _finds_damaged_lines(settings):
        reader = reader.option("columnNameOfCorruptRecord", CORRUPT)
        reader = reader.schema(_schema(settings).add(CORRUPT, "string"))
    elif settings.schema:
        reader = reader.schema(_schema(settings))
    return reader.load(settings.path) if settings.path is not None else reader.load()


def _schema(settings: SparkSourceSettings) -> Any:
    return pyspark("sql.types").StructType.fromDDL(settings.schema)


def _finds_damaged_lines(settings: SparkSourceSettings) -> bool:
    """True when damaged lines fail as records instead of becoming rows of nulls."""
    chosen = {name.lower() for name in settings.options}
    return settings.format in _LINES and chosen.isdisjoint(_LINE_OPTIONS)


def _columns(frame: DataFrame) -> dict[str, Any]:
    """Return the columns of the source in Spark's JSON."""
    found: dict[str, Any] = frame.schema.jsonValue()
    return {**found, "fields": [each for each in found["fields"] if each["name"] != CORRUPT]}


def _check_key(settings: SparkSourceSettings, columns: dict[str, Any]) -> None:
    names = [each["name"] for each in columns["fields"]]
    if settings.key_column is not None and settings.key_column not in names:
        raise refused(
            f"key.column={settings.key_column} is not a column of the source: it has "
            f"{', '.join(names)}"
        )


def _records(frame: DataFrame, plan: RowsPlan) -> DataFrame:
    functions = pyspark("sql.functions")
    convert: Any = functools.partial(worker_tasks.source_rows, plan)
    if plan.task.records_per_second_max:
        frame = frame.coalesce(1)
    records = frame.mapInArrow(convert, collected_rows.SCHEMA)
    return records.repartition(functions.coalesce("key", "value", functions.lit(b"")))
