"""Start a lake sink: a query that converts records to rows, which one of Spark's sinks writes.

Each record is in the files or the table once: Spark's log of a file sink, Delta's transactions and
Iceberg's snapshots skip a batch that they have. So the checkpoint is the job's position, and it is
kept with the data. The group's offsets follow it, for tools that show lag.
"""

import functools
import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs
from confluent_kafka import KafkaException

from barnabas.config import ConfigError
from barnabas.pipeline.connect.connectors.spark_sink import (
    FILE_FORMATS,
    FORMATS_PROPERTY,
    ICEBERG,
    TABLE_FORMATS,
    SparkSinkSettings,
)
from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.definitions.config_types import ConfigValueError
from barnabas.pipeline.delivery import worker_tasks
from barnabas.pipeline.delivery.driver.cluster_state import (
    ClusterState,
    Topic,
    changed_topic,
    existing_topics,
)
from barnabas.pipeline.delivery.driver.group_positions import GroupPositions
from barnabas.pipeline.delivery.driver.kafka_queries import batch_limits, figures_of, source_options
from barnabas.pipeline.delivery.driver.query_job import QueryJob
from barnabas.pipeline.delivery.driver.skipped_batches import SkippedBatches
from barnabas.pipeline.delivery.driver.spark_library import SparkSession, pyspark
from barnabas.pipeline.delivery.driver.worker_rows import map_in_workers
from barnabas.pipeline.delivery.lake import iceberg_table, lake_rows, lake_version, table_batches
from barnabas.pipeline.delivery.lake.hadoop_files import HadoopFiles
from barnabas.pipeline.delivery.lake.lake_positions import DONE, PLANNED, positions_of
from barnabas.pipeline.delivery.lake.lake_rows import LakePlan
from barnabas.pipeline.delivery.lake.lake_version import REMEDY
from barnabas.pipeline.delivery.lake.sampled_columns import sampled_columns
from barnabas.pipeline.delivery.plan import kafka_properties, start_positions
from barnabas.pipeline.delivery.plan.job_plan import JobFailure, JobPlan, JobProgress, OnTrim
from barnabas.pipeline.delivery.plan.start_positions import PartitionState, Remedies, StartPositions
from barnabas.pipeline.delivery.plan.task_failures import JobStartError, refused
from barnabas.pipeline.delivery.plan.task_plans import consumer_properties, task_plan
from barnabas.pipeline.delivery.plan.worker_plan import TaskPlan
from barnabas.pipeline.delivery.rows.spark_columns import check_columns

_COLUMNS_FILE: Final = "barnabas-columns.json"
_BATCH_POLL_S: Final = 0.05
_ANALYSIS: Final = ("AnalysisException", "UNSUPPORTED", "PARSE_SYNTAX_ERROR")


def start(session: SparkSession, plan: JobPlan) -> "LakeJob":
    """Start the job. Raises JobStartError.

    The query begins when the columns are known: without `schema` that is after the first record.
    """
    job = LakeJob(plan, functools.partial(_query_job, session, plan))
    job.begin()
    return job


class LakeJob:
    """A lake sink, which waits for its first record and then is a query."""

    def __init__(self, plan: JobPlan, begin: Callable[[], QueryJob | None]) -> None:
        """Take the plan, and what starts the query once its columns are known."""
        self._plan = plan
        self._begin = begin
        self._query: QueryJob | None = None
        self._failure: JobFailure | None = None
        self._is_stopped = False

    def begin(self) -> None:
        """Start the query if its columns are known. Raises JobStartError."""
        self._query = self._begin()

    @property
    def plan(self) -> JobPlan:
        """Return the plan that the job was started with."""
        return self._plan

    def is_running(self) -> bool:
        """True until the job was stopped or failed."""
        if self._query is not None:
            return self._query.is_running()
        return not self._is_stopped and self._failure is None

    def progress(self) -> JobProgress:
        """Return the totals up to now; start the query when the first record has come."""
        if self._query is None and self.is_running():
            try:
                self.begin()
            except JobStartError as error:
                self._failure = error.failure
        return JobProgress() if self._query is None else self._query.progress()

    def failure(self) -> JobFailure | None:
        """Return why the job ended by itself, or None."""
        return self._failure if self._query is None else self._query.failure()

    def stop(self, timeout_s: float = 30.0) -> None:
        """End the job after its running batch."""
        self._is_stopped = True
        if self._query is not None:
            self._query.stop(timeout_s)


