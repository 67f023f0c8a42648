"""Admin clients in the simulation: they create and delete topics, and know their outcomes.

An operation ends with success, an error, or an unknown outcome. R3: an acknowledged operation is in
the image of its controller at that moment, and in every image of the end until it is undone.
LIVENESS: after the faults, an operation that is repeated as admin clients do succeeds.
"""

import enum
from typing import Any, Final

from barnabas.cluster.metadata.image import MetadataImage
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest
from barnabas.protocol.messages_base import Message
from barnabas.testing.simulation.controller_client import (
    TIMEOUT_MS,
    ControllerClient,
    final_images,
)
from barnabas.testing.simulation.fatal_errors import error_codes
from barnabas.testing.simulation.quorum_invariants import require
from barnabas.testing.simulation.sim_cluster import SimCluster
from barnabas.testing.simulation.world import Process

CLIENT_ID_BASE = 10_000
_LAST_AFTER_MS: Final = 5_000
_RETRY_MS: Final = 100


class _Presence(enum.Enum):
    """The existence of a topic, by the outcomes that its client has."""

    PRESENT = "present"
    ABSENT = "absent"
    UNKNOWN = "unknown"


def _creation(name: str, partitions: int) -> CreateTopicsRequest:
    topic = CreateTopicsRequest.CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=1
    )
    return CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)


class AdminClient:
    """One client with one operation in flight; its topics are its own."""

    def __init__(self, cluster: SimCluster, number: int, pause_ms: int) -> None:
        self._cluster = cluster
        self._process = Process(cluster.world, CLIENT_ID_BASE + number)
        self._process.start()
        self._controller = ControllerClient(
            cluster, self._process, cluster.world.stream(f"admin {number}")
        )
        self._prefix = f"admin-{number}-"
        self._pause_ms = pause_ms
        self._topics: dict[str, _Presence] = {}
        self._count = 0
        self.acknowledged = 0
        self.unknown = 0
        self.is_stopped = False
        self.is_idle = True
        self._has_ended = False

    def start(self) -> None:
        """Begin to submit operations."""
        self._process.after_ms(self._process.world.random.randrange(1_000), self._next)

    def _next(self) -> None:
        if self.is_stopped:
            return
        present = [name for name, known in self._topics.items() if known is _Presence.PRESENT]
        random = self._process.world.random
        if len(present) > 5 or (present and random.random() < 0.3):
            name = random.choice(present)
            state = DeleteTopicsRequest.DeleteTopicState(name=name)
            request = DeleteTopicsRequest(topics=[state], timeout_ms=TIMEOUT_MS)
            self._submit(request, name, _Presence.ABSENT)
        else:
            self._count += 1
            name = f"{self._prefix}{self._count}"
            self._submit(_creation(name, random.randrange(1, 4)), name, _Presence.PRESENT)

    def _submit(self, request: Message, name: str, after: _Presence) -> None:
        self.is_idle = False
        before = self._topics.get(name, _Presence.ABSENT)
        self._topics[name] = _Presence.UNKNOWN

        def done(response: Any) -> None:
            if response is None:
                self.unknown += 1
            elif any(error_codes(response)):
                # of the last attempt of a broker: an earlier one may have succeeded
                is_unknown = self._controller.uses_brokers
                self._topics[name] = _Presence.UNKNOWN if is_unknown else before
            else:
                self._topics[name] = after
                self.acknowledged += 1
            self.is_idle = True
            self._process.after_ms(self._pause_ms, self._next)

        self._controller.submit(request, done)

    def stop(self) -> None:
        """Begin one more operation only, which must succeed: the faults have ended."""
        self.is_stopped = True
        self._process.after_ms(_LAST_AFTER_MS, self._create_last)

    def _create_last(self) -> None:
        """Create a topic, and repeat that until it exists."""
        name = f"{self._prefix}last"

        def done(response: Any) -> None:
            codes = {ErrorCode.NONE} if response is None else {*error_codes(response)}
            if response is None or codes - {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}:
                self._process.after_ms(_RETRY_MS, self._create_last)
            else:
                self._topics[name] = _Presence.PRESENT
                self._has_ended = True

        self._controller.submit(_creation(name, 1), done)

    def check_end(self) -> None:
        """Check R3 in the images of the end, and that the last operation has succeeded."""
        require(self.is_idle, "LIVENESS", "an operation has no outcome")
        require(self._has_ended, "LIVENESS", f"{self._prefix}last is not created")
        for image in final_images(self._cluster):
            self._check(image)

    def _check(self, image: MetadataImage) -> None:
        for name, known in self._topics.items():
            if known is _Presence.PRESENT:
                require(name in image.topics_by_name, "R3", f"created topic {name} does not exist")
            elif known is _Presence.ABSENT:
                require(name not in image.topics_by_name, "R3", f"deleted topic {name} exists")
