"""Kafka Streams and `barnabas.streams` on one node: from the same topics to the same tables."""

import random
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas import streams as ks
from compat_tests import jars
from compat_tests import spark as setup
from compat_tests.pace import WAIT_S, Pace
from compat_tests.pipeline.killed_job import read_committed
from compat_tests.pipeline.streams_parity.streams_peer import SOURCE

COMPILES = True
pytestmark = [
    setup.needed,
    pytest.mark.timeout(300),
]

PARTITIONS = 2
RECORDS = 300
KEYS = "abcdefg"
SIZE_MS, GAP_MS = 100, 50
TOPOLOGIES = ("count", "tumbling-count", "stream-stream-inner")

Record = tuple[str, str, str | None, int]


def records() -> list[Record]:
    """Return topic, key, value and time of records in the order of time.

    Only the right topic has records without a value: in windows Kafka Streams counts them.
    """
    draw = random.Random(3)
    now_ms, found = 1_000_000, list[Record]()
    for number in range(RECORDS):
        now_ms += draw.randint(0, 9)
        topic = draw.choice(["left", "right"])
        value = None if topic == "right" and draw.random() < 0.2 else f"v{number}"
        found.append((topic, draw.choice(KEYS), value, now_ms))
    return found


def produce(bootstrap: str, found: list[Record]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    names = ["left", "right", *(f"{side}-{name}" for name in TOPOLOGIES for side in ("ks", "ours"))]
    keep = {"retention.ms": "-1"}
    new = [NewTopic(name, PARTITIONS, 1, config=keep) for name in names]
    for future in admin.create_topics(new).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": bootstrap})
    for topic, key, value, time_ms in found:
        partition = ord(key) % PARTITIONS
        producer.produce(topic, value, key, partition=partition, timestamp=time_ms)
    assert producer.flush(60) == 0


@contextmanager
def kafka_streams(bootstrap: str, state: Path) -> Iterator[None]:
    options = [*jars.TOOL_OPTIONS, *jars.archive_options(), *jars.LOG_OPTIONS]
    command = ["java", *options, "-cp", jars.classpath(), str(SOURCE)]
    outputs = [text for name in TOPOLOGIES for text in (name, f"ks-{name}")]
    with (
        (state / "kafka-streams.log").open("wb") as log,
        subprocess.Popen(
            [*command, bootstrap, str(state), *outputs],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
        ) as process,
    ):
        try:
            yield
        finally:
            process.kill()


def describe(app: ks.App) -> None:
    left, right = (
        app.topic(name, key=ks.String(), value=ks.String()) for name in ("left", "right")
    )
    windows = ks.tumbling(f"{SIZE_MS} milliseconds", grace="30 milliseconds")
    text = "cast(value AS STRING)"
    app.write(left.group_by_key().count().map_values(text), "ours-count")
    app.write(left.window(windows).count().map_values(text), "ours-tumbling-count")
    within, grace = f"{GAP_MS} milliseconds", "30 milliseconds"
    joined = left.join(right, within=within, grace=grace, value="concat(left, '/', right)")
    app.write(joined, "ours-stream-stream-inner")


def expected(found: list[Record]) -> dict[str, Any]:
    """Return what each topology makes of the records."""
    left = [record[1:] for record in found if record[0] == "left"]
    right = [record[1:] for record in found if record[0] == "right"]
    windows = Counter(
        key.encode() + (time_ms - time_ms % SIZE_MS).to_bytes(8, "big") for key, _, time_ms in left
    )
    return {
        "count": Counter(key.encode() for key, value, _ in left if value is not None),
        "tumbling-count": windows,
        "stream-stream-inner": Counter(
            (key.encode(), f"{value}/{other}".encode(), max(time_ms, other_ms))
            for key, value, time_ms in left
            for other_key, other, other_ms in right
            if key == other_key and abs(time_ms - other_ms) <= GAP_MS
            if value is not None and other is not None
        ),
    }


def outcome(bootstrap: str, topology: str, side: str) -> Any:
    """Return the records of an output: those of a join, of a table the newest of each key."""
    messages = read_committed(bootstrap, f"{side}-{topology}")
    if topology == "stream-stream-inner":
        return Counter((each.key(), each.value(), each.timestamp()[1]) for each in messages)
    return Counter({each.key(): int(each.value()) for each in messages})


def await_outcome(bootstrap: str, topology: str, side: str, wanted: Any, log: Path) -> None:
    deadline = time.monotonic() + WAIT_S
    pace = Pace()
    while (found := outcome(bootstrap, topology, side)) != wanted:
        assert time.monotonic() < deadline, (
            f"{side} {topology}: missing {list((wanted - found).items())[:5]}, "
            f"too many {list((found - wanted).items())[:5]}; "
            f"{log.read_text(errors='replace')[-2000:]}"
        )
        pace.pause()


def test_both_make_the_same_tables_and_joins(start_server, engine, tmp_path) -> None:
    if reason := jars.missing():
        pytest.skip(reason)
    bootstrap = start_server().bootstrap
    found = records()
    produce(bootstrap, found)
    app = ks.App.attach(engine.session, "ours", bootstrap, state=tmp_path / "state")
    describe(app)
    log = tmp_path / "kafka-streams.log"
    with kafka_streams(bootstrap, tmp_path), app:
        for topology, wanted in expected(found).items():
            for side in ("ours", "ks"):
                await_outcome(bootstrap, topology, side, wanted, log)
        counts = app.query("ours-count")
        assert {row.key: int(row.value) for row in counts.all()} == {
            key.decode(): count for key, count in expected(found)["count"].items()
        }
        (first, *_) = app.query("ours-tumbling-count").windows("a")
        start = first.window[0]
        assert first.window == (start, start + SIZE_MS)
        wanted = expected(found)["tumbling-count"][b"a" + start.to_bytes(8, "big")]
        assert first.value == str(wanted)
