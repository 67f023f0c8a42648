"""Apps of `barnabas.streams` on a real node with real Spark: operators, deliveries, bad input."""

import functools
import json
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas import streams as ks
from barnabas.pipeline.delivery.driver.frame_sources import source_names
from barnabas.pipeline.delivery.forward import offset_refresh
from barnabas.pipeline.delivery.plan import offset_metadata
from barnabas.pipeline.streams.kernel_frames import BUCKETS_PROPERTY
from compat_tests import spark as setup
from compat_tests.pace import Pace
from compat_tests.pipeline.conftest import eventually
from compat_tests.pipeline.killed_job import read_committed

pytestmark = [
    setup.needed,
    pytest.mark.timeout(300),
]

CLICK = ks.Json("user STRING, url STRING, ms BIGINT")


@pytest.fixture
def app(engine, bootstrap, unique, tmp_path) -> Iterator[Callable[..., ks.App]]:
    """Return apps in the session of the module, which are stopped at the end."""
    made: list[ks.App] = []

    def make(name: str | None = None, **options: Any) -> ks.App:
        named = name or unique("app")
        found = ks.App.attach(engine.session, named, bootstrap, state=tmp_path / named, **options)
        made.append(found)
        return found

    yield make
    for each in made:
        each.stop()


class Records:
    """Produces records to a topic, and reads what an app wrote."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def send(self, topic: str, *records: tuple[Any, ...], partition: int = 0) -> None:
        """Send (key, value) or (key, value, timestamp)."""
        producer = Producer({"bootstrap.servers": self._bootstrap})
        for key, value, *time_ms in records:
            extra = {"timestamp": time_ms[0]} if time_ms else {}
            producer.produce(topic, _bytes(value), _bytes(key), partition=partition, **extra)
        assert producer.flush(60) == 0

    def await_count(self, topic: str, count: int, query: Any = None) -> list[Any]:
        """Return the records of a topic when there are enough of them."""
        found: list[Any] = []

        def has_all() -> bool:
            found[:] = self.all(topic)
            return len(found) >= count

        deadline = time.monotonic() + 240
        pace = Pace()
        while not has_all():
            shown = [(each.key(), each.value()) for each in found]
            assert time.monotonic() < deadline, f"{len(found)} of {count} records: {shown[:20]}"
            pace.pause()
        return found

    def all(self, topic: str) -> list[Any]:
        """Return the committed records of a topic, partition by partition."""
        return read_committed(self._bootstrap, topic)

    def position(self, group: str, topic: str) -> int:
        return self.committed(group, topic).offset

    def commit(self, group: str, topic: str, offset: int) -> None:
        """Commit an offset of a topic's only partition."""
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": group})
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        consumer.close()

    def committed(self, group: str, topic: str) -> TopicPartition:
        """Return the committed offset of a topic's only partition."""
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": group})
        (found,) = consumer.committed([TopicPartition(topic, 0)], 60)
        consumer.close()
        return found


