"""An app: topics and tables that it reads, queries that it writes, and one Spark session.

`App` describes queries first and starts them together. Each `write` is a query, with a consumer
group and transactions under its name.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

from barnabas.pipeline.delivery.driver import frame_sources
from barnabas.pipeline.delivery.driver.spark_library import DataFrame, SparkSession
from barnabas.pipeline.delivery.plan import kafka_properties
from barnabas.pipeline.delivery.plan.job_plan import Guarantee, OnTrim
from barnabas.pipeline.spark.engine import Engine
from barnabas.pipeline.spark.session import SessionSettings, send_packages
from barnabas.pipeline.streams import (
    output_frames,
    state_description,
    topic_reading,
    topology_operators,
    topology_picture,
    topology_text,
)
from barnabas.pipeline.streams.app_queries import AppQueries, Output, QuerySettings
from barnabas.pipeline.streams.output_frames import OutputSerdes
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
        directory = StateDirectory.of(name, state)
        self._session: SparkSession | None = None
        self._engine: Engine | None = Engine(
            SessionSettings(
                directory.work,
                master=master,
                checkpoint_directory=directory.checkpoints,
                application=name,
                properties=dict(spark or {}),
            )
        )
        settings = QuerySettings(
            name,
            bootstrap,
            dict(properties or {}),
            directory,
            OnTrim(on_trim),
            trigger_ms,
            kafka_properties.transaction_timeout_ms(properties or {}),
        )
        self._set_up(settings, registry)

    def _set_up(self, settings: QuerySettings, registry: str) -> None:
        """Take what the queries share. Raises ValueError for a bad name."""
        check_name(settings.app)
        self.name = settings.app
        self._settings = settings
        self._state = settings.state
        self._registry = registry
        self._queries = AppQueries(settings, self._read, self._is_session_alive)
        self._topology = Topology(chain=self._queries.chained)
        self._watcher: QueryWatcher | None = None
        self._views = AppViews(settings.client, self._state.views)

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

        Raises SparkUnavailableError, StateInUseError, StateUnusableError.
        """
        self._state.lock()
        if self._engine is None:
            return self._session
        self._engine.start()
        return self._engine.session

    @property
    def client(self) -> dict[str, str]:
        """Return the properties of the app's clients, with the bootstrap servers."""
        return self._settings.client

    def topic(
        self,
        name: str,
        *,
        key: Serde | None = None,
        value: Serde | None = None,
        time: str | Column | None = None,
        on_error: str = "fail",
        dead_letters: str | None = None,
        start: str | Mapping[int, int] = "earliest",
        max_records: int = 100_000,
    ) -> Stream:
        """Return the records of a topic.

        `key` and `value` are serdes, bytes by default. `time` is an expression for the time of a
        record, a timestamp or milliseconds since 1970; by default the record's timestamp.
        `on_error` is the outcome of a record that does not decode: `fail` ends the app with the
        record's place, `skip` drops it, `dead-letter` writes it to the topic `dead_letters`
        (APP-dead-letters). `start` is the first position without a committed offset: earliest,
        latest, or an offset for each partition of the topic (-2 is the earliest). `max_records`
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
        self._queries.check_free(named)
        output = Output(
            named,
            records,
            topic,
            OutputSerdes(
                self._for_output(key, topic, "key"), self._for_output(value, topic, "value")
            ),
            Guarantee(delivery),
            output_frames.output_mode_of(records, output_mode, Guarantee(delivery)),
        )
        query = self._queries.add(output)
        self._describe(output)
        return query

    def describe(self, format: str = "text") -> str:  # noqa: A002 - as format() of Python
        """Return the topology of the app: what `Topology.describe()` of Kafka Streams prints.

        `format` is `text`, or `svg` for a picture. Kafka Streams gives the same names to the
        processors, stores and topics of the same operators in the same order. With `state`, the
        text says where the queries keep their state, and what it costs.
        """
        if format == "state":
            outputs = self._queries.outputs.values()
            return state_description.text_of({each.name: each.records_frame for each in outputs})
        if format not in _FORMATS:
            raise ValueError(f"format is text, svg or state, not '{format}'")
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
        known = next((each for each in self._queries.outputs.values() if each.topic == topic), None)
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

        These are all queries of the app unless some are named, and those that a chain connects
        with them. Their results are written again, too. Call it after the last `write` and before
        `start`, while no process runs the app.

        Raises ValueError for an unknown query, ConfigError, KafkaException, GroupOffsetsError,
        TimeoutError.
        """
        if self._watcher is not None:
            raise RuntimeError(f"app {self.name} was started already: reset it before")
        unknown = [name for name in queries if name not in self._queries.outputs]
        if unknown:
            names = ", ".join(self._queries.outputs) or "none"
            raise ValueError(f"the app has no query {unknown[0]}; its queries: {names}")
        self._queries.assign_letters()
        self._state.lock()
        self._queries.forget(queries or tuple(self._queries.outputs))

    def start(self) -> None:
        """Start all queries and return. Raises StreamFailedError, StateInUseError."""
        if self._watcher is not None:
            raise RuntimeError(f"app {self.name} was started already")
        if not self._queries.outputs:
            raise RuntimeError(f"app {self.name} has nothing to run: call write() first")
        self._queries.assign_letters()
        self._watcher = QueryWatcher(self._queries.needed(), self._queries.trimmer())
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
        start: str | Mapping[int, int],
        max_records: int,
    ) -> TopicInput:
        """Return a topic as the app reads it. Raises ValueError."""
        return TopicInput(
            name,
            self._prepared(key, name, "key"),
            self._prepared(value, name, "value"),
            time,
            OnError(on_error),
            dead_letters or f"{self.name}-dead-letters",
            topic_reading.starting_offsets(name, start),
            max_records,
            self._settings.client,
        )

    def _read(self, given: TopicInput) -> DataFrame:
        return topic_reading.read(self.spark, self._settings.client, given, self._settings.on_trim)

    def _prepared(self, serde: Serde | None, topic: str, side: str) -> Serde:
        return (serde or Bytes()).prepared(SerdeContext(topic, side, self._registry))

    def _for_output(self, serde: Serde | None, topic: str | None, side: str) -> Serde | None:
        return None if serde is None else self._prepared(serde, topic or "", side)

    def _describe(self, output: Output) -> None:
        """Add a query to the topology."""
        records = output.records
        if isinstance(records, Stream | Table) and output.topic is not None:
            is_table = isinstance(records, Table)
            topology_operators.written(records.node, output.topic, is_table=is_table)
        elif not isinstance(records, Stream | Table):
            topics = frame_sources.kafka_topics(records)
            topology_operators.written_frame(self._topology, topics, output.topic)
