"""The classes that Spark calls: a Python data source with the name `barnabas`.

Spark makes a writer in two processes beside the driver for each micro-batch: one whose writer
travels to the tasks, and one that commits. Both processes live as long as the driver.
"""

import functools
import os
from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs
from confluent_kafka import KafkaException, Producer

from barnabas.client.failures import AuthenticationError
from barnabas.pipeline.delivery.driver.cluster_state import ClusterState
from barnabas.pipeline.delivery.driver.spark_library import pyspark
from barnabas.pipeline.delivery.plan.librdkafka_tokens import check_tokens
from barnabas.pipeline.delivery.writing.record_producer import QUIET
from barnabas.pipeline.sink import batch_commits, commit_record, prepared_rows, sink_columns
from barnabas.pipeline.sink import sink_options as options_of
from barnabas.pipeline.sink.batch_commits import BatchCommits, transactional_id
from barnabas.pipeline.sink.commit_record import CommitRecord, PreparedTransaction, Work
from barnabas.pipeline.sink.commits_topic import CommitsTopic
from barnabas.pipeline.sink.sink_errors import SinkError, SinkOptionError
from barnabas.pipeline.sink.sink_options import SinkOptions
from barnabas.pipeline.sink.transaction_control import TransactionControl

NAME: Final = "barnabas"
_datasource: Final[Any] = pyspark("sql.datasource")


def source_of_driver() -> type:
    """Return the class to register in a session."""
    # A class that is made here is sent by value to Spark's processes, with the id of this driver.
    return type("BarnabasDataSource", (KafkaDataSource,), {"driver": os.urandom(8).hex()})


class KafkaDataSource(_datasource.DataSource):
    """Writes rows to topics."""

    driver = ""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    def schema(self) -> str:
        """Raise SinkOptionError: the format has no reader."""
        raise SinkOptionError('the format `barnabas` writes only: read topics with format("kafka")')

    def writer(self, schema: Any, overwrite: bool) -> "RowsWriter":
        """Return the writer of `df.write`. Raises SinkError."""
        if overwrite:
            raise SinkOptionError(
                'a topic cannot be overwritten: use mode("append"), or delete the topic first'
            )
        options = _checked(self.options, schema, is_stream=False)
        prefix = f"{options.name or NAME}-{os.urandom(8).hex()}"
        return RowsWriter(options, prefix)

    def streamWriter(self, schema: Any, overwrite: bool) -> "BatchesWriter":  # noqa: N802
        """Return the writer of one micro-batch of `df.writeStream`. Raises SinkError."""
        options = _checked(self.options, schema, is_stream=True)
        return BatchesWriter(options, self.driver, _commits(options, self.driver).before_tasks())


@attrs.frozen
class WrittenRows(_datasource.WriterCommitMessage):
    """The rows of one task: their open transaction, if they need one."""

    transaction: PreparedTransaction | None
    query_id: str = ""


class RowsWriter(_datasource.DataSourceArrowWriter):
    """Writes the rows of a DataFrame; all of them become visible at the end, or none."""

    def __init__(self, options: SinkOptions, prefix: str) -> None:
        self._options = options
        self._prefix = prefix

    def write(self, iterator: Iterator[Any]) -> WrittenRows:
        """Write the rows of this task and leave their transaction open. Raises SinkError."""
        task = int(pyspark().TaskContext.get().partitionId())
        identity = transactional_id(self._prefix, task)
        options = self._options
        producer, name = options.producer(), options.name or NAME
        return WrittenRows(
            prepared_rows.write(iterator, options.topic, identity, producer, name=name)
        )

    def commit(self, messages: Sequence[WrittenRows | None]) -> None:
        """Commit the transactions of all tasks. Raises SinkError."""
        prepared = _transactions(messages)
        control = TransactionControl(self._options.client)
        batch_commits.check_open(control, prepared)
        missing = control.end(prepared, committed=True)
        if missing:
            raise SinkError(
                f"{len(missing)} of {len(prepared)} transactions ended while the driver committed "
                "them: their rows are missing, the others are visible"
            )
        # Apache Kafka answers before it writes the markers, and the same request again after that.
        control.end(prepared, committed=True)

    def abort(self, messages: Sequence[WrittenRows | None]) -> None:
        """Abort the transactions of the tasks that have ended. Raises SinkError."""
        TransactionControl(self._options.client).end(_transactions(messages), committed=False)


