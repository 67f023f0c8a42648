"""Start a row source: one of Spark's streaming sources, whose rows are written epoch by epoch.

The checkpoint has the source's position. Rows are converted, then dealt out by key, or by value
where there is no key, so that an epoch that is repeated has the same rows in each task.
"""

import functools
from typing import Any, Final

from barnabas.config import ConfigError
from barnabas.pipeline.connect.config_types import ConfigValueError
from barnabas.pipeline.connect.connectors.spark_source import SparkSourceSettings, data_source
from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.delivery import collected_rows, epochs_job, worker_tasks
from barnabas.pipeline.delivery.job_plan import JobPlan
from barnabas.pipeline.delivery.lake_job import check_libraries
from barnabas.pipeline.delivery.query_job import QueryJob
from barnabas.pipeline.delivery.source_rows import RowsPlan
from barnabas.pipeline.delivery.spark_columns import connect_schema
from barnabas.pipeline.delivery.spark_library import DataFrame, SparkSession, pyspark
from barnabas.pipeline.delivery.task_failures import JobStartError, refused
from barnabas.pipeline.delivery.task_plans import task_plan

_ANALYSIS: Final = ("AnalysisException", "UNSUPPORTED", "PARSE_SYNTAX_ERROR", "DATA_SOURCE_NOT")


def start(session: SparkSession, plan: JobPlan) -> QueryJob:
    """Start the query. Raises JobStartError."""
    try:
        settings = SparkSourceSettings.of(plan.properties)
        check_libraries(session, settings.format)
        own = session.newSession()
        own.conf.set("spark.sql.shuffle.partitions", str(settings.tasks))
        frame = _rows(own, settings)
        columns: dict[str, Any] = frame.schema.jsonValue()
        connect_schema(columns)
        _check_key(settings, columns)
        rows = RowsPlan(task_plan(plan, topic_ids={}), columns, settings.topic, settings.key_column)
        records = _records(frame, rows)
        return epochs_job.start(plan, records, settings.checkpoint, "append")
    except (ConfigError, ConfigValueError, DataError) as error:
        raise refused(str(error)) from error
    except JobStartError:
        raise
    except Exception as error:
        is_permanent = any(mark in f"{type(error).__name__} {error}" for mark in _ANALYSIS)
        raise refused(str(error), is_permanent=is_permanent) from error


def _rows(session: SparkSession, settings: SparkSourceSettings) -> DataFrame:
    """Return the rows of the source."""
    own = data_source(settings.format)
    if own is not None:
        session.dataSource.register(own)
    reader = session.readStream.format(settings.format).options(**settings.options)
    if settings.schema:
        reader = reader.schema(settings.schema)
    return reader.load(settings.path) if settings.path is not None else reader.load()


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
    records = frame.mapInArrow(convert, collected_rows.TIMED_SCHEMA)
    return records.repartition(functions.coalesce("key", "value", functions.lit(b"")))
