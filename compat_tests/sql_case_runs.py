"""Runs the statements of a case through analysis, planning and Spark, and compares the results.

Each query of a case runs for itself: its results are the records of the next one. A query without
state runs as one batch, one with state in streams' test driver, in the same Spark session.
"""

from __future__ import annotations

import base64
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

from barnabas.pipeline.sql.analysis.applied_statements import Definition, StartedQuery, applied
from barnabas.pipeline.sql.catalog.catalog_changes import Catalog
from barnabas.pipeline.sql.catalog.source_definitions import Defaults
from barnabas.pipeline.sql.planning.query_writing import written
from barnabas.pipeline.sql.scripts import parse_script
from barnabas.pipeline.sql.sql_failures import SqlError, UnresolvedError
from barnabas.pipeline.streams import topic_reading
from barnabas.pipeline.streams.stream_app import App
from barnabas.pipeline.streams.test_driver import TestDriver, TestRecord
from compat_tests import sql_case_bytes

if TYPE_CHECKING:
    from barnabas.pipeline.sql.catalog.source_values import Source
    from barnabas.pipeline.streams.topic_reading import TopicInput
    from compat_tests.sql_case_files import Case, CaseRecord

_COLUMNS = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "timestampType INT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)


class DifferenceError(Exception):
    """A case has another result than it expects; the message says which."""


def _no_topics() -> defaultdict[str, list[TestRecord]]:
    return defaultdict(list)


@dataclass
class CaseRun:
    """One run of a case."""

    session: Any
    case: Case
    catalog: Catalog = field(default_factory=Catalog)
    topics: defaultdict[str, list[TestRecord]] = field(default_factory=_no_topics)

    def run(self) -> None:
        """Run the case. Raises DifferenceError, SqlError, UnresolvedError and errors of Spark."""
        queries = self._queries()
        for record in self.case.inputs:
            self._add(record)
        for each in queries:
            self._run(each)
        for topic in dict.fromkeys(each.topic for each in self.case.outputs):
            self._compare(topic)

    def analyse(self) -> None:
        """Apply the statements of the case only."""
        self._queries()

    def _queries(self) -> list[StartedQuery]:
        found: list[StartedQuery] = []
        variables: dict[str, str] = {}
        defaults = _defaults(self.case.properties)
        for text in self.case.statements:
            for statement in parse_script(text, variables):
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

    def _add(self, record: CaseRecord) -> None:
        known = [each for each in self.catalog.sources.values() if each.topic == record.topic]
        if not known:
            return
        source = known[0]
        key = sql_case_bytes.encoded(record.key, source.key_format, source.key)
        if record.window is not None:
            key = (key or b"") + sql_case_bytes.window_bytes(record.window, source)
        value = sql_case_bytes.encoded(record.value, source.value_format, source.value)
        headers = tuple(
            (name, None if text is None else base64.b64decode(text))
            for name, text in record.headers or ()
        )
        self.topics[record.topic].append(TestRecord(key, value, record.timestamp or 0, headers))

    def _run(self, started: StartedQuery) -> None:
        sink = started.query.sink.topic
        found = self._results_of_batch(started)
        if found is not None:
            self.topics[sink].extend(found)
            return
        with TestDriver(lambda app: written(app, started.query), session=self.session) as driver:
            for relation in started.query.plan.relations:
                driver.pipe(relation.source.topic, *self.topics[relation.source.topic])
            self.topics[sink].extend(driver.read(sink))

    def _results_of_batch(self, started: StartedQuery) -> list[TestRecord] | None:
        with tempfile.TemporaryDirectory() as directory:
            app = _BatchApp.attach(self.session, "case", state=directory)
            try:
                app.records = self.topics
                written(app, started.query)
                return app.results()
            finally:
                app.stop()

    def _compare(self, topic: str) -> None:
        source = self._source(topic)
        expected = [each for each in self.case.outputs if each.topic == topic]
        actual = [_actual(each, source) for each in self.topics[topic]]
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


def _defaults(properties: dict[str, Any]) -> Defaults:
    given = {name.removeprefix("ksql."): each for name, each in properties.items()}
    return Defaults(
        str(given.get("persistence.default.format.key", "KAFKA")),
        given.get("persistence.default.format.value"),
        str(given.get("persistence.wrap.single.values", "true")).lower() == "true",
        str(given.get("output.topic.name.prefix", "")),
    )


@dataclass(frozen=True)
class _Actual:
    key: Any
    window: tuple[int, int | None] | None
    value: Any
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...]


def _actual(record: TestRecord, source: Source) -> _Actual:
    key, window = record.key, None
    if source.window is not None and key is not None:
        key, start, end = sql_case_bytes.window_of(key, source)
        window = (start, end)
    return _Actual(
        sql_case_bytes.decoded(key, source.key_format, source.key),
        window,
        sql_case_bytes.decoded(record.value, source.value_format, source.value),
        record.timestamp,
        record.headers,
    )


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


def failure_of(session: Any, case: Case) -> str | None:
    """Return the reason why a case fails, None where it passes."""
    run = CaseRun(session, case)
    try:
        if case.refused:
            run.analyse()
            return "an error is expected, and there is none"
        run.run()
    except (SqlError, UnresolvedError) as error:
        return None if case.refused else f"refused: {error}"
    except DifferenceError as error:
        return f"differs: {error}"
    except Exception as error:  # Spark's errors have many types
        text = str(error).strip().partition("\n")[0]
        return f"{type(error).__name__}: {text[:300]}"
    return None