@attrs.frozen
class _Input:
    """The source of a job: its topics, their ids, and where it starts."""

    cluster: ClusterState
    properties: Mapping[str, Any]
    topics: list[Topic]
    positions: StartPositions
    first_offsets: Mapping[tuple[str, int], int]
    """The positions as numbers."""
    new_offsets: Mapping[tuple[str, int], int]
    """Those of the partitions that no batch of the checkpoint has."""

    @property
    def topic_ids(self) -> dict[str, str]:
        """Return the ids of the topics."""
        return {topic.name: topic.topic_id for topic in self.topics}


def _query_job(session: SparkSession, plan: JobPlan) -> QueryJob | None:
    """Return the running query, None when its columns are not known yet. Raises JobStartError."""
    try:
        settings = SparkSinkSettings.of(plan.properties)
        plan = attrs.evolve(plan, trigger_ms=settings.rotate_ms)
        check_libraries(session, settings.format)
        files = HadoopFiles(session)
        _check_file_log(files, settings)
        table_batches.mark_done(session, files, settings)
        found = _input(plan, files, settings)
        columns = _columns(files, plan, settings, found)
        if columns is None:
            return None
        task = task_plan(plan, topic_ids=found.topic_ids)
        has_letters = functools.partial(lake_rows.has_letters, task, found.first_offsets)
        lake_version.check(files, settings, columns, plan.properties, has_letters)
        lake_rows.forget_letters(task, found.new_offsets)
        query = _started(session, plan, task, settings, found, columns)
    except (ConfigError, ConfigValueError, DataError) as error:
        raise refused(str(error)) from error
    except KafkaException as error:
        raise refused(str(error), is_permanent=False) from error
    except JobStartError:
        raise
    except Exception as error:
        is_permanent = any(mark in f"{type(error).__name__} {error}" for mark in _ANALYSIS)
        raise refused(str(error), is_permanent=is_permanent) from error
    skipped = SkippedBatches(found.first_offsets, found.cluster.log_starts)
    return QueryJob(
        plan,
        query,
        progress=JobProgress(trimmed=found.positions.trimmed, topic_ids=found.topic_ids),
        watch=functools.partial(changed_topic, found.cluster, found.topic_ids, REMEDY),
        on_batch=GroupPositions(plan.group_id, found.properties, found.topic_ids).commit,
        settle=functools.partial(_wait_end_of_batch, files, settings.checkpoint),
        skipped=skipped if plan.on_trim is OnTrim.SKIP else None,
    )


def _wait_end_of_batch(files: HadoopFiles, checkpoint: str, timeout_s: float) -> None:
    """Wait until the running batch has ended: other conversions may begin then."""
    deadline = time.monotonic() + timeout_s
    batch = files.newest(f"{checkpoint}/{PLANNED}")
    while batch > files.newest(f"{checkpoint}/{DONE}") and time.monotonic() < deadline:
        time.sleep(_BATCH_POLL_S)


def check_libraries(session: SparkSession, kind: str) -> None:
    """Raise JobStartError when the session lacks the libraries of a table format."""
    if kind not in TABLE_FORMATS:
        return
    if kind not in str(session.conf.get(FORMATS_PROPERTY, "")).split(","):
        raise refused(
            f"the runner has no libraries for {kind}: set lake.formats={kind} in its settings and "
            "start it again"
        )


def _check_file_log(files: HadoopFiles, settings: SparkSinkSettings) -> None:
    """Raise JobStartError when the files are another job's.

    Spark's log of the files counts batches as the checkpoint does, and skips those that it has: a
    checkpoint that is behind it would lose records.
    """
    if settings.format not in FILE_FORMATS:
        return
    written = files.newest(lake_version.file_log(settings))
    planned = files.newest(f"{settings.checkpoint}/{PLANNED}")
    if written > planned:
        raise refused(
            f"{settings.path} has the files of another job, or the checkpoint "
            f"{settings.checkpoint} was removed: the files end at batch {written}, the checkpoint "
            f"at {planned}; set another path"
        )


