"""Java's Connect worker on barnabas with connectors of others: Debezium and MirrorMaker 2.

One worker runs both, since a JVM takes ten seconds to start. The tests use the results: changes of
a table that Debezium captures, and topics, offsets and settings that MirrorMaker copies from
another node.
"""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from compat_tests import jars
from compat_tests.pace import WAIT_S
from compat_tests.pipeline.connect_workers import ConnectWorker, JavaWorker
from compat_tests.pipeline.killed_job import read_committed
from compat_tests.postgres import PostgresServer
from compat_tests.servers import ServerProcess

pytestmark = [pytest.mark.timeout(600), pytest.mark.barnabas_only]

MIRROR = "org.apache.kafka.connect.mirror"
JSON = "org.apache.kafka.connect.json.JsonConverter"
DEBEZIUM = "io.debezium.connector.postgresql.PostgresConnector"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


def missing() -> str | None:
    """Return in one line why the connectors cannot run here, or None."""
    if reason := jars.missing():
        return reason
    if not any(jars.CONNECTORS.glob("debezium-connector-postgres-*.jar")):
        return "the jars of Debezium are missing: run `make compat` with mvn on the PATH"
    return None


@pytest.fixture(scope="module")
def worker(
    tmp_path_factory: pytest.TempPathFactory, server: ServerProcess | None
) -> Iterator[JavaWorker]:
    if reason := missing():
        pytest.skip(reason)
    if server is None:
        pytest.skip("needs a server that this suite starts")
    process = JavaWorker(server.bootstrap, tmp_path_factory.mktemp("connect"), "java-connectors")
    process.plugins = jars.CONNECTORS.parent
    try:
        process.start()
        yield process
    finally:
        process.stop()


def eventually(found: Callable[[], Any], worker: ConnectWorker, what: str) -> Any:
    """Return the first true result."""
    deadline = time.monotonic() + WAIT_S
    while not (result := found()):
        assert time.monotonic() < deadline, f"no {what} within {WAIT_S:.0f} s:\n{worker.log_tail()}"
        time.sleep(0.2)
    return result


def create(worker: JavaWorker, name: str, **config: str) -> None:
    given = {key.replace("__", "."): value for key, value in config.items()}
    response = worker.ask("PUT", f"/connectors/{name}/config", given)
    assert response.status == 201, response.body


def read(bootstrap: str, topic: str, count: int, worker: ConnectWorker) -> list[Any]:
    """Return the records of a topic when there are `count` of them, or more."""

    def complete() -> list[Any]:
        found = stored(bootstrap, topic)
        return found if len(found) >= count else []

    return eventually(complete, worker, f"{count} records of {topic}")


def stored(bootstrap: str, topic: str) -> list[Any]:
    """Return the committed records of a topic; none when it is missing."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    is_there = topic in admin.list_topics(timeout=30).topics
    return read_committed(bootstrap, topic) if is_there else []


def changes(messages: list[Any]) -> list[tuple[str, int, str | None, str | None]]:
    """Return operation, key, name before and name after of Debezium's records."""
    found = []
    for message in messages:
        number = json.loads(message.key())["payload"]["id"]
        if message.value() is None:
            found.append(("tombstone", number, None, None))
            continue
        payload = json.loads(message.value())["payload"]
        names = [(payload[side] or {}).get("name") for side in ("before", "after")]
        found.append((payload["op"], number, *names))
    return found


def capture_of(database: PostgresServer, prefix: str, table: str) -> dict[str, str]:
    """Return the configuration of a job of Debezium that captures the changes of a table."""
    return {
        "connector.class": DEBEZIUM,
        "plugin.name": "pgoutput",
        "database.hostname": "127.0.0.1",
        "database.port": str(database.port),
        "database.user": database.user,
        "database.password": database.password,
        "database.dbname": "postgres",
        "topic.prefix": prefix,
        "table.include.list": f"public.{table}",
        "key.converter": JSON,
        "value.converter": JSON,
        "poll.interval.ms": "50",
    }


