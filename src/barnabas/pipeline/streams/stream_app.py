"""An app: topics and tables that it reads, queries that it writes, and one Spark session.

`App` describes queries first and starts them together. Each `write` is a query, with a consumer
group and transactions under its name.
"""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

import attrs
from confluent_kafka import KafkaException

from barnabas.config import ConfigError
from barnabas.pipeline.delivery.driver import frame_sources
from barnabas.pipeline.delivery.driver.cluster_state import ClusterState
from barnabas.pipeline.delivery.driver.spark_library import DataFrame, SparkSession
from barnabas.pipeline.delivery.forward import frame_job
from barnabas.pipeline.delivery.micro_batches import micro_batch_job, micro_batch_removal
from barnabas.pipeline.delivery.plan import kafka_properties
from barnabas.pipeline.delivery.plan.job_plan import Guarantee, JobKind, JobPlan, OnTrim, RunningJob
from barnabas.pipeline.delivery.plan.task_failures import refused
from barnabas.pipeline.spark.engine import Engine
from barnabas.pipeline.spark.session import SessionSettings, send_packages
from barnabas.pipeline.streams import (
    joined_topics,
    output_frames,
    topic_reading,
    topology_operators,
    topology_picture,
    topology_text,
)
from barnabas.pipeline.streams.known_topics import KnownTopics
from barnabas.pipeline.streams.output_frames import Letters, OutputError, OutputSerdes
from barnabas.pipeline.streams.record_stream import Stream
from barnabas.pipeline.streams.record_table import Table
from barnabas.pipeline.streams.serde_codecs import codec_of, keys_of
from barnabas.pipeline.streams.serdes import Bytes, Column, Serde, SerdeContext
from barnabas.pipeline.streams.state_directory import StateDirectory, check_name
from barnabas.pipeline.streams.stop_signals import stop_requests
from barnabas.pipeline.streams.stream_columns import KEY, VALUE
from barnabas.pipeline.streams.stream_queries import QueryWatcher, StreamQuery
from barnabas.pipeline.streams.topic_reading import OnError, TopicInput
from barnabas.pipeline.streams.topology_nodes import Topology
from barnabas.pipeline.streams.window_specs import Duration, Window, duration_ms
from barnabas.pipeline.views.app_views import AppViews
from barnabas.pipeline.views.live_view import LiveView, ViewSpec

_POLL_S: Final = 0.2
_FORMATS: Final = {"text": topology_text.text_of, "svg": topology_picture.svg_of}


@attrs.frozen(eq=False)
class _Output:
    """The rows of one query, and the topic that they go to."""

    name: str
    records: Stream | Table | DataFrame
    topic: str | None
    serdes: OutputSerdes
    guarantee: Guarantee
    output_mode: str | None
    """Spark's output mode of a query with state; None without state."""

    @property
    def inputs(self) -> tuple[TopicInput, ...]:
        """Return the topics that a stream or a table comes from."""
        return self.records.inputs if isinstance(self.records, Stream | Table) else ()


