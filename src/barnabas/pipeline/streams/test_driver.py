"""A driver for tests of apps: records in, records out, without Kafka.

The topology runs on Spark as it does in an app, with the same operators and state. Its topics are
files in a directory of the driver, and its results stay in memory.
"""

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar, Final, NoReturn, Self

import attrs

from barnabas.pipeline.delivery.driver import chained_states
from barnabas.pipeline.delivery.driver.spark_library import DataFrame, SparkSession, pyspark
from barnabas.pipeline.delivery.micro_batches import stream_times
from barnabas.pipeline.delivery.plan import task_failures
from barnabas.pipeline.delivery.rows.arrow_library import pa, pq
from barnabas.pipeline.streams import topic_reading
from barnabas.pipeline.streams.kernel_frames import BUCKETS_PROPERTY
from barnabas.pipeline.streams.record_stream import Stream
from barnabas.pipeline.streams.record_table import Table
from barnabas.pipeline.streams.serde_codecs import codec_of, keys_of
from barnabas.pipeline.streams.serdes import Bytes, Serde
from barnabas.pipeline.streams.stream_app import App
from barnabas.pipeline.streams.stream_columns import KEPT, PLACE
from barnabas.pipeline.streams.stream_queries import StreamFailedError
from barnabas.pipeline.streams.topic_reading import HEADERS_TYPE, TopicInput
from barnabas.pipeline.streams.wall_clock import BEFORE_MS, TEST_CLOCK, TIME_MS
from barnabas.pipeline.streams.window_specs import Duration, Window, duration_ms
from barnabas.pipeline.views.view_keys import ViewKeys

_COLUMNS: Final = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    f"timestampType INT, headers {HEADERS_TYPE}"
)
_SIDES: Final = ("key", "value")
_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
# Each bucket costs time in each batch of a kernel that acts on time.
_SETTINGS: Final = {"spark.sql.shuffle.partitions": "2", BUCKETS_PROPERTY: "8"}


@attrs.frozen
class TestRecord:
    """A record that goes into a topology, or comes out of it."""

    __test__: ClassVar[bool] = False  # not a test class of pytest

    key: Any
    value: Any
    timestamp: int = 0
    """Milliseconds since 1970."""
    headers: tuple[tuple[str, bytes | None], ...] = ()
    window: tuple[int, int] | None = None
    """Start and end in ms of a windowed key that was read."""


class UnknownTopicError(Exception):
    """The topology does not read, or does not write, a topic."""