def _bytes(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


def pairs(messages: list[Any]) -> list[tuple[Any, Any]]:
    return [(each.key(), each.value()) for each in messages]


@pytest.fixture
def records(bootstrap) -> Records:
    return Records(bootstrap)


def test_stateless_app_filters_and_maps_each_record_once(app, records, topics) -> None:
    source, target = topics.create("clicks"), topics.create("out", partitions=2)
    clicks = [
        (f"k{number}", {"user": f"u{number % 3}", "url": f"/{number}", "ms": number}, 1000 + number)
        for number in range(30)
    ]
    records.send(source, *clicks)
    first = app("filtering")
    stream = first.topic(source, key=ks.String(), value=CLICK)
    odd = stream.filter("ms % 2 = 1 AND value.user <> 'u2'").map_values(
        who="upper(user)", where="url", key="key"
    )
    query = first.write(odd.select_key("value.who"), target, name=f"{source}-copy")
    with first:
        found = records.await_count(target, 10)
        eventually(lambda: records.position(query.name, source) == 30)
    expected = [each for each in clicks if each[1]["ms"] % 2 and each[1]["user"] != "u2"]
    assert sorted(json.loads(each.value())["where"] for each in found) == sorted(
        each[1]["url"] for each in expected
    )
    assert {each.key() for each in found} == {b"U0", b"U1"}
    assert json.loads(found[0].value()).keys() == {"who", "where", "key"}
    assert {each.timestamp()[1] for each in found} == {each[2] for each in expected}


def test_instance_behind_another_one_does_not_move_the_position_back(app, records, topics) -> None:
    """Both would write the records between again."""
    source, target = topics.create("in"), topics.create("out")
    behind = app()
    query = behind.write(behind.topic(source), target)
    records.send(source, ("k", "0"))
    behind.start()
    records.await_count(target, 1, query)
    records.commit(query.name, source, 5)  # as another instance with the same name does
    records.send(source, *[("k", str(number)) for number in (1, 2, 3)])
    eventually(lambda: query.progress().skipped == 3)
    assert records.position(query.name, source) == 5
    records.send(source, ("k", "4"), ("k", "5"))
    assert [each.value() for each in records.await_count(target, 2, query)] == [b"0", b"5"]


GROUPS: list[tuple[Callable[[ks.Stream], ks.Table], Callable[[ks.Stream], ks.Table], str]] = [
    (
        lambda clicks: clicks.group_by("user").count(),
        lambda clicks: clicks.group_by("url").count(),
        "by value.user' in the state and '.*by value.url' in the query",
    ),
    (
        lambda clicks: clicks.group_by_key().reduce(max),
        lambda clicks: clicks.group_by("url").reduce(max),
        "keys is 'key' in the state and 'value.url' in the query",
    ),
]


@pytest.mark.parametrize(("before", "after", "difference"), GROUPS, ids=["count", "reduce"])
def test_state_of_other_groups_is_refused(app, records, topics, before, after, difference) -> None:
    """Both groups are texts, so Spark would take the one for the other."""
    source, target = topics.create("clicks"), topics.create("out")
    records.send(source, ("k", {"user": "ann", "url": "/", "ms": 1}))
    first = app()
    read = first.topic(source, key=ks.String(), value=CLICK)
    query = first.write(before(read), target)
    first.start()
    records.await_count(target, 1, query)
    first.stop()
    same = app(first.name)
    read = same.topic(source, key=ks.String(), value=CLICK).filter("url <> '/health'")
    same.write(before(read), target)
    same.start()
    same.stop()
    other = app(first.name)
    other.write(after(other.topic(source, key=ks.String(), value=CLICK)), target)
    with pytest.raises(ks.StreamFailedError, match=difference):
        other.start()


NEAR = (
    "join Inner, (((_left_key = _right_key) AND (_right_time >= cast(_left_time - INTERVAL '60' "
    "SECOND as timestamp))) AND (_right_time <= cast(_left_time + INTERVAL '60' SECOND as "
    "timestamp))) of key"
)
SPARK_STATES = [
    ("deduplication by key", lambda left, _: left.dedupe("1 minute")),
    (NEAR, lambda left, right: left.join(right, within="1 minute", value="left || right")),
    (
        "aggregate of count(1) bigint, max(_timestamp) timestamp by key, window(60000 ms every "
        "60000 ms from 0 ms)",
        lambda left, _: left.window(ks.tumbling("1 minute")).count().final(),
    ),
]


@pytest.mark.parametrize(("state", "operator"), SPARK_STATES, ids=["dedupe", "join", "final"])
def test_state_of_the_operators_that_were_those_of_spark_is_refused_with_the_command(
    app, engine, topics, tmp_path, state, operator
) -> None:
    """The versions are those that checkpoints of an earlier program have."""
    left, right, target = (topics.create(each) for each in ("left", "right", "out"))
    running = app()
    sides = [running.topic(each, key=ks.String(), value=ks.String()) for each in (left, right)]
    records = operator(*sides)
    query = running.write(records, target)
    checkpoint = tmp_path / running.name / "checkpoints" / query.name
    read = ", ".join(f"kafka {each.topic}" for each in records.inputs)
    parts = {"sources": read, "output mode": "append", "state 1": state}
    version = {"format": 2, "parts": parts, "digest": "0" * 32, "spark": engine.session.version}
    files = {
        "metadata": '{"id":"276924ed-f9c6-4faf-8b41-8f00518fc3dc"}',
        "barnabas-version.json": json.dumps(version),
        "offsets/0": "v1\n{}\n-",
        "commits/0": 'v1\n{"nextBatchWatermarkMs":0}',
    }
    for name, content in files.items():
        (checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
        (checkpoint / name).write_text(content)
    with pytest.raises(ks.StreamFailedError) as found:
        running.start()
    message = str(found.value)
    assert f"state 1 is '{state}' in the state and 'FlatMapGroupsInPandasWithState'" in message
    assert "run `barnabas job rebuild`, or App.reset() in an app" in message


SERDES = [
    (ks.String(), "STRING", ["", "äö", None], [b"", "äö".encode(), None]),
    (ks.Bytes(), "BINARY", [b"\xff\x00", None], [b"\xff\x00", None]),
    (ks.Uuid(), "STRING", [f"{7:032x}"[:8] + "-0000-4000-8000-00000000000a"] * 2, None),
    (ks.Short(), "SMALLINT", [0, 1, -1, 32767, -32768, None], "h"),
    (ks.Integer(), "INT", [0, 1, -1, 2**31 - 1, -(2**31), None], "i"),
    (ks.Long(), "BIGINT", [0, 1, -1, 2**63 - 1, -(2**63), None], "q"),
    (ks.Float(), "FLOAT", [0.0, -1.5, 3.4028234663852886e38, 1e-45, float("inf"), None], "f"),
    (ks.Double(), "DOUBLE", [0.0, -1.5, 5e-324, 1.7976931348623157e308, 0.1, None], "d"),
]


@pytest.mark.parametrize(
    ("serde", "kind", "values", "data"), SERDES, ids=lambda each: str(each)[:9]
)
def test_serde_writes_and_reads_the_bytes_of_java(engine, serde, kind, values, data) -> None:
    if isinstance(data, str):
        data = [None if each is None else struct.pack(f">{data}", each) for each in values]
    elif data is None:
        data = [each.encode() for each in values]
    rows = [(n, value, raw) for n, (value, raw) in enumerate(zip(values, data, strict=True))]
    frame = engine.session.createDataFrame(rows, f"n INT, value {kind}, raw BINARY")
    parsed = frame.withColumn("parsed", serde.parse(frame["raw"]))
    found = parsed.select(
        "n",
        serde.encode(parsed["value"]).alias("raw"),
        serde.value(parsed["parsed"]).alias("value"),
    ).sort("n")
    assert (
        found.schema["value"].dataType.simpleString()
        == frame.schema["value"].dataType.simpleString()
    )
    rows = found.collect()
    assert [None if row.raw is None else bytes(row.raw) for row in rows] == data
    assert [row.value for row in rows] == [
        struct.unpack(">f", raw)[0] if kind == "FLOAT" and raw else value
        for value, raw in zip(values, data, strict=True)
    ]


def is_even(key: str, value: str | None) -> bool:
    return value is not None and int(value) % 2 == 0


BAD = [
    (ks.Short(), b"x"),
    (ks.Long(), b"123456789"),
    (ks.Double(), b""),
    (ks.Uuid(), b"7"),
    (CLICK, b"{bad"),
    (CLICK, b""),
    (CLICK, b"[1]"),
    (CLICK, b'{"user": "u", "ms": "text"}'),
    (ks.Json("ARRAY<INT>"), b"{}"),
]


@pytest.mark.parametrize(("serde", "data"), BAD, ids=lambda each: str(each)[:20])
def test_serde_of_other_bytes_reports_an_error(engine, serde, data) -> None:
    frame = engine.session.createDataFrame([(data,), (None,)], "raw BINARY")
    parsed = frame.withColumn("parsed", serde.parse(frame["raw"]))
    found = parsed.select(serde.error(parsed["raw"], parsed["parsed"])).collect()
    assert [row[0] is not None for row in found] == [True, False]


def test_branches_and_merges_divide_and_unite_records(app, records, topics) -> None:
    sources, target = [topics.create("in"), topics.create("in")], topics.create("out")
    for source in sources:
        records.send(source, *[(f"k{n}", str(n)) for n in range(6)], (None, None))
    both = app()
    left, right = (both.topic(each, key=ks.String(), value=ks.String()) for each in sources)
    small, even, _ = left.branch(
        "int(value) < 2", lambda key, value: value and int(value) % 2 == 0, "true"
    )
    merged = small.merge(right.filter_not("value IS NULL OR int(value) > 0"))
    words = merged.flat_map_values("split(concat(value, ' x'), ' ')")
    both.write(words, target)
    both.write(even, target, name=f"{target}-even", value=ks.Custom("STRING", encode=str.encode))
    with both:
        found = records.await_count(target, 8)
    assert sorted(value for _, value in pairs(found)) == sorted(
        [b"0", b"x", b"1", b"x", b"0", b"x", b"2", b"4"]
    )


def test_undecodable_record_ends_the_app_and_is_named(app, records, topics) -> None:
    source, target = topics.create("in"), topics.create("out")
    records.send(source, ("k", {"user": "a"}), ("k", "{bad"), ("k", {"user": "b"}))
    failing = app()
    failing.write(failing.topic(source, value=CLICK), target)
    failing.start()
    with pytest.raises(
        ks.StreamFailedError, match=f"record {source}-0@1: the value is not"
    ) as info:
        failing.wait(90)
    assert info.value.failure.is_permanent
    assert str(info.value.failure.record) == f"{source}-0@1"
    assert records.all(target) == []


def test_undecodable_records_are_dead_letters_once_or_skipped(app, records, topics) -> None:
    source, target, letters = topics.create("in"), topics.create("out"), topics.create("letters")
    records.send(source, ("k", {"user": "a"}), ("bad", "{bad", 77), ("k", None))
    tolerant = app()
    stream = tolerant.topic(source, value=CLICK, on_error="dead-letter", dead_letters=letters)
    skipping = tolerant.topic(source, value=CLICK, on_error="skip")
    tolerant.write(stream.filter("user IS NULL OR user <> 'z'"), target)
    tolerant.write(stream, target, name=f"{target}-again")
    tolerant.write(skipping, target, name=f"{target}-skipping")
    counted = stream.group_by("user").count()
    tolerant.write(counted, target, name=f"{target}-counts", key=ks.String())
    with tolerant:
        found = records.await_count(target, 7)
        (letter,) = records.await_count(letters, 1)
    values = sorted(str(value) for _, value in pairs(found))
    assert values.count("None") == 3
    assert (letter.key(), letter.value(), letter.timestamp()[1]) == (b"bad", b"{bad", 77)
    headers = dict(letter.headers())
    assert headers["__connect.errors.offset"] == b"1"
    assert b"is not JSON" in headers["__connect.errors.exception.message"]


def test_function_that_raises_ends_the_app_and_names_the_record(app, records, topics) -> None:
    source = topics.create("in")
    records.send(source, ("k", "1"), ("k", "x"))
    failing = app()
    numbers = failing.topic(source, value=ks.String())
    failing.write(numbers.map_values(lambda key, value: int(value), returns="BIGINT"), source)
    with pytest.raises(ks.StreamFailedError, match=f"ValueError for record {source}-0@1"), failing:
        failing.wait(90)


def test_windowed_count_has_keys_and_times_of_kafka_streams(app, records, topics) -> None:
    source, updates, final = (topics.create(each) for each in ("in", "updates", "final"))
    counting = app()
    stream = counting.topic(source, value=CLICK, time="ms")
    windows = stream.group_by("user").window(ks.tumbling("1 minute", grace="5 seconds"))
    counting.write(windows.count(), updates)
    counting.write(windows.count().final().to_stream(), final, value=ks.String())
    minute = [{"user": "a", "ms": ms} for ms in (1_000, 59_999, 60_000)]
    records.send(
        source, *[("k", each) for each in minute], ("k", None), ("k", {"user": None, "ms": 1})
    )
    with counting:
        newest = {each.key(): each for each in records.await_count(updates, 2)}
        # 60 s is behind the end of the first window, its grace ends at 65 s.
        records.send(source, ("k", {"user": "a", "ms": 65_000}))
        records.send(source, ("k", {"user": "b", "ms": 130_000}))
        closed = sorted(records.await_count(final, 2), key=lambda each: each.key())
    first, second = (b"a" + struct.pack(">q", start_ms) for start_ms in (0, 60_000))
    assert newest.keys() == {first, second}
    assert struct.unpack(">q", newest[first].value()) == (2,)
    assert newest[first].timestamp()[1] == 59_999
    assert pairs(closed) == [(first, b"2"), (second, b"2")]
    assert [each.timestamp()[1] for each in closed] == [59_999, 65_000]


def test_aggregates_and_tables_write_structs_and_tombstones(app, records, topics) -> None:
    source, totals, names = (topics.create(each) for each in ("in", "totals", "names"))
    records.send(source, ("a", {"user": "u", "ms": 5}, 10), ("a", {"user": "v", "ms": 7}, 9))
    records.send(source, (None, {"user": "x", "ms": 0}), ("b", {"user": "w", "ms": 1}), ("b", None))
    tables = app()
    groups = tables.topic(source, key=ks.String(), value=CLICK).group_by_key()
    tables.write(groups.aggregate(n="count(*)", most="max(ms)"), totals)
    table = tables.table(source, key=ks.String(), value=CLICK)
    tables.write(table.filter("ms <> 7").map_values("upper(user)"), names)
    with tables:
        found = records.await_count(totals, 2)
        changes = records.await_count(names, 4)
    newest = {key: json.loads(value) for key, value in pairs(found)}
    assert newest == {b"a": {"n": 2, "most": 7}, b"b": {"n": 1, "most": 1}}
    assert {each.timestamp()[1] for each in found if each.key() == b"a"} == {10}
    assert pairs(changes) == [(b"a", b"U"), (b"a", None), (b"b", b"W"), (b"b", None)]


def test_floating_point_numbers_are_read_and_written_with_state(app, records, topics) -> None:
    """Spark takes the calls of Java that convert their bits for non-deterministic."""
    source, target = topics.create("readings"), topics.create("out")
    records.send(source, *[("s", struct.pack(">d", each), 1_000) for each in (0.5, 1.25)])
    summed = app()
    readings = summed.topic(source, key=ks.String(), value=ks.Double())
    query = summed.write(readings.group_by_key().sum("value"), target)
    summed.start()
    (found,) = records.await_count(target, 1, query)
    assert pairs([found]) == [(b"s", struct.pack(">d", 1.75))]

    changing = app()
    readings = changing.topic(source, key=ks.String(), value=ks.Double())
    changing.write(readings.group_by("value + rand()").count(), target)
    with pytest.raises(ks.StreamFailedError, match=r"the query has rand\(.*when a micro-batch"):
        changing.start()


def test_streams_join_within_a_time(app, records, topics) -> None:
    left, right, inner, outer = (topics.create(each) for each in ("l", "r", "inner", "outer"))
    joining = app()
    sides = [joining.topic(each, key=ks.String(), value=ks.String()) for each in (left, right)]
    pair = "struct(left AS l, right AS r)"
    joining.write(sides[0].join(sides[1], within="10 seconds", value=pair), inner)
    joining.write(sides[0].outer_join(sides[1], within="10 seconds", value=pair), outer)
    records.send(left, ("a", "1", 1_000), ("b", "2", 1_000), (None, "3", 1_000), ("a", None, 1_000))
    records.send(right, ("a", "x", 11_000), ("b", "y", 11_001))
    with joining:
        found = records.await_count(inner, 1)
        records.send(left, ("c", "4", 90_000))
        records.send(right, ("c", "z", 90_001))
        both = records.await_count(outer, 5)
    assert [(each.key(), json.loads(each.value())) for each in found] == [
        (b"a", {"l": "1", "r": "x"})
    ]
    assert found[0].timestamp()[1] == 11_000
    assert sorted(json.dumps(json.loads(each.value())) for each in both) == [
        '{"l": "1", "r": "x"}',
        '{"l": "2", "r": null}',
        '{"l": "3", "r": null}',
        '{"l": "4", "r": "z"}',
        '{"l": null, "r": "y"}',
    ]


def test_dataframes_are_written_once_with_and_without_their_source(app, records, topics) -> None:
    source, near, far, twice = (topics.create(each) for each in ("in", "near", "far", "twice"))
    records.send(source, *[(f"k{number}", str(number), number) for number in range(20)])
    name = f"{source}-plain"

    def described() -> ks.App:
        plain = app(name)
        df = plain.topic(source, key=ks.String(), value=ks.String()).df
        plain.write(df.filter("int(value) >= 5"), near)
        shuffled = df.selectExpr("key", "value", "_timestamp AS timestamp", "_headers AS headers")
        plain.write(shuffled, far)
        plain.write(df.select("value"), twice, delivery="at-least-once")
        return plain

    with described():
        records.await_count(near, 15)
        records.await_count(far, 20)
        records.await_count(twice, 20)
    records.send(source, *[(f"k{number}", str(number), number) for number in range(20, 30)])
    with described():
        found = records.await_count(near, 25)
        shuffled = records.await_count(far, 30)
        records.await_count(twice, 30)
    assert [int(each.value()) for each in found] == list(range(5, 30))
    assert [each.timestamp()[1] for each in found] == list(range(5, 30))
    assert sorted(int(each.value()) for each in shuffled) == list(range(30))
    assert records.position(f"{name}-{near}", source) == 30


def test_records_are_enriched_from_a_table(app, records, topics) -> None:
    orders, users, by_key, by_user = (topics.create(each) for each in ("o", "users", "k", "u"))
    records.send(users, ("u1", {"name": "Ann"}, 1_000), ("u2", {"name": "Bo"}, 1_000))
    records.send(users, ("u2", None, 2_000))
    records.send(orders, ("u1", {"user": "u2", "ms": 1}, 1_500), ("u2", {"user": "u1"}, 2_500))
    records.send(orders, ("u3", {"user": None}, 2_600), ("u1", None, 2_700))
    enriching = app()
    stream = enriching.topic(orders, key=ks.String(), value=CLICK)
    table = enriching.table(users, key=ks.String(), value=ks.Json("name STRING"))
    inner = stream.join_table(table, value="struct(left.user AS user, right.name AS name)")
    enriching.write(inner, by_key)
    left = stream.left_join_table(table, on="user", value="concat(coalesce(right.name, '-'), key)")
    enriching.write(left, by_user)
    with enriching:
        found = records.await_count(by_key, 1)
        named = records.await_count(by_user, 3)
    assert pairs(found) == [(b"u1", b'{"user":"u2","name":"Ann"}')]
    assert found[0].timestamp()[1] == 1_500
    assert sorted(pairs(named)) == [(b"u1", b"Bou1"), (b"u2", b"Annu2"), (b"u3", b"-u3")]


def test_tables_join_by_key_with_tombstones(app, records, topics) -> None:
    left, right, target = (topics.create(each) for each in ("l", "r", "out"))
    records.send(left, (b"\0\0\0\1", "a", 1_000), (b"\0\0\0\2", "b", 1_000))
    records.send(right, (b"\0\0\0\1", "x", 2_000))
    joining = app()
    tables = [joining.table(each, key=ks.Integer(), value=ks.String()) for each in (left, right)]
    joining.write(tables[0].outer_join(tables[1]), target)
    with joining:
        eventually(lambda: len({each.key() for each in records.all(target)}) == 2)
        records.send(left, (b"\0\0\0\1", None, 3_000))
        records.send(left, (b"\0\0\0\2", None, 3_000))

        def newest() -> dict[Any, Any]:
            return dict(pairs(sorted(records.all(target), key=lambda each: each.offset())))

        expected = {b"\0\0\0\1": b'{"left":null,"right":"x"}', b"\0\0\0\2": None}
        eventually(lambda: newest() == expected)
    at_ms = [each.timestamp()[1] for each in records.all(target) if each.key() == b"\0\0\0\1"]
    assert at_ms == sorted(at_ms)


def test_groups_fold_in_sessions_sliding_windows_and_without_windows(app, records, topics) -> None:
    source = topics.create("in")
    sessions, final, sliding, folded = (topics.create(each) for each in ("s", "f", "l", "d"))
    times = [1_000, 5_000, 31_000, 9_000, 101_000]
    records.send(source, *[("k", {"user": "u", "ms": ms}, ms) for ms in times])
    folding = app()
    stream = folding.topic(source, key=ks.String(), value=CLICK)
    session = ks.session("5 seconds", grace="1 minute")
    folding.write(stream.window(session).count(), sessions)
    folding.write(stream.group_by("user").window(session).sum("ms").final(), final)
    windows = stream.window(ks.sliding("5 seconds", grace="1 minute"))
    longest = windows.reduce(lambda most, value: max(most, value, key=lambda each: each["ms"]))
    folding.write(longest.map_values("ms"), sliding)
    folding.write(
        stream.group_by_key().fold("", lambda n, v: f"{n}{v['ms']},", returns="STRING"), folded
    )
    with folding:
        found = records.await_count(sessions, 7)
        closed = records.await_count(final, 2)
        slid = records.await_count(sliding, 5)
        all_times = records.await_count(folded, 5)
    newest = {each.key(): each.value() for each in sorted(found, key=lambda each: each.offset())}
    kept = {
        key: struct.unpack(">q", value)[0] for key, value in newest.items() if value is not None
    }
    assert kept == {_session("k", 1_000, 9_000): 3, _session("k", 31_000, 31_000): 1,
                    _session("k", 101_000, 101_000): 1}  # fmt: skip
    assert {key for key, value in newest.items() if value is None} == {
        _session("k", 1_000, 1_000), _session("k", 1_000, 5_000)
    }  # fmt: skip
    assert pairs(closed) == [
        (_session("u", 1_000, 9_000), struct.pack(">q", 15_000)),
        (_session("u", 31_000, 31_000), struct.pack(">q", 31_000)),
    ]
    assert {each.key()[:1] for each in slid} == {b"k"}
    assert all_times[-1].value() == b"1000,5000,31000,9000,101000,"


def _session(key: str, start_ms: int, end_ms: int) -> bytes:
    return key.encode() + struct.pack(">qq", end_ms, start_ms)


def numbered(failing: str = "") -> ks.Processor:
    class Numbered:  # Spark's workers cannot import the test's module
        """Numbers the records of a key."""

        def process(self, record: ks.Record, context: ks.ProcessContext) -> list[ks.Record]:
            if record.value == failing:
                raise ValueError(failing)
            numbers = context.store("numbers")
            numbers[record.key] = numbers.get(record.key, 0) + 1
            return [ks.Record(record.key, f"{record.value} {numbers[record.key]}")]

    return Numbered()


@pytest.mark.timeout(600)
def test_foreign_key_joins_and_processors_continue_from_their_state(app, records, topics) -> None:
    people, teams, joined, counts, seen = (
        topics.create(each, partitions=2) for each in ("people", "teams", "joined", "counts", "s")
    )
    name = f"{people}-state"

    def described(version: int = 1) -> ks.App:
        found = app(name)
        table = found.table(people, key=ks.String(), value=ks.String())
        titles = found.table(teams, key=ks.String(), value=ks.String())
        found.write(
            table.left_join(titles, on="value", value="left || coalesce(right, '-')"), joined
        )
        found.write(table.group_by("value").count(), counts, value=ks.Long())
        stream = found.topic(people, key=ks.String(), value=ks.String())
        found.write(stream.process(numbered(), state="numbers", version=version), seen)
        return found

    def newest(topic: str) -> dict[Any, Any]:
        return dict(pairs(sorted(records.all(topic), key=lambda each: each.offset())))

    records.send(people, ("a", "x", 1_000), ("b", "x", 1_100), ("c", "y", 1_200))
    records.send(teams, ("x", "X", 1_000), partition=1)
    one, two = struct.pack(">q", 1), struct.pack(">q", 2)
    with described():
        eventually(lambda: newest(joined) == {b"a": b"xX", b"b": b"xX", b"c": b"y-"})
        eventually(lambda: newest(counts) == {b"x": two, b"y": one})
        eventually(lambda: newest(seen) == {b"a": b"x 1", b"b": b"x 1", b"c": b"y 1"})
    records.send(teams, ("x", "X2", 2_000), ("y", "Y", 2_000))
    records.send(people, ("b", "y", 2_000))
    with described():
        eventually(lambda: newest(joined) == {b"a": b"xX2", b"b": b"yY", b"c": b"yY"})
        eventually(lambda: newest(counts) == {b"x": one, b"y": two})
        eventually(lambda: newest(seen)[b"b"] == b"y 2")
    assert sorted(value for _, value in pairs(records.all(seen))) == [
        b"x 1", b"x 1", b"y 1", b"y 2"
    ]  # fmt: skip
    records.send(people, ("a", "z", 3_000))
    with (
        pytest.raises(ks.StreamFailedError, match="version is 1 in the state and 2 in the query"),
        described(version=2) as changed,
    ):
        changed.wait(240)


def test_processor_that_raises_ends_the_app_and_names_the_key(app, records, topics) -> None:
    source, target = topics.create("in"), topics.create("out")
    records.send(source, ("k1", "1"), ("k2", "bad"))
    failing = app()
    stream = failing.topic(source, key=ks.String(), value=ks.String())
    failing.write(stream.process(numbered(failing="bad"), state="numbers"), target)
    message = r"Numbered\.process raised ValueError for key b'k2': bad"
    with pytest.raises(ks.StreamFailedError, match=message), failing:
        failing.wait(90)


def flushing() -> ks.Processor:
    class Flushing:  # Spark's workers cannot import the test's module
        """Collects the values of a key, and sends them by the wall clock."""

        def process(self, record: ks.Record, context: ks.ProcessContext) -> None:
            context.store("values").setdefault(record.key, []).append(record.value)

        def punctuate_wall_clock(self, time_ms: int, context: ks.ProcessContext) -> list[ks.Record]:
            values = context.store("values")
            found = [ks.Record(key, f"{' '.join(each)} {time_ms}") for key, each in values.items()]
            values.clear()
            return found

    return Flushing()


@pytest.fixture
def few_buckets(engine) -> Iterator[None]:
    engine.session.conf.set(BUCKETS_PROPERTY, "4")
    yield
    engine.session.conf.unset(BUCKETS_PROPERTY)


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("few_buckets")
def test_processor_is_called_by_the_wall_clock_of_a_quiet_topic(app, records, topics) -> None:
    source, target = topics.create("in", partitions=2), topics.create("out")
    name = f"{source}-flushed"

    def described(wall_clock_every: str) -> ks.App:
        found = app(name)
        stream = found.topic(source, key=ks.String(), value=ks.String())
        flushed = stream.process(flushing(), state="values", wall_clock_every=wall_clock_every)
        # The query's sources are compared with those of its state.
        assert source_names(flushed.frame) == [f"kafka {source}", "barnabas-clock"]
        found.write(flushed, target)
        return found

    def flushed() -> dict[bytes, list[str]]:
        return {each.key(): each.value().decode().split() for each in records.all(target)}

    started_ms = time.time() * 1000
    records.send(source, ("a", "1", 1_000), ("b", "2", 2_000))
    records.send(source, ("c", "3", 3_000), partition=1)
    with described("1 second"):
        eventually(lambda: flushed().keys() == {b"a", b"b", b"c"})
    for message in records.all(target):
        *_, time_ms = message.value().decode().split()
        assert started_ms < int(time_ms) <= time.time() * 1000
        assert message.timestamp()[1] == int(time_ms)
    # The state and the clock continue, with another period as well.
    records.send(source, ("a", "4", 4_000))
    with described("700 milliseconds"):
        eventually(lambda: flushed()[b"a"][:-1] == ["4"])
    assert len(records.all(target)) == 4


def test_positions_of_idle_partitions_are_renewed(app, records, topics, monkeypatch) -> None:
    monkeypatch.setattr(offset_refresh, "FIRST_S", 0.1)
    monkeypatch.setattr(offset_refresh, "EVERY_S", 0.1)
    old = functools.partial(offset_refresh.refresh, older_than_ms=0)
    monkeypatch.setattr(offset_refresh, "refresh", old)
    source, target, counts = (topics.create(each) for each in ("in", "out", "counts"))
    records.send(source, *[("k", str(number)) for number in range(5)])
    idle = app()
    stream = idle.topic(source, key=ks.String(), value=ks.String())
    idle.write(stream.group_by_key().count(), counts)
    query = idle.write(stream.map_values("value"), target)

    def committed_ms() -> int:
        """Return when the position was committed, 0 before the first time."""
        found = records.committed(query.name, source)
        noted = offset_metadata.decode(found.metadata)
        assert (found.offset, bool(noted.topic_id)) in ((-1001, False), (5, True))
        return noted.committed_ms

    with idle:
        first_ms = eventually(committed_ms)
        eventually(lambda: committed_ms() > first_ms + 1000)
    assert [int(each.value()) for each in records.all(target)] == list(range(5))


def test_running_app_counts_the_records_that_retention_deleted(
    app, records, topics, tmp_path, caplog
) -> None:
    """Records before the first one of a batch, then in a batch that Spark has read in part."""
    source, target = topics.create("in"), topics.create("out")
    gates = [tmp_path / "gate-0", tmp_path / "gate-1"]

    def passed(key: str, value: str) -> str:
        """Wait at a record `gate-N` until the test opens the gate."""
        if value.startswith("gate"):
            gate = gates[int(value[5:6])]
            gate.with_suffix(".reached").touch()
            deadline = time.monotonic() + 240
            while not gate.exists() and time.monotonic() < deadline:
                time.sleep(0.01)
        return value[:9]

    def written() -> list[str]:
        return [each.value().decode() for each in records.all(target)]

    def delete_at_gate(number: int, start: int) -> None:
        eventually(gates[number].with_suffix(".reached").exists)
        place = TopicPartition(source, 0, start)
        topics.admin.delete_records([place], operation_timeout=60)[place].result(90)
        gates[number].touch()

    skipping = app(on_trim="skip")
    stream = skipping.topic(source, key=ks.String(), value=ks.String())
    query = skipping.write(stream.map_values(passed, returns="STRING"), target)
    records.send(source, ("k", "gate-0"))
    with skipping:
        eventually(gates[0].with_suffix(".reached").exists)
        records.send(source, *[("k", f"small {number:03}") for number in range(1, 50)])
        # Spark reads some megabytes ahead of a function that waits.
        large = [("k", f"large {number:03} {'x' * 40_000}") for number in range(1_000)]
        records.send(source, ("k", "gate-1"), *large)
        delete_at_gate(0, 30)
        delete_at_gate(1, 1_050)
        eventually(lambda: written()[-1:] == ["large 999"])
        found = written()
        eventually(lambda: query.progress().trimmed == 1_051 - len(found))
    small = [f"small {number:03}" for number in range(30, 50)]
    assert found[:22] == ["gate-0", *small, "gate-1"]
    numbers = [int(each[6:]) for each in found[22:]]
    assert numbers == [*range(len(numbers) - 1), 999]
    assert len(numbers) < 1_000
    counts = [each.args[1] for each in caplog.records if "retention deleted" in each.msg]
    assert sum(counts) == 1_051 - len(found)


HOUR_MS = 3_600_000


def hours_of(key: str, first: int) -> list[tuple[str, str, int]]:
    """Return six hours of records of a key, a thousand in each."""
    step_ms = HOUR_MS // 1_000
    return [(key, "x", first * HOUR_MS + number * step_ms) for number in range(6_000)]


def counted(messages: list[Any]) -> dict[bytes, int]:
    """Return the number of records of each key in all of its windows."""
    newest = {each.key(): struct.unpack(">q", each.value())[0] for each in messages}
    found: dict[bytes, int] = {}
    for key, count in newest.items():
        found[key[:-8]] = found.get(key[:-8], 0) + count
    return found


def test_windows_count_all_records_of_a_partition_that_is_hours_behind(
    app, records, topics, caplog
) -> None:
    """Batches have both partitions, one of which is six hours ahead; late records are counted."""
    source, target = topics.create("in", partitions=2), topics.create("out")
    records.send(source, *hours_of("a", 1))
    records.send(source, *hours_of("b", 7), partition=1)
    hours = ks.tumbling("1 hour", grace="5 minutes")

    def described() -> tuple[ks.App, Any]:
        found = app("skewed")
        read = found.topic(source, key=ks.String(), value=ks.String(), max_records=2_000)
        return found, found.write(read.group_by_key().window(hours).count(), target)

    running, query = described()
    with running:
        eventually(lambda: counted(records.all(target)) == {b"a": 6_000, b"b": 6_000})
        assert query.progress().late == 0
    # Both are late for their own partition only: the time of partitions survives the restart.
    records.send(source, ("a", "late", 5 * HOUR_MS), ("a", "x", 7 * HOUR_MS))
    records.send(source, ("b", "late", 11 * HOUR_MS), ("b", "x", 13 * HOUR_MS), partition=1)
    again, query = described()
    with again:
        eventually(lambda: counted(records.all(target)) == {b"a": 6_001, b"b": 6_001})
        eventually(lambda: query.progress().late == 2)
    lines = [each.args for each in caplog.records if "windows were closed" in each.msg]
    assert sum(count for _, count in lines) == 2
    assert {name for name, _ in lines} == {query.name}


def test_late_records_of_kernels_are_counted(app, records, topics) -> None:
    source, *targets = (topics.create(each) for each in ("in", "sessions", "unique", "final"))
    records.send(source, ("a", "1", 90_000), ("a", "2", 10_000), ("b", "3", 10_000))
    running = app()
    read = running.topic(source, key=ks.String(), value=ks.String())
    queries = [
        running.write(read.window(ks.session("1 second")).count(), targets[0]),
        running.write(read.dedupe("1 second"), targets[1]),
        running.write(read.window(ks.tumbling("1 second")).count().final(), targets[2]),
    ]
    with running:
        for query in queries:
            eventually(lambda query=query: query.progress().late == 2)
        assert [each.value() for each in records.all(targets[1])] == [b"1"]


def test_join_of_topics_with_other_partitions_is_refused(app, records, topics) -> None:
    left, right, target = topics.create("l", partitions=3), topics.create("r"), topics.create("out")
    joining = app()
    sides = [joining.topic(each, key=ks.String(), value=ks.String()) for each in (left, right)]
    joining.write(sides[0].join(sides[1], within="1 second"), target)
    with pytest.raises(ks.StreamFailedError, match=f"{left} has 3, {right} has 1: give both"):
        joining.start()
    records.send(left, ("a", "1", 1_000), partition=2)
    records.send(right, ("a", "x", 1_500))
    spread = app()
    sides = [spread.topic(each, key=ks.String(), value=ks.String()) for each in (left, right)]
    joined = sides[0].select_key("key").join(sides[1], within="1 second", value="left || right")
    query = spread.write(joined, target)
    with spread:
        (found,) = records.await_count(target, 1, query)
    assert (found.key(), found.value()) == (b"a", b"1x")


RATES = {"l": 10, "r": 1_000}
"""The milliseconds between two records of both sides of a join, in a backlog."""
BACKLOG = 900
"""The records of each side: three full micro-batches, of which the last one leaves nothing."""


def in_backlog(records: Records, *topics: str) -> None:
    """Send the records of topics that are named as the sides are, with different rates."""
    for topic, (name, step_ms) in zip(topics, RATES.items(), strict=True):
        times = [number * step_ms for number in range(1, BACKLOG + 1)]
        records.send(topic, *[("k", f"{name}{time_ms}", time_ms) for time_ms in times])


@pytest.mark.usefixtures("few_buckets")
def test_join_of_a_backlog_has_all_pairs_of_sides_that_differ_in_their_rates(
    app, records, topics
) -> None:
    """The left side is read to 3 seconds when the right one is at 5 minutes.

    The records of the right side that wait are delivered though the backlog ends with a full
    micro-batch, which no other one follows.
    """
    sources = [topics.create(name) for name in RATES]
    targets = [topics.create(name) for name in ("inner", "left")]
    in_backlog(records, *sources)
    text, joining = ks.String(), app("backlog")
    left, right = (
        joining.topic(each, key=text, value=text, max_records=BACKLOG // 3) for each in sources
    )
    within: dict[str, Any] = {"within": "100 milliseconds", "value": "concat(left, ' ', right)"}
    joining.write(left.join(right, **within), targets[0], value=text)
    alone = {**within, "value": "concat(left, ' ', coalesce(right, '-'))"}
    joining.write(left.left_join(right, **alone), targets[1], value=text)
    times = {name: [step * n for n in range(1, BACKLOG + 1)] for name, step in RATES.items()}
    matches = {
        f"l{one} r{other}" for one in times["l"] for other in times["r"] if abs(one - other) <= 100
    }
    matched = {each.split(" ")[0] for each in matches}
    unmatched = {f"l{time_ms} -" for time_ms in times["l"] if f"l{time_ms}" not in matched}
    with joining:
        for target, expected in zip(targets, (matches, matches | unmatched), strict=True):
            records.await_count(target, len(expected))
    for target, expected in zip(targets, (matches, matches | unmatched), strict=True):
        assert sorted(each.value().decode() for each in records.all(target)) == sorted(expected)


@pytest.mark.usefixtures("few_buckets")
def test_join_of_a_backlog_with_a_table_finds_the_row_of_each_time(app, records, topics) -> None:
    """The app is stopped in the backlog; what waits is in its state."""
    sources, target = [topics.create(name) for name in RATES], topics.create("out")
    in_backlog(records, *sources)
    text, name = ks.String(), f"{target}-app"

    def joining() -> ks.App:
        found = app(name, trigger_ms=500)
        stream = found.topic(sources[0], key=text, value=text, max_records=BACKLOG // 3)
        table = found.table(sources[1], key=text, value=text, max_records=BACKLOG // 3)
        pairs = stream.join_table(table, value="concat(left, ' ', right)")
        found.write(pairs, target, value=text)
        return found

    with joining():
        records.await_count(target, 1)
    with joining():
        records.await_count(target, BACKLOG - 99)
    found = [each.value().decode() for each in records.all(target)]
    assert found == [f"l{ms} r{ms // 1_000 * 1_000}" for ms in range(1_000, 9_001, 10)]
