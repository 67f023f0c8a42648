"""Runs the statements of a case through analysis, planning and Spark, and compares the results.

Each query of a case runs for itself: its results are the records of the next one. A query without
state runs as one batch, one with state in streams' test driver, in the same Spark session.
"""

from __future__ import annotations

import base64
import tempfile
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

from barnabas.pipeline.sql.analysis.applied_statements import Definition, StartedQuery, applied
from barnabas.pipeline.sql.catalog.catalog_changes import Catalog
from barnabas.pipeline.sql.catalog.source_definitions import Defaults
from barnabas.pipeline.sql.functions.aggregate_properties import aggregate_properties
from barnabas.pipeline.sql.planning.query_writing import written
from barnabas.pipeline.sql.planning.registry_inference import RegistryInference
from barnabas.pipeline.sql.scripts import parse_script
from barnabas.pipeline.sql.shell.inserted_rows import InsertedRow
from barnabas.pipeline.sql.sql_failures import SqlError, UnresolvedError
from barnabas.pipeline.sql.statement_values import InsertValues
from barnabas.pipeline.streams import topic_reading
from barnabas.pipeline.streams.kernel_frames import BUCKETS_PROPERTY
from barnabas.pipeline.streams.registry_serdes import RegistrySchemaError
from barnabas.pipeline.streams.stream_app import App
from barnabas.pipeline.streams.test_driver import TestDriver, TestRecord
from compat_tests import sql_case_bytes
from compat_tests.sql_case_schemas import SCHEMA_FORMATS, CaseSchemas

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterator

    from barnabas.pipeline.sql.catalog.source_values import Format, Source, SourceColumn
    from barnabas.pipeline.streams.topic_reading import TopicInput
    from compat_tests.sql_case_files import Case, CaseRecord
    from compat_tests.sql_case_session import CaseEngine

_COLUMNS = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "timestampType INT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)


_ONE_TASK = {"spark.sql.shuffle.partitions": "1", BUCKETS_PROPERTY: "1"}


class DifferenceError(Exception):
    """A case has another result than it expects; the message says which."""


def _no_topics() -> defaultdict[str, list[TestRecord]]:
    return defaultdict(list)


def _no_rows() -> list[InsertedRow]:
    return []


