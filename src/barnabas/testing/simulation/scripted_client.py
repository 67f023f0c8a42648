"""Clients of the simulation that are generators: they yield requests and get the responses."""

from collections.abc import Generator
from typing import Any, Final

import attrs

from barnabas.cluster.metadata.image import MetadataImage
from barnabas.coordinator.core.routing import partition_for
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.server.coordinators.internal_topics import OFFSETS_TOPIC, TRANSACTION_TOPIC
from barnabas.testing.simulation.coordinator_calls import CoordinatorCall, FetchOffsets
from barnabas.testing.simulation.data_clients import SimClient
from barnabas.testing.simulation.network import Failure
from barnabas.testing.simulation.sim_cluster import SimCluster

_TIMEOUT_MS: Final = 8_000


@attrs.frozen(slots=True)
class Send:
    """A request to a broker; the script gets the response, or NETWORK_EXCEPTION is raised."""

    to: int
    request: Any


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

    def call_coordinator(self, key: str, request: Any) -> Script:
        """Send a request to the coordinator of a key. Raises KafkaError."""
        call = CoordinatorCall(key, request)
        topic = OFFSETS_TOPIC if call.is_for_groups else TRANSACTION_TOPIC
        # Writes to a deposed coordinator fail. A read does not (nor in Apache Kafka): a node that
        # was suspended answers OffsetFetch from its memory until it gets newer metadata.
        is_read = isinstance(request, FetchOffsets)
        image = self.cluster.newest_image() if is_read else self.image()
        found = None if image is None else image.topics_by_name.get(topic)
        if found is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        number = partition_for(key, len(found.partitions))
        response = yield Send(leader_in(image, topic, number), call)
        if isinstance(response, KafkaError):
            raise response
        return response

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

        self.cluster.network.ask(
            self.process,
            step.to,
            "broker",
            step.request,
            self._send,
            failed,
            timeout_ms=_TIMEOUT_MS,
        )


def leader_in(image: MetadataImage | None, topic: str, number: int) -> int:
    """Return the leader of a partition. Raises KafkaError when it has none."""
    found = None if image is None else image.partition(topic, number)
    if found is None or found.leader < 0:
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
    return found.leader