def _input(plan: JobPlan, files: HadoopFiles, settings: SparkSinkSettings) -> _Input:
    """Return the topics and the start. Raises JobStartError, KafkaException, ConfigError."""
    properties = kafka_properties.for_librdkafka(consumer_properties(plan))
    cluster = ClusterState(properties)
    topics = existing_topics(cluster, plan.topics, plan.topics_pattern, plan.topic_ids, REMEDY)
    cluster.create_dead_letter_topic(plan.properties)
    kept, planned = (positions_of(files, settings.checkpoint, log) for log in (DONE, PLANNED))
    states = [
        _at(state, kept.get((state.topic, state.partition)))
        for state in cluster.partition_states(plan.group_id, topics)
    ]
    remedies = Remedies(REMEDY)
    positions = start_positions.decide(states, plan.offset_reset, plan.on_trim, remedies)
    if isinstance(positions, JobFailure):
        raise JobStartError(positions)
    numbers = start_positions.resolved(positions.offsets, states)
    first_offsets = {
        (topic, partition): offset
        for topic, partitions in numbers.items()
        for partition, offset in partitions.items()
    }
    new_offsets = {where: at for where, at in first_offsets.items() if where not in planned}
    return _Input(cluster, properties, topics, positions, first_offsets, new_offsets)


def _at(state: PartitionState, kept: int | None) -> PartitionState:
    return state if kept is None else attrs.evolve(state, committed=kept)


def _columns(
    files: HadoopFiles, plan: JobPlan, settings: SparkSinkSettings, found: _Input
) -> dict[str, Any] | None:
    """Return the type of a row in Spark's JSON, None when it is not known yet. Raises DataError.

    Columns that a record gave are kept with the checkpoint, so they are the same after a restart.
    """
    if settings.schema:
        types = pyspark("sql.types").StructType.fromDDL(settings.schema)
        columns: dict[str, Any] = types.jsonValue()
    else:
        file = f"{settings.checkpoint}/{_COLUMNS_FILE}"
        kept = files.read(file)
        if kept is None:
            sampled = sampled_columns(plan, found.positions)
            if sampled is None:
                return None
            kept = json.dumps(sampled)
            files.write(file, kept)
        columns = json.loads(kept)
    if settings.format == ICEBERG:
        columns = iceberg_table.widened(columns)
    check_columns(columns)
    _check_fit(settings, columns)
    return columns


def _check_fit(settings: SparkSinkSettings, columns: Mapping[str, Any]) -> None:
    """Raise DataError for columns that the format lacks, which Spark finds out in a batch only."""
    kinds = {str(each["name"]): each["type"] for each in columns["fields"]}
    for name in settings.partition_by:
        if name not in kinds:
            raise DataError(f"partition.by names {name}; the columns are {', '.join(kinds)}")
    for name, kind in kinds.items():
        if settings.format == "csv" and isinstance(kind, dict):
            raise DataError(f"CSV has no column of the type of {name}: structs, arrays and maps")


def _started(
    session: SparkSession,
    plan: JobPlan,
    task: TaskPlan,
    settings: SparkSinkSettings,
    found: _Input,
    columns: dict[str, Any],
) -> Any:
    """Start the query. Raises DataError."""
    if settings.format == ICEBERG:
        iceberg_table.prepare(session, settings, columns)
    options = source_options(plan, found.positions)
    options["failOnDataLoss"] = "true" if plan.on_trim is OnTrim.FAIL else "false"
    records = session.readStream.format("kafka").options(**options).load()
    convert: Any = functools.partial(
        worker_tasks.lake, LakePlan(task, columns, settings.skips_nulls)
    )
    schema = pyspark("sql.types").StructType.fromJson(lake_rows.schema_of(columns))
    rows = figures_of(map_in_workers(records.coalesce(settings.tasks), convert, schema))
    written = rows.where(f"{lake_rows.ROW} IS NOT NULL").select(f"{lake_rows.ROW}.*")
    return (
        _writer(written, settings, batch_limits(plan)[1])
        .queryName(f"{plan.name}-{plan.generation}")
        .start()
    )


def _writer(rows: Any, settings: SparkSinkSettings, trigger_ms: int) -> Any:
    writer = (
        rows.writeStream.format(settings.format)
        .outputMode("append")
        .options(**settings.options)
        .option("path", settings.path)
        .option("checkpointLocation", settings.checkpoint)
        .trigger(processingTime=f"{trigger_ms} milliseconds")
    )
    if settings.flush_size:
        writer = writer.option("maxRecordsPerFile", str(settings.flush_size))
    return writer.partitionBy(*settings.partition_by) if settings.partition_by else writer