@dataclass
class CaseRun:
    """One run of a case."""

    engine: CaseEngine
    case: Case
    schemas: CaseSchemas
    by_record: bool = False
    """True when a query with state takes the records of each topic in turns, as the case has them.

    Otherwise all records are one batch.
    """
    catalog: Catalog = field(default_factory=Catalog)
    topics: defaultdict[str, list[TestRecord]] = field(default_factory=_no_topics)
    inserted: list[InsertedRow] = field(default_factory=_no_rows)
    has_several_inputs: bool = False
    """True when a query with state has read several sources."""

    def run(self) -> None:
        """Run the case. Raises DifferenceError, SqlError, UnresolvedError and errors of Spark."""
        queries = self.queries()
        for record in self.case.inputs:
            self.add(record)
        for each in self.inserted:
            self._insert(each)
        for each in queries:
            self._run(each)
        self.compare()

    def compare(self) -> None:
        """Compare the records of topics with those that the case expects.

        Raises DifferenceError.
        """
        for topic in dict.fromkeys(each.topic for each in self.case.outputs):
            self._compare(topic)

    def analyse(self) -> None:
        """Apply the statements of the case, and describe its queries, but run none."""
        for started in self.queries():
            with self._described(started):
                pass
        for row in self.inserted:
            self._insert(row)

    def _insert(self, row: InsertedRow) -> None:
        found = row.encoded(self.engine.session, self.schemas.registry)
        self.topics[row.source.topic].append(TestRecord(found.key, found.value, found.time_ms or 0))

    def queries(self) -> list[StartedQuery]:
        """Apply the statements of the case; return the queries that they start.

        Raises SqlError, UnresolvedError.
        """
        found: list[StartedQuery] = []
        variables: dict[str, str] = {}
        defaults = _defaults(self.case.properties, self.schemas.registry)
        for text in self.case.statements:
            for statement in parse_script(text, variables):
                if isinstance(statement, InsertValues):
                    self.inserted.append(InsertedRow(statement, self.catalog))
                    continue
                if not isinstance(statement, Definition):
                    raise UnresolvedError(f"{type(statement).__name__} does not run in cases")
                result = applied(statement, self.catalog, defaults)
                self.catalog = result.catalog
                if result.started is not None:
                    found.append(result.started)
        return found

    def _source(self, topic: str) -> Source:
        found = [each for each in self.catalog.sources.values() if each.topic == topic]
        if not found:
            raise DifferenceError(f"no source has the topic {topic}")
        return found[0]

    def add(self, record: CaseRecord) -> None:
        """Add a record to its topic, as bytes."""
        known = [each for each in self.catalog.sources.values() if each.topic == record.topic]
        if not known:
            return
        source = known[0]
        key = self._encoded(record.key, source, "key")
        if record.window is not None:
            key = (key or b"") + sql_case_bytes.window_bytes(record.window, source)
        value = self._encoded(record.value, source, "value")
        headers = tuple(
            (name, None if text is None else base64.b64decode(text))
            for name, text in record.headers or ()
        )
        self.topics[record.topic].append(TestRecord(key, value, record.timestamp or 0, headers))

    def _encoded(self, value: Any, source: Source, side: str) -> bytes | None:
        form, columns = _side(source, side)
        if value is not None and columns and form.name in SCHEMA_FORMATS:
            return self.schemas.encoded(value, source, side)
        return sql_case_bytes.encoded(value, form, columns)

    def _decoded(self, data: bytes | None, source: Source, side: str) -> Any:
        form, columns = _side(source, side)
        if data is not None and columns and form.name in SCHEMA_FORMATS:
            return self.schemas.decoded(data, source, side)
        return sql_case_bytes.decoded(data, form, columns)

    def _run(self, started: StartedQuery) -> None:
        sink, plan = started.query.sink.topic, started.query.plan
        if plan.aggregation is None and not plan.joins:
            found = self._results_of_batch(started)
            if found is not None:
                self.topics[sink].extend(found)
                return
        with TestDriver(
            lambda app: written(app, started.query),
            session=self.engine.session,
            registry=self.schemas.registry,
            spark=_ONE_TASK,
        ) as driver:
            self._pipe(driver, list(dict.fromkeys(each.source.topic for each in plan.relations)))
            self.topics[sink].extend(driver.read(sink))
        self.has_several_inputs |= len(plan.relations) > 1

    def _pipe(self, driver: TestDriver, topics: list[str]) -> None:
        """Add the records of topics, all as one batch, or each run of a topic as one."""
        if not self.by_record:
            for topic in topics:
                driver.pipe(topic, *self.topics[topic])
            return
        waiting = {topic: list(self.topics[topic]) for topic in topics}
        for topic, taken in _batches(self.case, waiting):
            driver.pipe(topic, *waiting[topic][:taken])
            waiting[topic] = waiting[topic][taken:]
            driver.process()
        for topic, rest in waiting.items():
            driver.pipe(topic, *rest)

    def _results_of_batch(self, started: StartedQuery) -> list[TestRecord] | None:
        with self._described(started) as app:
            return app.results()

    @contextmanager
    def _described(self, started: StartedQuery) -> Generator[_BatchApp]:
        """Yield an app that describes a query over the records there are."""
        with tempfile.TemporaryDirectory() as directory:
            app = _BatchApp.attach(
                self.engine.session, "case", state=directory, registry=self.schemas.registry
            )
            try:
                app.records = self.topics
                written(app, started.query)
                yield app
            finally:
                app.stop()

    def _compare(self, topic: str) -> None:
        source = self._source(topic)
        expected = [each for each in self.case.outputs if each.topic == topic]
        actual = [self._actual(each, source) for each in self.topics[topic]]
        if source.is_table:
            wanted = _newest([(each.key, each.window, each.value) for each in expected])
            found = _newest([(each.key, each.window, each.value) for each in actual])
            _compare_tables(found, wanted)
            return
        if len(actual) != len(expected):
            raise DifferenceError(
                f"{len(actual)} records, and not {len(expected)}: {[e.value for e in actual]}"
            )
        for one, other in zip(actual, expected, strict=True):
            _compare_records(one, other)

    def _actual(self, record: TestRecord, source: Source) -> _Actual:
        key, window = record.key, None
        if source.window is not None and key is not None:
            key, start, end = sql_case_bytes.window_of(key, source)
            window = (start, end)
        return _Actual(
            self._decoded(key, source, "key"),
            window,
            self._decoded(record.value, source, "value"),
            record.timestamp,
            record.headers,
        )


class _BatchApp(App):
    """An app whose topics are records in memory, and whose queries without state are batches."""

    records: dict[str, list[TestRecord]]

    def results(self) -> list[TestRecord] | None:
        """Return the records of a query without state, None for others."""
        output, *others = self._queries.outputs.values()
        if output.output_mode is not None or others:
            return None
        rows: list[Any] = self._queries.rows(output).collect()
        rows.sort(key=itemgetter("_offset"))
        return [
            TestRecord(
                None if row["key"] is None else bytes(row["key"]),
                None if row["value"] is None else bytes(row["value"]),
                row["timestamp_ms"],
                tuple((each["key"], each["value"]) for each in row["headers"] or ()),
            )
            for row in rows
            if row["_kept"]
        ]

    def _read(self, given: TopicInput) -> Any:
        rows = [
            (
                record.key,
                record.value,
                given.topic,
                0,
                offset,
                record.timestamp,
                0,
                list(record.headers),
            )
            for offset, record in enumerate(self.records.get(given.topic, []))
        ]
        schema = _COLUMNS.replace("timestamp TIMESTAMP", "timestamp BIGINT")
        frame = self.spark.createDataFrame(rows, schema).selectExpr(
            "key", "value", "topic", "partition", "offset",
            "timestamp_millis(timestamp) AS timestamp", "timestampType", "headers",
        )  # fmt: skip
        return topic_reading.decoded(frame, given)


