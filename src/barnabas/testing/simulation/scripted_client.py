"""Clients of the simulation that are generators: they yield requests and get the responses."""

from collections.abc import Generator
from typing import Any, Final

import attrs

from barnabas.cluster.metadata.image import MetadataImage, TopicImage
from barnabas.coordinator.core.routing import partition_for
from barnabas.protocol.errors import ErrorCode, KafkaError, error_code
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest
from barnabas.protocol.messages_base import Message
from barnabas.server.coordinators.internal_topics import OFFSETS_TOPIC, TRANSACTION_TOPIC
from barnabas.testing.simulation.data_clients import SimClient
from barnabas.testing.simulation.network import Failure
from barnabas.testing.simulation.sim_cluster import SimCluster

_TIMEOUT_MS: Final = 8_000
_TRANSACTIONAL: Final = (
    InitProducerIdRequest,
    AddPartitionsToTxnRequest,
    AddOffsetsToTxnRequest,
    EndTxnRequest,
)
"""The requests to the coordinator of a transactional id; others are for that of a group."""


@attrs.frozen(slots=True)
class Send:
    """A request to a broker; the script gets the response, or NETWORK_EXCEPTION is raised.

    Errors in a response are not raised.
    """

    to: int
    request: Message
    version_max: int | None = None


@attrs.frozen(slots=True)
class Sleep:
    """A pause in ms."""

    ms: float


Script = Generator[Send | Sleep, Any, Any]


class ScriptedClient(SimClient):
    """Runs `script` from `start` until it returns."""

    is_idle = False

    def __init__(self, cluster: SimCluster, number: int) -> None:
        super().__init__(cluster, number)
        self.random = cluster.world.stream(f"client {number}")

    def script(self) -> Script:
        """Yield requests; KafkaError is raised where a request failed."""
        raise NotImplementedError

    def start(self) -> None:
        """Begin the script."""
        self._script = self.script()
        self.process.after_ms(self.random.randrange(1_000), self._send, None)

    def call_coordinator(
        self, key: str, request: Message, version_max: int | None = None
    ) -> Script:
        """Send a request to the coordinator of a key. Raises KafkaError without a response."""
        topic = TRANSACTION_TOPIC if isinstance(request, _TRANSACTIONAL) else OFFSETS_TOPIC
        # Writes to a deposed coordinator fail. A read does not (nor in Apache Kafka): a node that
        # was suspended answers OffsetFetch from its memory until it gets newer metadata.
        is_read = isinstance(request, OffsetFetchRequest)
        image = self.cluster.newest_image() if is_read else self.image()
        found = None if image is None else image.topics_by_name.get(topic)
        if found is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        number = partition_for(key, len(found.partitions))
        response = yield Send(leader_in(image, topic, number), request, version_max)
        return response

    def known_image(self) -> MetadataImage:
        """Return the metadata of a random broker. Raises KafkaError when none runs."""
        image = self.image()
        if image is None:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE)
        return image

    def known_topic(self, name: str) -> TopicImage:
        """Return a topic in the metadata of a random broker. Raises KafkaError without it."""
        topic = self.known_image().topics_by_name.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic

    def stop(self) -> None:
        """Let the script end."""
        self.is_stopped = True

    def check_end(self) -> None:
        """Check nothing."""

    def _send(self, response: Any) -> None:
        try:
            if isinstance(response, KafkaError):
                step = self._script.throw(response)
            else:
                step = self._script.send(response)
        except StopIteration:
            self.is_idle = True
            return
        if isinstance(step, Sleep):
            self.process.after_ms(step.ms, self._send, None)
            return

        def failed(_: Failure) -> None:
            self._send(KafkaError(ErrorCode.NETWORK_EXCEPTION))

        self.cluster.requests.ask(
            self.process,
            step.to,
            "broker",
            step.request,
            self._send,
            failed,
            timeout_ms=_TIMEOUT_MS,
            version_max=step.version_max,
        )


def raise_error(code: int) -> None:
    """Raise KafkaError for an error code."""
    if code:
        raise KafkaError(error_code(code))


def leader_in(image: MetadataImage | None, topic: str, number: int) -> int:
    """Return the leader of a partition. Raises KafkaError when it has none."""
    found = None if image is None else image.partition(topic, number)
    if found is None or found.leader < 0:
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
    return found.leader
