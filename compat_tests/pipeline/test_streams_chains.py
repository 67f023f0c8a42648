"""Apps whose operators with state follow each other: topics, kills, trims and resets."""

import datetime
import decimal
import functools
import math
import random
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec

from barnabas import streams as ks
from barnabas.pipeline.streams import operator_chains, repartition_topics
from barnabas.pipeline.streams.kernel_frames import BUCKETS_PROPERTY
from compat_tests import spark as setup
from compat_tests.pipeline.chained_app import RESULTS
from compat_tests.pipeline.chained_app import describe as describe_chains
from compat_tests.pipeline.conftest import eventually
from compat_tests.pipeline.killed_job import DriverProcess, read_committed, wait_until

pytestmark = [setup.needed, pytest.mark.timeout(1200)]

KEYS = 5
KILLS = 1
TEXT = {"key": ks.String(), "value": ks.String()}


class Topics:
    """The topics of an app with chains."""

    def __init__(self, bootstrap: str, name: str, partitions: int = 3) -> None:
        self.bootstrap, self.name = bootstrap, name
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.sent = 0
        names = [f"{name}-{each}" for each in ("in", *RESULTS)]
        created = self.admin.create_topics([NewTopic(each, partitions, 1) for each in names])
        for each in names:
            created[each].result(90)

    def send(self, count: int) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True})
        for number in range(self.sent, self.sent + count):
            producer.produce(f"{self.name}-in", str(number), f"k{number % KEYS}")
        assert producer.flush(90) == 0
        self.sent += count

    def table(self, result: str) -> dict[str, int]:
        """Return the newest number of each key of a result, without zeros."""
        found = read_committed(self.bootstrap, f"{self.name}-{result}")
        newest = {each.key().decode(): struct.unpack(">q", each.value())[0] for each in found}
        return {key: number for key, number in newest.items() if number}

    def has_updates(self, count: int) -> bool:
        """True when the app has counted this number of changes."""
        return sum(self.table("updates").values()) >= count

    def tables(self) -> dict[str, dict[str, int]]:
        return {each: self.table(each) for each in RESULTS}

    def expected(self) -> dict[str, dict[str, int]]:
        """Return what the records that were sent make of the results."""
        counts = Counter(f"k{number % KEYS}" for number in range(self.sent))
        levels = Counter(str(count) for count in counts.values())
        return {"levels": dict(levels), "updates": dict(counts), "joined": dict(counts)}

    def chained(self) -> dict[str, int]:
        """Return the topics between the app's queries, with their numbers of partitions."""
        found = self.admin.list_topics(timeout=30).topics
        return {
            name.removeprefix(f"{self.name}-"): len(found[name].partitions)
            for name in found
            if name.startswith(self.name) and name.endswith("-repartition")
        }

    def starts(self, topic: str) -> list[int]:
        """Return the log start offsets of a topic."""
        count = len(self.admin.list_topics(topic, timeout=30).topics[topic].partitions)
        wanted = {TopicPartition(topic, each): OffsetSpec.earliest() for each in range(count)}
        return [each.result(30).offset for each in self.admin.list_offsets(wanted).values()]