class BatchesWriter(_datasource.DataSourceStreamWriter, _datasource.DataSourceArrowWriter):
    """Writes one micro-batch of a streaming query. As an Arrow writer it gets whole batches."""

    def __init__(self, options: SinkOptions, driver: str, record: CommitRecord) -> None:
        self._options = options
        self._driver = driver
        self._record = record

    def write(self, iterator: Iterator[Any]) -> WrittenRows:
        """Write the rows of this task and leave their transaction open.

        A batch that is committed is not written again. Raises SinkError.
        """
        context = pyspark().TaskContext.get()
        batch = int(context.getLocalProperty("streaming.sql.batchId"))
        query_id = str(context.getLocalProperty("sql.streaming.queryId"))
        name = str(self._options.name)
        if commit_record.decide(self._record, query_id, batch, name) is Work.SKIP:
            return WrittenRows(None, query_id)
        identity = transactional_id(name, int(context.partitionId()))
        options = self._options
        producer = options.producer()
        found = prepared_rows.write(iterator, options.topic, identity, producer, name=name)
        return WrittenRows(found, query_id)

    def commit(self, messages: Sequence[WrittenRows | None], batchId: int) -> None:  # noqa: N803
        """Make the rows of a batch visible. Raises SinkError."""
        prepared = _transactions(messages)
        if prepared:
            query_id = next(each.query_id for each in messages if each is not None)
            commits = _commits(self._options, self._driver)
            commits.commit(query_id, batchId, prepared, len(messages))

    def abort(self, messages: Sequence[WrittenRows | None], batchId: int) -> None:  # noqa: N803
        """Abort the transactions of a batch that failed. Raises SinkError."""
        _commits(self._options, self._driver).abort(batchId, _transactions(messages))


def _transactions(messages: Sequence[WrittenRows | None]) -> list[PreparedTransaction]:
    found = (None if each is None else each.transaction for each in messages)
    return [each for each in found if each is not None]


def _checked(options: Any, schema: Any, *, is_stream: bool) -> SinkOptions:
    """Return the settings of a writer whose options and columns are right. Raises SinkError."""
    found = options_of.parse(dict(options), is_stream=is_stream)
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    sink_columns.check(types, found.topic)
    properties = tuple(sorted(found.client.items()))
    _check_cluster(properties, found.topic, found.transaction_timeout_ms)
    return found


@functools.lru_cache(maxsize=64)
def _check_cluster(
    properties: tuple[tuple[str, str], ...], topic: str | None, timeout_ms: int
) -> None:
    """Raise SinkError for an unknown property or topic; one process looks them up once."""
    client = dict(properties)
    bootstrap = client["bootstrap.servers"]
    options = SinkOptions(bootstrap, topic, None, client, timeout_ms)
    producer = options.producer()
    try:
        check_tokens(producer)
        Producer({**producer, "logger": QUIET})
    except AuthenticationError as error:
        raise SinkError(str(error)) from error
    except KafkaException as error:
        raise SinkOptionError(f"a `kafka.` option is wrong: {error.args[0].str()}") from error
    if topic is None:
        return
    try:
        found = ClusterState(options.consumer()).topics([topic])[topic]
    except KafkaException as error:
        raise SinkError(
            f"topic {topic} cannot be described on {bootstrap}: {error}. Check the addresses, the "
            "credentials and the ACLs Describe and Write on the topic"
        ) from error
    if found is None:
        raise SinkOptionError(
            f"topic {topic} does not exist on {bootstrap}: create it, or correct option `topic`"
        )


def _commits(options: SinkOptions, driver: str) -> BatchCommits:
    """Return the commits of a query; its clients live as long as this process."""
    properties = tuple(sorted(options.client.items()))
    return _kept_commits(str(options.name), driver, properties, options.transaction_timeout_ms)


@functools.lru_cache(maxsize=64)
def _kept_commits(
    name: str, driver: str, properties: tuple[tuple[str, str], ...], timeout_ms: int
) -> BatchCommits:
    client = dict(properties)
    options = SinkOptions(client["bootstrap.servers"], None, name, client, timeout_ms)
    topic = CommitsTopic(name, options.producer(), options.consumer())
    return BatchCommits(name, driver, topic, TransactionControl(client), timeout_ms)
