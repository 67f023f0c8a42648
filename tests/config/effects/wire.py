"""Requests to a node over a socket, with the project's codec."""

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs

from barnabas.protocol.apis import api_by_name
from barnabas.protocol.framing import encode_request
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.testing import Node, batches

RETRIABLE = {14, 15, 16, 51}  # loading, not available, not coordinator, concurrent transactions
BROKER = 4


class Wire:
    """One connection to a node."""

    def __init__(self, port: int, host: str = "127.0.0.1", timeout: float = 10) -> None:
        self.socket = socket.create_connection((host, port), timeout=timeout)

    def ask(self, request: Any, version: int) -> Any:
        """Send a request and return the response; EOFError when the node closes."""
        api = api_by_name(type(request).__name__.removesuffix("Request"))
        self.socket.sendall(b"".join(map(bytes, encode_request(1, "test", request, version))))
        (size,) = struct.unpack(">i", self._exactly(4))
        frame = self._exactly(size)
        start = 4 + (1 if api.response_header_version(version) else 0)
        return api.response_type.decode(frame[start:], version)

    def __del__(self) -> None:
        self.socket.close()

    def is_served(self) -> bool:
        """Return True when the node answers, False when it has closed the connection."""
        try:
            self.ask(MetadataRequest(topics=[]), 12)
        except (EOFError, ConnectionError):
            return False
        return True

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            chunk = self.socket.recv(size - len(data))
            if not chunk:
                raise EOFError
            data += chunk
        return data


def batch(*values: bytes, **settings: Any) -> bytearray:
    """Build a batch whose records have the current time."""
    now_ms = int(time.time() * 1000)
    return batches.batch(*values, timestamps=[now_ms] * len(values), **settings)


@contextmanager
def node_with(config: dict[str, str]) -> Iterator[tuple[Node, Wire]]:
    """Run a node with these properties and connect to it."""
    with Node(config=config) as node:
        wire = Wire(node.port)
        with wire.socket:
            yield node, wire


def create(wire: Wire, name: str = "t", partitions: int = 1, **configs: str) -> str:
    """Create a topic; return its error's text, empty on success."""
    request = CreateTopicsRequest(
        topics=[
            CreateTopicsRequest.CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=-1,
                configs=[
                    CreateTopicsRequest.CreatableTopicConfig(
                        name=key.replace("_", "."), value=value
                    )
                    for key, value in configs.items()
                ],
            )
        ],
        timeout_ms=5000,
    )
    (result,) = wire.ask(request, 7).topics
    return "" if not result.error_code else f"{int(result.error_code)} {result.error_message}"


def produce(
    wire: Wire,
    records: bytes | bytearray | None = None,
    *,
    topic: str = "t",
    partition: int = 0,
    transactional_id: str | None = None,
    version: int = 9,
) -> int:
    """Produce one batch with acks=all; return the error code."""
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=5000,
        topic_data=[
            ProduceRequest.TopicProduceData(
                name=topic,
                partition_data=[
                    ProduceRequest.PartitionProduceData(
                        index=partition, records=batch(b"v") if records is None else records
                    )
                ],
            )
        ],
    )
    return wire.ask(request, version).responses[0].partition_responses[0].error_code


def alter(wire: Wire, name: str, value: str, *, resource: tuple[int, str] = (BROKER, "1")) -> int:
    """Set a property with IncrementalAlterConfigs; return the error code."""
    kind, key = resource
    request = IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsRequest.AlterConfigsResource(
                resource_type=kind,
                resource_name=key,
                configs=[
                    IncrementalAlterConfigsRequest.AlterableConfig(
                        name=name, config_operation=0, value=value
                    )
                ],
            )
        ]
    )
    return wire.ask(request, 1).responses[0].error_code


def coordinator(wire: Wire, key: str, *, transactions: bool = False, seconds: float = 60) -> int:
    """Find a coordinator, for up to `seconds`; return the last error code."""
    deadline = time.monotonic() + seconds
    while True:
        request = FindCoordinatorRequest(key_type=int(transactions), coordinator_keys=[key])
        (answer,) = wire.ask(request, 4).coordinators
        if not answer.error_code or time.monotonic() > deadline:
            return answer.error_code
        time.sleep(0.02)


def init_producer(wire: Wire, transactional_id: str | None = None, timeout_ms: int = 60_000) -> Any:
    """Get a producer id; return the response once it is not a retriable error."""
    deadline = time.monotonic() + 60
    while True:
        answer = wire.ask(
            InitProducerIdRequest(
                transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
            ),
            4,
        )
        if answer.error_code not in RETRIABLE or time.monotonic() > deadline:
            return answer
        time.sleep(0.02)


def happens(condition: Callable[[], object], *, expected: bool) -> bool:
    """Return whether a condition comes true: waits long when that is expected, else shortly."""
    return eventually(condition, 60 if expected else 0.4)


def eventually(condition: Callable[[], object], seconds: float = 60) -> bool:
    """Return True as soon as the condition holds, False when it does not within the time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def add_silent_follower(node: Node, topic: str, number: int = 0) -> None:
    """Add an in-sync replica that never fetches: later writes are not committed.

    Called from the test's thread; it has taken effect on return.
    """
    server, token, done = node.server, node._token, threading.Event()
    assert server is not None
    assert token is not None
    partition = server.replicas.partition(topic, number)
    image = server.image.topics_by_name[topic].partitions[number]
    image = attrs.evolve(
        image, replicas=(1, 2), isr=(1, 2), partition_epoch=image.partition_epoch + 1
    )

    def update() -> None:
        partition.update(image, server.replicas.topic_config(topic))
        done.set()

    token.run_sync_soon(update)
    assert done.wait(60)