@pytest.fixture
def app(engine: Any, bootstrap: str, tmp_path: Path) -> Iterator[Callable[..., ks.App]]:
    """Return apps in the session of the module, which are stopped at the end."""
    running: list[ks.App] = []
    settings = {"spark.sql.shuffle.partitions": "2", BUCKETS_PROPERTY: "8"}
    before = {name: engine.session.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        engine.session.conf.set(name, value)

    def make(name: str, **options: Any) -> ks.App:
        for each in running:
            each.stop()
        found = ks.App.attach(engine.session, name, bootstrap, state=tmp_path / name, **options)
        running.append(found)
        return found

    yield make
    for each in running:
        each.stop()
    for name, value in before.items():
        if value is None:
            engine.session.conf.unset(name)
        else:
            engine.session.conf.set(name, value)


def test_chains_are_exact_when_their_driver_is_killed(bootstrap, unique, tmp_path) -> None:
    topics = Topics(bootstrap, unique("chained"))
    settings = {"name": topics.name, "bootstrap": bootstrap, "state": str(tmp_path / "state")}
    driver = DriverProcess(tmp_path, settings, "compat_tests.pipeline.chained_app")
    draw = random.Random(7)
    driver.start()
    topics.send(40)
    wait_until(lambda: bool(topics.table("joined")), "results", driver)
    for _ in range(KILLS):
        topics.send(40)
        time.sleep(draw.uniform(0, 1.5))
        driver.kill()
        topics.send(10)
        driver.start()
        wait_until(functools.partial(topics.has_updates, topics.sent - 20), "progress", driver)
    topics.send(10)
    wait_until(lambda: topics.tables() == topics.expected(), "the right results", driver)
    time.sleep(2)
    driver.kill()
    assert topics.tables() == topics.expected()


def test_micro_batches_that_are_repeated_add_nothing(app, bootstrap, unique, tmp_path) -> None:
    """A driver that is killed behind its last task leaves no entry in Spark's log of commits."""
    topics = Topics(bootstrap, unique("chained"))
    for _ in range(3):
        topics.send(37)
        running = app(topics.name)
        describe_chains(running, topics.name)
        with running:
            eventually(lambda: topics.tables() == topics.expected())
        lost = [lose_newest_commit(each) for each in (tmp_path / topics.name).glob("*/*/commits")]
        assert len(lost) == len(RESULTS) + 3
        assert all(lost)
    running = app(topics.name)
    describe_chains(running, topics.name)
    with running:
        topics.send(1)
        eventually(lambda: topics.tables() == topics.expected())
    changes = read_committed(bootstrap, f"{topics.name}-updates-repartition")
    assert len(changes) == topics.sent


def lose_newest_commit(commits: Path) -> bool:
    """Remove the newest commit of a checkpoint, so that its micro-batch is repeated."""
    newest = max((each for each in commits.iterdir() if each.name.isdecimal()), key=number_of)
    newest.unlink()
    (commits / f".{newest.name}.crc").unlink(missing_ok=True)
    return not newest.exists()


def number_of(file: Path) -> int:
    return int(file.name)


def test_topics_between_queries_are_those_of_kafka_streams(app, bootstrap, unique) -> None:
    topics = Topics(bootstrap, unique("chained"))
    chained = app(topics.name)
    describe_chains(chained, topics.name)
    topics.send(30)
    with chained:
        eventually(lambda: topics.tables() == topics.expected())
        found = topics.chained()
        assert found == {
            "KSTREAM-AGGREGATE-0000000002-repartition": 3,
            "updates-repartition": 3,
            **{name: 3 for name in found if name.startswith("KSTREAM-AGGREGATE-00000000")},
        }
        resource = ConfigResource(ConfigResource.Type.TOPIC, f"{topics.name}-updates-repartition")
        config = topics.admin.describe_configs([resource])[resource].result(30)
        names = ("cleanup.policy", "retention.ms", "segment.bytes", "message.timestamp.type")
        assert [config[name].value for name in names] == ["delete", "-1", "52428800", "CreateTime"]
    assert "(topic: updates-repartition)" in chained.describe()


def test_records_that_all_queries_have_read_are_deleted(
    app, bootstrap, unique, monkeypatch
) -> None:
    monkeypatch.setattr(repartition_topics, "EVERY_S", 0.3)
    topics = Topics(bootstrap, unique("chained"), partitions=1)
    between, query = (f"{topics.name}-{each}" for each in ("updates-repartition", topics.name))

    def again(*extra: str) -> ks.App:
        found = app(topics.name)
        describe_grouped(found, topics.name, *extra)
        return found

    topics.send(30)
    with again():
        eventually(lambda: topics.table("updates") == topics.expected()["updates"])
        eventually(lambda: all(topics.starts(between)))
        topics.send(30)
        eventually(lambda: topics.table("updates") == topics.expected()["updates"])
    topics.send(7)
    with again():
        eventually(lambda: topics.table("updates") == topics.expected()["updates"])
    with pytest.raises(ks.StreamFailedError, match="has lost records") as info:
        again("levels").start()
    assert info.value.failure.is_permanent
    found = again("levels")
    found.reset(f"{query}-levels")
    assert between not in topics.admin.list_topics(timeout=30).topics
    with found:
        eventually(lambda: topics.table("updates") == topics.expected()["updates"])
        eventually(lambda: topics.table("levels") == topics.expected()["updates"])


def describe_grouped(app: ks.App, name: str, *extra: str) -> None:
    """Describe counts of the changes of one aggregate."""
    records = app.topic(f"{name}-in", **TEXT)
    changes = records.group_by_key().reduce(lambda total, value: value).to_stream()
    grouped = changes.group_by("key", name="updates")
    for each in ("updates", *extra):
        app.write(grouped.count(), f"{name}-{each}")


def test_recreated_topic_between_queries_ends_the_app(app, bootstrap, unique) -> None:
    topics = Topics(bootstrap, unique("chained"), partitions=1)
    between = f"{topics.name}-updates-repartition"
    first = app(topics.name)
    describe_grouped(first, topics.name)
    topics.send(10)
    with first:
        eventually(lambda: topics.table("updates") == topics.expected()["updates"])
    topics.admin.delete_topics([between], operation_timeout=60)[between].result(90)
    again = app(topics.name)
    describe_grouped(again, topics.name)
    with pytest.raises(ks.StreamFailedError, match=r"was recreated.*App.reset\(\)"):
        again.start()


UTC = datetime.UTC
ROWS = [
    {
        "text": 'ä"\\\n\u2028',
        "number": -(2**63),
        "real": 0.1 + 0.2,
        "single": struct.unpack("f", struct.pack("f", 0.1))[0],
        "fixed": decimal.Decimal("-12345678901234567890.123456789"),
        "data": bytes(range(256)),
        "day": datetime.date(1, 2, 3),
        "at": datetime.datetime(1890, 1, 2, 3, 4, 5, 678901, UTC),
        "local": datetime.datetime(2025, 3, 30, 2, 30, 0, 1),
        "flag": True,
        "items": [None, {"x": None}, {"x": 1}],
        "names": {"a": None, "": 1.5},
    },
    {"text": "", "real": -math.inf, "single": -0.0, "items": [], "names": {}},
    {"real": math.nan},
]
TYPES = {
    "text": "STRING",
    "number": "BIGINT",
    "real": "DOUBLE",
    "single": "FLOAT",
    "fixed": "DECIMAL(38, 9)",
    "data": "BINARY",
    "day": "DATE",
    "at": "TIMESTAMP",
    "local": "TIMESTAMP_NTZ",
    "flag": "BOOLEAN",
    "items": "ARRAY<STRUCT<x: INT>>",
    "names": "MAP<STRING, DOUBLE>",
}


def test_records_between_queries_keep_all_columns(engine: Any) -> None:
    time_at = datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)
    values = [tuple(row.get(name) for name in TYPES) for row in ROWS]
    rows = [(value, value, time_at) for value in [*values, None]]
    kind = f"STRUCT<{', '.join(f'{name}: {kind}' for name, kind in TYPES.items())}>"
    schema = f"key {kind}, value {kind}, _timestamp TIMESTAMP"
    frame = engine.session.createDataFrame(rows, schema)
    written = operator_chains.written(frame).selectExpr(
        *("key", "value", "'t' AS _topic", "0 AS _partition", "0L AS _offset"),
        *("timestamp_seconds(7) AS _timestamp", "NULL AS _headers", "true AS _kept"),
    )
    found = operator_chains.restored(written, frame)
    shown = [each.select("key", "value", "_timestamp").collect() for each in (frame, found)]
    assert repr(shown[1]) == repr(shown[0])
    *keys, none = [row["key"] for row in written.collect()]
    assert none is None
    assert len(set(map(bytes, keys))) == len(keys)