def test_debezium_captures_every_change_of_a_table(
    worker: JavaWorker, database: PostgresServer
) -> None:
    database.run(
        "CREATE TABLE people (id int PRIMARY KEY, name text)",
        "ALTER TABLE people REPLICA IDENTITY FULL",
        "INSERT INTO people VALUES (1, 'Ada'), (2, 'Bo')",
    )
    create(worker, "changes", **capture_of(database, "pg", "people"))
    topic = "pg.public.people"
    snapshot = changes(read(worker.bootstrap, topic, 2, worker))
    assert snapshot == [("r", 1, None, "Ada"), ("r", 2, None, "Bo")]
    database.run(
        "INSERT INTO people VALUES (3, 'Cy')",
        "UPDATE people SET name = 'Ada L' WHERE id = 1",
        "DELETE FROM people WHERE id = 2",
    )
    found = changes(read(worker.bootstrap, topic, 6, worker))
    assert found[2:] == [
        ("c", 3, None, "Cy"),
        ("u", 1, "Ada", "Ada L"),
        ("d", 2, "Bo", None),
        ("tombstone", 2, None, None),
    ]
    worker.ask("DELETE", "/connectors/changes")


def test_mirror_maker_copies_records_settings_and_offsets(
    worker: JavaWorker, start_server: Callable[..., ServerProcess]
) -> None:
    origin = start_server()
    fill(origin.bootstrap, "orders", 100)
    commit(origin.bootstrap, "billing", "orders", 100)
    flow = {
        "source.cluster.alias": "a",
        "target.cluster.alias": "b",
        "source.cluster.bootstrap.servers": origin.bootstrap,
        "target.cluster.bootstrap.servers": worker.bootstrap,
        "key.converter": BYTES,
        "value.converter": BYTES,
        "header.converter": BYTES,
        "topics": "orders",
        "groups": "billing",
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
        "offset.lag.max": "0",
        "emit.checkpoints.interval.seconds": "1",
        "emit.heartbeats.interval.seconds": "1",
        "refresh.topics.interval.seconds": "2",
        "refresh.groups.interval.seconds": "2",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
    }
    kinds = ("Source", "Checkpoint", "Heartbeat")
    for kind in kinds:
        create(
            worker,
            f"mirror-{kind}",
            **flow,
            **{"connector.class": f"{MIRROR}.Mirror{kind}Connector"},
        )
    messages = read(worker.bootstrap, "a.orders", 100, worker)
    assert [(each.key(), each.value(), each.headers()) for each in messages] == [
        (b"k%d" % (number % 5), b"%d" % number, [("n", b"%d" % number)]) for number in range(100)
    ]
    assert setting(worker.bootstrap, "a.orders", "retention.ms") == "86400001"
    end = messages[-1].offset() + 1
    eventually(lambda: translated(worker.bootstrap) == end, worker, "translated offset")
    # The group is empty on the target, so MirrorMaker writes its offsets there.
    eventually(lambda: committed(worker.bootstrap, "a.orders") == end, worker, "synced offset")
    lines = java_offsets(worker.bootstrap)
    assert lines == [f"a.orders-0 {end}"]
    beats = read(worker.bootstrap, "heartbeats", 1, worker)
    assert beats[0].key() == b"\x00\x01a\x00\x01b"
    for kind in kinds:
        worker.ask("DELETE", f"/connectors/mirror-{kind}")


def fill(bootstrap: str, topic: str, count: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    config = {"retention.ms": "86400001"}
    admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(count):
        headers = [("n", b"%d" % number)]
        producer.produce(topic, key=f"k{number % 5}", value=str(number), headers=headers)
    assert producer.flush(60) == 0


def commit(bootstrap: str, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def setting(bootstrap: str, topic: str, name: str) -> str | None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    resource = ConfigResource(ResourceType.TOPIC, topic)
    return admin.describe_configs([resource])[resource].result(30)[name].value


def committed(bootstrap: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "billing"})
    try:
        return consumer.committed([TopicPartition(topic, 0)], 30)[0].offset
    finally:
        consumer.close()


def translated(bootstrap: str) -> int:
    """Return the newest downstream offset in the topic of checkpoints, -1 when there is none.

    The worker writes checkpoints in transactions, so the last offset is that of a marker.
    """
    found = stored(bootstrap, "a.checkpoints.internal")
    return int.from_bytes(found[-1].value()[10:18], "big", signed=True) if found else -1


def java_offsets(bootstrap: str) -> list[str]:
    """Return what RemoteClusterUtils reads."""
    program = Path(__file__).with_name("MirrorOffsets.java")
    command = ["java", *jars.TOOL_OPTIONS, *jars.archive_options(), *jars.LOG_OPTIONS]
    done = subprocess.run(
        [
            *command,
            "-cp",
            f"{jars.classpath()}:{jars.CONNECTORS}/*",
            str(program),
            bootstrap,
            "a",
            "billing",
        ],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