class TestDriver:
    """Runs what `describe` builds on an app: a function of the app that calls topic and write.

        with TestDriver(describe) as driver:
            driver.pipe("clicks", ("alice", {"url": "/"}, 1_000))
            assert driver.read("clicks-by-user", key=String(), value=Long()) == [...]

    Records that are piped before a read are one micro-batch. `session` is a Spark session of the
    caller; without it the driver starts one, which takes seconds, so tests share a session. `spark`
    are properties of Spark, which a session of the caller has while queries start. The wall clock
    of processors is at `wall_clock`, in milliseconds since 1970, until `advance_wall_clock` moves
    it.
    """

    __test__: ClassVar[bool] = False

    def __init__(
        self,
        describe: Callable[[App], object],
        *,
        session: SparkSession | None = None,
        wall_clock: int = 0,
        **app: Any,
    ) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="barnabas-streams-test-"))
        given = {**_SETTINGS, **app.get("spark", {})}
        options: dict[str, Any] = {"state": self._directory / "state", **app, "spark": given}
        if session is None:
            self._app = _DriverApp("test", master="local[2]", **options)
        else:
            self._app = _DriverApp.attach(session, "test", **options)
        self._app.directory = self._directory
        self._waiting: dict[str, list[dict[str, Any]]] = {}
        self._offsets: dict[tuple[str, int], int] = {}
        self._batches = 0
        self._clock_ms = wall_clock
        self._settings = {**given, TEST_CLOCK: str(self._directory / "clock")}
        self._writers: dict[str, tuple[DataFrame, Any]] = {}
        self._written: dict[str, list[dict[str, Any]]] = {}
        self._read: dict[str, int] = {}
        self._passed: dict[str, int] = {}
        try:
            with _set(self._app.spark, self._settings):
                describe(self._app)
                frames = self._app.frames()
                self._writers = {name: self._writer(name, each) for name, each in frames.items()}
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the files, and stop the Spark session if the driver started it."""
        self._app.stop()
        shutil.rmtree(self._directory, ignore_errors=True)

    def pipe(self, topic: str, *records: TestRecord | Sequence[Any], partition: int = 0) -> None:
        """Add records to a topic: `TestRecord`, or (key, value) or (key, value, timestamp).

        Keys and values are those of the topic's serdes; bytes are taken as they are, None is null.
        Raises UnknownTopicError when the topology does not read the topic.
        """
        given = self._app.inputs.get(topic)
        if given is None:
            raise UnknownTopicError(_unknown("read", topic, self._app.inputs))
        for each in records:
            record = each if isinstance(each, TestRecord) else TestRecord(*each)
            key, value = _encoded(given.key, record.key), _encoded(given.value, record.value)
            self._add(topic, partition, attrs.evolve(record, key=key, value=value))

    def process(self) -> None:
        """Run the records that were piped as one micro-batch of each query.

        Raises StreamFailedError when a query fails.
        """
        if not self._waiting:
            return
        self._batches += 1
        self._write_waiting()
        self._run_batch()

    def advance_wall_clock(self, duration: Duration) -> None:
        """Process the piped records, then advance the wall clock.

        A processor whose time has come is called once, also when several of its times have passed:
        `advanceWallClockTime` of Kafka Streams. Raises StreamFailedError when a query fails,
        ValueError.
        """
        self.process()
        self._batches += 1
        step = {BEFORE_MS: self._clock_ms, TIME_MS: self._clock_ms + duration_ms(duration)}
        self._clock_ms = step[TIME_MS]
        clock = self._directory / "clock"
        if clock.exists():  # a processor takes it
            _write_file(clock, self._batches, [step])
            self._run_batch()

    def read(
        self,
        topic: str,
        *,
        key: Serde | None = None,
        value: Serde | None = None,
        windows: Window | None = None,
    ) -> list[TestRecord]:
        """Return the records written to a topic since the last read, after `process`.

        `key` and `value` are serdes, bytes by default; `windows` are those of the keys. Records of
        one key are in their order. Raises UnknownTopicError when the topology does not write it.
        """
        self.process()
        if topic not in self._app.outputs() and topic not in self._written:
            raise UnknownTopicError(_unknown("write", topic, self._app.outputs()))
        rows = self._written.get(topic, [])
        start = self._read.get(topic, 0)
        self._read[topic] = len(rows)
        keys = keys_of(windows)
        return [_record(row, key or Bytes(), value or Bytes(), keys) for row in rows[start:]]

    def table(
        self,
        topic: str,
        *,
        key: Serde | None = None,
        value: Serde | None = None,
        windows: Window | None = None,
    ) -> dict[Any, Any]:
        """Return the newest value of each key of a topic, without those that were deleted.

        With windows, the keys are (key, start, end).
        """
        self.process()
        self._read[topic] = 0
        found: dict[Any, Any] = {}
        for record in self.read(topic, key=key, value=value, windows=windows):
            name = record.key if record.window is None else (record.key, *record.window)
            found.pop(name, None)
            if record.value is not None:
                found[name] = record.value
        return found

    def _add(self, topic: str, partition: int, record: TestRecord) -> None:
        """Add a record of bytes to the next file of a topic."""
        place = (topic, partition)
        offset = self._offsets[place] = self._offsets.get(place, -1) + 1
        self._waiting.setdefault(topic, []).append(
            {
                "key": record.key,
                "value": record.value,
                "topic": topic,
                "partition": partition,
                "offset": offset,
                "timestamp": record.timestamp * 1000,
                "timestampType": 0,
                "headers": [{"key": name, "value": value} for name, value in record.headers],
            }
        )

    def _write_waiting(self) -> None:
        for topic, rows in self._waiting.items():
            _write_file(self._app.inputs_of(topic), self._batches, rows)
        self._waiting.clear()

    def _run_batch(self) -> None:
        """Run all queries, then those that read what queries have written, and so on."""
        names = list(self._writers)
        while names:
            self._run(names)
            self._batches += 1
            names = self._pass_on()
            self._write_waiting()

    def _pass_on(self) -> list[str]:
        """Add the new records between queries, and return the names of queries that may read them.

        The topics of a DataFrame are not known, since they are files.
        """
        found = dict[str, None]()
        for topic, readers in self._app.chained_queries().items():
            rows = self._written.get(topic, [])
            start = self._passed.get(topic, 0)
            self._passed[topic] = len(rows)
            for row in rows[start:]:
                headers = tuple((each["key"], each["value"]) for each in row["headers"] or ())
                key, value = (None if row[name] is None else bytes(row[name]) for name in _SIDES)
                self._add(topic, 0, TestRecord(key, value, row["timestamp_ms"], headers))
            if rows[start:]:
                found |= dict.fromkeys([*readers, *self._app.frame_queries()])
        return list(found)

    def _run(self, names: Sequence[str]) -> None:
        queries = self._started(names)
        try:
            for name, query in queries.items():
                _await_end(name, query)
        finally:
            for query in queries.values():
                query.stop()

    def _started(self, names: Sequence[str]) -> dict[str, Any]:
        """Start queries; each ends after the records that are there."""
        with _set(self._app.spark, self._settings):
            return {name: self._start(name, *self._writers[name]) for name in names}

    def _start(self, name: str, rows: DataFrame, writer: Any) -> Any:
        known = stream_times.known_to_tasks(self._app.spark, self._checkpoint(name))
        with chained_states.allowed(rows), known:
            return writer.start()

    def _checkpoint(self, name: str) -> str:
        return str(self._directory / "checkpoints" / name)

    def _writer(self, name: str, found: tuple[DataFrame, str | None]) -> tuple[DataFrame, Any]:
        rows, output_mode = found
        writer = rows.writeStream.outputMode(output_mode or "append").foreachBatch(self._collect)
        writer = writer.option("checkpointLocation", self._checkpoint(name))
        writer = writer.trigger(availableNow=True)
        return rows, writer

    def _collect(self, rows: DataFrame, batch: int) -> None:
        del batch
        columns = rows.columns
        if KEPT in columns:
            rows = rows.filter(KEPT)
        collected = [row.asDict(recursive=True) for row in rows.collect()]
        if all(name in columns for name in PLACE):
            # Not by Spark, which would call the functions of the topology twice.
            collected.sort(key=itemgetter(*PLACE))
        for found in collected:
            self._written.setdefault(found["topic"], []).append(found)


class _DriverApp(App):
    """An app whose topics are directories. The driver runs it."""

    directory: Path

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.inputs: dict[str, TopicInput] = {}

    def start(self) -> NoReturn:
        """Raise RuntimeError: the driver runs the app."""
        raise RuntimeError("the test driver runs the app: describe topics and writes only")

    def inputs_of(self, topic: str) -> Path:
        """Return the directory of a topic's records."""
        found = self.directory / "topics" / topic
        found.mkdir(parents=True, exist_ok=True)
        return found

    def outputs(self) -> Mapping[str, object]:
        """Return the outputs that name a topic, by topic."""
        return {
            each.topic: each for each in self._queries.outputs.values() if each.topic is not None
        }

    def chained_queries(self) -> Mapping[str, Sequence[str]]:
        """Return the queries that read each topic between two queries."""
        return self._queries.readers()

    def frame_queries(self) -> list[str]:
        """Return the queries of DataFrames."""
        outputs = self._queries.outputs
        return [
            name for name, each in outputs.items() if not isinstance(each.records, Stream | Table)
        ]

    def frames(self) -> dict[str, tuple[DataFrame, str | None]]:
        """Return the rows and the output mode of each query."""
        self._queries.assign_letters()
        return {
            name: (self._queries.rows(output), output.output_mode)
            for name, output in self._queries.outputs.items()
        }

    def _read(self, given: TopicInput) -> DataFrame:
        self.inputs[given.topic] = given
        source = self.spark.readStream.schema(_COLUMNS).parquet(str(self.inputs_of(given.topic)))
        return topic_reading.decoded(source, given)