class App:
    """A stream processing application on Spark, named like Kafka Streams' `application.id`.

    `properties` are those of all clients, with Java's or librdkafka's names (`security.protocol`,
    `sasl.*`, `ssl.*`). `state` is the directory of checkpoints, by default below
    `~/.local/state/barnabas/streams`; it must survive a restart when a query has state, and a
    cluster needs one that its hosts share: a path, or a URI such as `hdfs://` or `s3a://`. `spark`
    are properties of Spark. `registry` is the address of a schema registry, for `Avro`, `Protobuf`
    and `JsonSchema`.
    """

    def __init__(
        self,
        name: str,
        bootstrap: str = "127.0.0.1:9092",
        *,
        properties: Mapping[str, str] | None = None,
        state: str | Path | None = None,
        master: str = "local[*]",
        spark: Mapping[str, str] | None = None,
        registry: str = "",
        on_trim: str = "fail",
        trigger_ms: int = 100,
    ) -> None:
        check_name(name)
        self.name = name
        self._bootstrap = bootstrap
        self._properties = dict(properties or {})
        self._transaction_timeout_ms = kafka_properties.transaction_timeout_ms(self._properties)
        self._state = StateDirectory.of(name, state)
        self._registry = registry
        self._on_trim = OnTrim(on_trim)
        self._trigger_ms = trigger_ms
        self._session: SparkSession | None = None
        self._engine: Engine | None = Engine(
            SessionSettings(
                self._state.work,
                master=master,
                checkpoint_directory=self._state.checkpoints,
                application=name,
                properties=dict(spark or {}),
            )
        )
        self._outputs: dict[str, _Output] = {}
        self._topology = Topology()
        self._queries: dict[str, StreamQuery] = {}
        self._letters: dict[TopicInput, str] = {}
        self._watcher: QueryWatcher | None = None
        self._topics = KnownTopics(name, self._client)
        self._views = AppViews(self._client, self._state.views)

    @classmethod
    def attach(cls, session: SparkSession, name: str, *args: Any, **options: Any) -> Self:
        """Return an app in a Spark session of the caller, with the arguments of `App`.

        The session needs Spark's Kafka connector; `master` and `spark` have no meaning here. On a
        cluster, the executors get barnabas and the packages that it needs.
        """
        app = cls(name, *args, **options)
        send_packages(session)
        app._session, app._engine = session, None
        return app

    @property
    def spark(self) -> SparkSession:
        """Return the Spark session, which starts with the first call (3 to 10 seconds).

        Raises SparkUnavailableError, StateInUseError.
        """
        self._state.lock()
        if self._engine is None:
            return self._session
        self._engine.start()
        return self._engine.session

    def topic(
        self,
        name: str,
        *,
        key: Serde | None = None,
        value: Serde | None = None,
        time: str | Column | None = None,
        on_error: str = "fail",
        dead_letters: str | None = None,
        start: str = "earliest",
        max_records: int = 100_000,
    ) -> Stream:
        """Return the records of a topic.

        `key` and `value` are serdes, bytes by default. `time` is an expression for the time of a
        record, a timestamp or milliseconds since 1970; by default the record's timestamp.
        `on_error` is the outcome of a record that does not decode: `fail` ends the app with the
        record's place, `skip` drops it, `dead-letter` writes it to the topic `dead_letters`
        (APP-dead-letters). `start` is the first position without a committed offset. `max_records`
        limits a batch.
        """
        given = self._input(name, key, value, time, on_error, dead_letters, start, max_records)
        frame = self._read(given)
        node = topology_operators.stream_source(self._topology, name)
        return Stream(frame, (given,), node=node)

    def table(
        self,
        name: str,
        *,
        key: Serde | None = None,
        value: Serde | None = None,
        time: str | Column | None = None,
        on_error: str = "fail",
        dead_letters: str | None = None,
        max_records: int = 100_000,
    ) -> Table:
        """Return the table of a compacted topic: the newest value of each key, null deletes it.

        The arguments are those of `topic`. Records without a key drop.
        """
        given = self._input(name, key, value, time, on_error, dead_letters, "earliest", max_records)
        rows = Stream(self._read(given), (given,)).filter("key IS NOT NULL")
        node = topology_operators.table_source(self._topology, name)
        return Table(rows.frame, rows.inputs, node=node)

    def write(
        self,
        records: Stream | Table | DataFrame,
        topic: str | None = None,
        *,
        key: Serde | None = None,
        value: Serde | None = None,
        delivery: str = "exactly-once",
        name: str | None = None,
        output_mode: str | None = None,
    ) -> StreamQuery:
        """Describe a query that writes a stream, a table or a streaming DataFrame to a topic.

        A DataFrame has the columns `value`, and optionally `key`, `headers`, `topic`, `partition`
        and `timestamp`; keep `_topic`, `_partition` and `_offset` where a row comes from one
        record. Keys choose partitions as Java's clients do. `key` and `value` are the serdes of a
        stream's columns, by default those of their types. `delivery` is `exactly-once` or
        `at-least-once`. `name` is the query's name, APP-TOPIC by default. `output_mode` is Spark's,
        for a DataFrame with state.

        Raises OutputError for columns that cannot be written, ValueError for other arguments.
        """
        named = name or (f"{self.name}-{topic}" if topic else self.name)
        check_name(named)
        if named in self._outputs:
            raise ValueError(f"the app has a query {named} already: name this one with name=")
        output = _Output(
            named,
            records,
            topic,
            OutputSerdes(
                self._for_output(key, topic, "key"), self._for_output(value, topic, "value")
            ),
            Guarantee(delivery),
            output_frames.output_mode_of(records, output_mode, Guarantee(delivery)),
        )
        if output.output_mode is not None and output.guarantee is Guarantee.AT_LEAST_ONCE:
            raise ValueError(
                f"query {named} has state, so it is delivered exactly once: at-least-once is for "
                "queries without state"
            )
        self._rows(output)
        self._outputs[named] = output
        query = StreamQuery(
            named,
            functools.partial(self._start_job, output),
            has_committed_positions=output.output_mode is None,
            is_session_alive=self._is_session_alive,
        )
        self._queries[named] = query
        self._describe(output)
        return query

    def describe(self, format: str = "text") -> str:  # noqa: A002 - as format() of Python
        """Return the topology of the app: what `Topology.describe()` of Kafka Streams prints.

        `format` is `text`, or `svg` for a picture. Kafka Streams gives the same names to the
        processors, stores and topics of the same operators in the same order.
        """
        if format not in _FORMATS:
            raise ValueError(f"format is text or svg, not '{format}'")
        return _FORMATS[format](self._topology)

    def query(
        self,
        topic: str,
        *,
        key: Serde | None = None,
        value: Serde | None = None,
        windows: Window | None = None,
        retention: Duration | None = None,
        timeout_s: float = 60.0,
    ) -> LiveView:
        """Return the view of a table's topic, once it has read the topic: look-ups by key.

        For a topic that this app writes, serdes and windows default to those of the write; for
        others, to bytes and no windows. The first query of a topic opens its view, which keeps
        these serdes until the app stops.
        Windows that ended longer than `retention` before the newest record are removed.

        Raises ViewNotReadyError when the time is over, ViewStoreError when another process has the
        view's file, ValueError for a serde that only Spark can read.
        """
        known = next((each for each in self._outputs.values() if each.topic == topic), None)
        if known is not None and isinstance(known.records, Stream | Table):
            windows = windows or known.records.windows
            key = key or known.serdes.key or output_frames.serde_of(known.records.frame, KEY)
            value = value or known.serdes.value
            value = value or output_frames.serde_of(known.records.frame, VALUE)
        spec = ViewSpec(
            topic,
            self._views.path(topic),
            codec_of(self._prepared(key, topic, "key")),
            codec_of(self._prepared(value, topic, "value")),
            keys_of(windows),
            None if retention is None else duration_ms(retention),
        )
        return self._views.open(spec, timeout_s)

    def reset(self, *queries: str) -> None:
        """Forget positions and state of queries, so that they process all records again.

        These are all queries of the app unless some are named. Their results are written again,
        too. Call it after the last `write` and before `start`, while no process runs the app.

        Raises ValueError for an unknown query, ConfigError, KafkaException, GroupOffsetsError,
        TimeoutError.
        """
        if self._watcher is not None:
            raise RuntimeError(f"app {self.name} was started already: reset it before")
        unknown = [name for name in queries if name not in self._outputs]
        if unknown:
            names = ", ".join(self._outputs) or "none"
            raise ValueError(f"the app has no query {unknown[0]}; its queries: {names}")
        self._assign_letters()
        self._state.lock()
        properties = kafka_properties.for_librdkafka(self._client)
        for name in queries or tuple(self._outputs):
            micro_batch_removal.forget(name, name, properties, self._state.checkpoint(name))
            self._topics.forget(name)

    def start(self) -> None:
        """Start all queries and return. Raises StreamFailedError, StateInUseError."""
        if self._watcher is not None:
            raise RuntimeError(f"app {self.name} was started already")
        if not self._outputs:
            raise RuntimeError(f"app {self.name} has nothing to run: call write() first")
        self._assign_letters()
        self._watcher = QueryWatcher(list(self._queries.values()))
        self._watcher.start()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the app stops; return False when the time is over before.

        Raises StreamFailedError when a query failed and a restart would not help.
        """
        if self._watcher is None:
            raise RuntimeError(f"app {self.name} was not started")
        return self._watcher.wait(timeout_s)

    def stop(self) -> None:
        """Stop all queries after their running transactions, then the app's Spark session."""
        if self._watcher is not None:
            self._watcher.stop()
        if self._engine is not None:
            self._engine.stop()
        self._views.close()
        self._state.release()

    def run(self) -> None:
        """Start the app, and stop it at SIGINT, SIGTERM or a failure. Raises StreamFailedError."""
        try:
            self.start()
            with stop_requests() as is_requested:
                while not is_requested.is_set() and not self.wait(_POLL_S):
                    pass
        finally:
            self.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    @property
    def _client(self) -> dict[str, str]:
        return {**self._properties, "bootstrap.servers": self._bootstrap}

    def _is_session_alive(self) -> bool:
        """True while the app's own session runs; of a given one, the caller takes care."""
        return self._engine is None or self._engine.is_alive()

    def _input(
        self,
        name: str,
        key: Serde | None,
        value: Serde | None,
        time: str | Column | None,
        on_error: str,
        dead_letters: str | None,
        start: str,
        max_records: int,
    ) -> TopicInput:
        """Return a topic as the app reads it. Raises ValueError."""
        if start not in ("earliest", "latest"):
            raise ValueError(f"start is earliest or latest, not '{start}'")
        return TopicInput(
            name,
            self._prepared(key, name, "key"),
            self._prepared(value, name, "value"),
            time,
            OnError(on_error),
            dead_letters or f"{self.name}-dead-letters",
            start,
            max_records,
        )

    def _read(self, given: TopicInput) -> DataFrame:
        return topic_reading.read(self.spark, self._client, given, self._on_trim)

    def _prepared(self, serde: Serde | None, topic: str, side: str) -> Serde:
        return (serde or Bytes()).prepared(SerdeContext(topic, side, self._registry))

    def _for_output(self, serde: Serde | None, topic: str | None, side: str) -> Serde | None:
        return None if serde is None else self._prepared(serde, topic or "", side)

    def _assign_letters(self) -> None:
        """Choose the query that writes the dead letters of each topic, once.

        The first query that forwards records of the topic writes them in its transactions. Where
        all queries have state, a query is added.
        """
        waiting: dict[TopicInput, None] = {}
        for output in list(self._outputs.values()):
            for each in output.inputs:
                if each.on_error is OnError.DEAD_LETTER and each not in self._letters:
                    if output.output_mode is None:
                        self._letters[each] = output.name
                        waiting.pop(each, None)
                    else:
                        waiting[each] = None
        for each in waiting:
            stream = Stream(self._read(each), (each,))
            name = f"{self.name}-{each.topic}-letters"
            query = self.write(stream.filter("false"), each.dead_letters, name=name)
            self._letters[each] = query.name

    def _rows(self, output: _Output) -> DataFrame:
        """Return the rows of a query in the columns of the deliveries. Raises OutputError."""
        if not isinstance(output.records, Stream | Table):
            return output_frames.of_frame(output.records, output.topic)
        if output.topic is None:
            raise OutputError("write() needs the topic of a stream or a table")
        topics = [each.topic for each in output.inputs if self._writes_letters(output, each)]
        letters = Letters(tuple(topics), self.name)
        return output_frames.of_records(output.records, output.topic, output.serdes, letters)

    def _start_job(self, output: _Output, generation: int) -> RunningJob:
        """Start the job of a query. Raises JobStartError."""
        rows = self._rows(output)
        plan = self._plan(output, rows, generation)
        if isinstance(output.records, Stream):
            joined_topics.check(self._client, output.records.joined_topics)
        self._create_letter_topics(output)
        if output.output_mode is None:
            plan = attrs.evolve(plan, topic_ids=self._known_ids(output.name))
            remember = functools.partial(self._topics.remember, output.name)
            has_all_records = isinstance(output.records, Stream | Table)
            return frame_job.start(
                plan, rows, self._state.work, remember, has_all_records=has_all_records
            )
        if not frame_sources.has_state(rows):
            rows = rows.repartition("key")
        checkpoint = self._state.checkpoint(output.name)
        return micro_batch_job.start(plan, rows, checkpoint, output.output_mode)

    def _describe(self, output: _Output) -> None:
        """Add a query to the topology."""
        records = output.records
        if isinstance(records, Stream | Table) and output.topic is not None:
            is_table = isinstance(records, Table)
            topology_operators.written(records.node, output.topic, is_table=is_table)
        elif not isinstance(records, Stream | Table):
            topics = frame_sources.kafka_topics(records)
            topology_operators.written_frame(self._topology, topics, output.topic)

    def _plan(self, output: _Output, rows: DataFrame, generation: int) -> JobPlan:
        topics = tuple(dict.fromkeys(each.topic for each in output.inputs))
        return JobPlan(
            output.name,
            generation,
            JobKind.STREAM,
            self._bootstrap,
            group_id=output.name,
            transactional_id=output.name,
            topics=topics or frame_sources.kafka_topics(rows),
            target_topic=output.topic,
            guarantee=output.guarantee,
            client_properties=self._properties,
            on_trim=self._on_trim,
            trigger_ms=self._trigger_ms,
            transaction_timeout_ms=self._transaction_timeout_ms,
        )

    def _known_ids(self, query: str) -> Mapping[str, str]:
        """Return the ids of the topics that a query has read. Raises JobStartError."""
        try:
            return self._topics.of(query)
        except (ConfigError, KafkaException, TimeoutError) as error:
            raise refused(str(error), is_permanent=isinstance(error, ConfigError)) from error

    def _create_letter_topics(self, output: _Output) -> None:
        """Create the topics of the dead letters that a query writes. Raises JobStartError."""
        names = {each.dead_letters for each in output.inputs if self._writes_letters(output, each)}
        if not names:
            return
        try:
            cluster = ClusterState(kafka_properties.for_librdkafka(self._client))
            for name in sorted(names):
                cluster.create_topic(name, 1, {})
        except KafkaException as error:
            raise refused(str(error), is_permanent=False) from error

    def _writes_letters(self, output: _Output, each: TopicInput) -> bool:
        return self._letters.get(each) == output.name