def _defaults(properties: dict[str, Any], registry: str) -> Defaults:
    given = {name.removeprefix("ksql."): each for name, each in properties.items()}
    return Defaults(
        str(given.get("persistence.default.format.key", "KAFKA")),
        given.get("persistence.default.format.value"),
        str(given.get("persistence.wrap.single.values", "true")).lower() == "true",
        str(given.get("output.topic.name.prefix", "")),
        schemas=RegistryInference(registry) if registry else None,
        aggregates=aggregate_properties({name: str(each) for name, each in properties.items()}),
    )


@dataclass(frozen=True)
class _Actual:
    key: Any
    window: tuple[int, int | None] | None
    value: Any
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...]


def _batches(case: Case, topics: Collection[str]) -> Iterator[tuple[str, int]]:
    """Return the topic and the number of records of each batch, for the order of a case.

    A batch has records of one topic whose times do not fall: queries order them by time.
    """
    before: CaseRecord | None = None
    taken = 0
    for record in case.inputs:
        if record.topic not in topics:
            continue
        if before is not None and (
            record.topic != before.topic or (record.timestamp or 0) < (before.timestamp or 0)
        ):
            yield before.topic, taken
            taken = 0
        before, taken = record, taken + 1
    if before is not None:
        yield before.topic, taken


def _side(source: Source, side: str) -> tuple[Format, tuple[SourceColumn, ...]]:
    if side == "key":
        return source.key_format, source.key
    return source.value_format, source.value


def _bounds(window: Any) -> Any:
    return (window["start"], window["end"]) if isinstance(window, dict) else window


def _newest(rows: list[tuple[Any, Any, Any]]) -> dict[str, tuple[Any, Any]]:
    """Return the newest value of each key and window, without deleted ones."""
    found: dict[str, tuple[Any, Any]] = {}
    for key, window, value in rows:
        name = f"{_plain(key)} {_bounds(window)}"
        found.pop(name, None)
        if value is not None:
            found[name] = (key, value)
    return found


def _plain(key: Any) -> str:
    if isinstance(key, dict):
        fields = cast("dict[str, Any]", key).items()
        return str(sorted((name.upper(), _plain(each)) for name, each in fields))
    if isinstance(key, list):
        return str([_plain(each) for each in cast("list[Any]", key)])
    return (
        str(float(key)) if isinstance(key, int | float) and not isinstance(key, bool) else str(key)
    )


def _compare_tables(
    actual: dict[str, tuple[Any, Any]], expected: dict[str, tuple[Any, Any]]
) -> None:
    if set(actual) != set(expected):
        raise DifferenceError(f"keys {sorted(actual)}, and not {sorted(expected)}")
    for name, (_, value) in expected.items():
        if not sql_case_bytes.same(actual[name][1], value):
            raise DifferenceError(f"{name} has {actual[name][1]}, and not {value}")


def _compare_records(actual: _Actual, expected: CaseRecord) -> None:
    for what, one, other in (
        ("key", actual.key, expected.key),
        ("value", actual.value, expected.value),
    ):
        if not sql_case_bytes.same(one, other):
            raise DifferenceError(f"the {what} is {one}, and not {other}")
    if expected.timestamp is not None and actual.timestamp != expected.timestamp:
        raise DifferenceError(f"the time is {actual.timestamp}, and not {expected.timestamp}")
    window = expected.window
    if window is not None and actual.window != _bounds(window):
        raise DifferenceError(f"the window is {actual.window}, and not {_bounds(window)}")


def failure_of(engine: CaseEngine, case: Case) -> str | None:
    """Return the reason why a case fails, None where it passes.

    ksqlDB's tests process record by record. Several inputs of a query with state are one batch
    first; if the results differ, they are run again in the order of the case.
    """
    try:
        return _failure_of(CaseRun(engine, case, CaseSchemas.of(engine.registry, case.topics)))
    except (SqlError, UnresolvedError, RegistrySchemaError) as error:
        return None if case.refused else f"refused: {error}"
    except DifferenceError as error:
        return f"differs: {error}"
    except Exception as error:  # Spark's errors have many types
        text = str(error).strip().partition("\n")[0]
        return f"{type(error).__name__}: {text[:300]}"


def _failure_of(run: CaseRun) -> str | None:
    if run.case.refused:
        run.analyse()
        return "an error is expected, and there is none"
    try:
        run.run()
    except DifferenceError:
        if not run.has_several_inputs:
            raise
        schemas = CaseSchemas.of(run.engine.registry, run.case.topics)
        CaseRun(run.engine, run.case, schemas, by_record=True).run()
    return None