@contextlib.contextmanager
def _set(session: SparkSession, settings: Mapping[str, str]) -> Generator[None]:
    """Set the driver's properties of Spark for a while."""
    before = {name: session.conf.get(name, None) for name in settings}
    try:
        for name, setting in settings.items():
            session.conf.set(name, setting)
        yield
    finally:
        for name, setting in before.items():
            if setting is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, setting)


def _await_end(name: str, query: Any) -> None:
    """Wait for the end of a query. Raises StreamFailedError with what an app would report."""
    try:
        query.awaitTermination()
    except pyspark("errors").StreamingQueryException as error:
        failure = task_failures.from_text(str(error))
        raise StreamFailedError(name, failure) from None  # Spark's trace has hundreds of lines


def _write_file(directory: Path, number: int, rows: list[dict[str, Any]]) -> None:
    """Write a file of records; Spark sees it when it is complete."""
    names = list(rows[0])
    kinds = {
        "key": pa.binary(),
        "value": pa.binary(),
        "partition": pa.int32(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestampType": pa.int32(),
        "headers": _HEADERS,
    }
    columns = [pa.array([row[name] for row in rows], kinds.get(name)) for name in names]
    hidden = directory / f"_{number:06}.parquet"
    pq.write_table(pa.Table.from_arrays(columns, names=names), hidden)
    hidden.rename(directory / f"{number:06}.parquet")


def _encoded(serde: Serde, value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return codec_of(serde).encode(value)


def _record(row: Mapping[str, Any], key: Serde, value: Serde, keys: ViewKeys) -> TestRecord:
    row_key = None if row["key"] is None else keys.row_key(bytes(row["key"]))
    headers = row["headers"] or ()
    return TestRecord(
        None if row_key is None else codec_of(key).decode(row_key.key),
        None if row["value"] is None else codec_of(value).decode(bytes(row["value"])),
        row["timestamp_ms"],
        tuple((each["key"], each["value"]) for each in headers),
        (row_key.start_ms, row_key.end_ms) if row_key is not None and keys.is_windowed else None,
    )


def _unknown(verb: str, topic: str, known: Mapping[str, object]) -> str:
    names = ", ".join(sorted(known)) or "none"
    return f"the topology does not {verb} topic {topic}; the topics that it {verb}s: {names}"
