"""A node with few file descriptors, and one with many connections: both keep serving."""

import select
import socket
import struct
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.testing.eventually import wait_until
from compat_tests import wire
from compat_tests.servers import BarnabasProcess

pytestmark = pytest.mark.barnabas_only

OPEN_FILES = 256
PARTITIONS = 300
ASK = wire.request_frame(MetadataRequest(topics=[]), 12, 1)


class ConfinedProcess(BarnabasProcess):
    """A node with a low limit of open files."""

    def command(self) -> list[str]:
        limited = f'ulimit -n {OPEN_FILES}; exec "$@"'
        return ["sh", "-c", limited, "sh", *super().command()]


@pytest.fixture(scope="module")
def confined(request: pytest.FixtureRequest) -> Iterator[ConfinedProcess]:
    if request.config.getoption("--bootstrap"):
        pytest.skip("needs a server with its own limits")
    process = ConfinedProcess()
    try:
        process.start()
        yield process
    finally:
        process.close()


def connect(bootstrap: str, count: int) -> list[socket.socket]:
    host, _, port = bootstrap.rpartition(":")
    return [socket.create_connection((host, int(port)), timeout=60) for _ in range(count)]


def answered(connections: list[socket.socket], enough: int) -> int:
    """Return how many connections are answered, as soon as `enough` of them are."""
    poll = select.poll()
    for connection in connections:
        connection.sendall(struct.pack(">i", len(ASK)) + ASK)
        poll.register(connection, select.POLLIN)
    wait_until(lambda: len(poll.poll(0)) >= enough)
    ready = {number for number, _ in poll.poll(0)}
    return sum(len(each.recv(4)) == 4 for each in connections if each.fileno() in ready)


def test_more_partitions_than_descriptors_are_written_and_read(confined) -> None:
    admin = AdminClient({"bootstrap.servers": confined.bootstrap})
    admin.create_topics([NewTopic("many", PARTITIONS, 1)])["many"].result(30)
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": confined.bootstrap, "linger.ms": 20})
    for number in range(PARTITIONS):
        producer.produce(
            "many", b"x", partition=number, on_delivery=lambda e, _: e and failures.append(e)
        )
    assert producer.flush(60) == 0
    assert failures == []
    consumer = Consumer(
        {
            "bootstrap.servers": confined.bootstrap,
            "group.id": "many",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["many"])
    seen: set[int | None] = set()
    for _ in range(60):
        seen |= {message.partition() for message in consumer.consume(1000, 1)}
        if len(seen) == PARTITIONS:
            break
    consumer.close()
    assert len(seen) == PARTITIONS
    assert "out of resources" not in confined.log_file.read_text()


def test_connections_beyond_the_descriptors_wait_and_harm_nothing(confined) -> None:
    connections = connect(confined.bootstrap, OPEN_FILES)
    assert 50 <= answered(connections, 50) < OPEN_FILES
    wait_until(lambda: "connections are waiting" in confined.log_file.read_text())
    for connection in connections:
        connection.close()
    with wire.Connection(confined.bootstrap) as again:
        assert again.call(MetadataRequest(topics=[]), 12).brokers


def test_a_thousand_clients_at_once_are_let_in_without_waiting(start_server) -> None:
    connections = connect(start_server().bootstrap, 1000)
    assert answered(connections, 1000) == 1000
    for connection in connections:
        connection.close()
