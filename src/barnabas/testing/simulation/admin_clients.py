"""Admin clients in the simulation: they create and delete topics, and know their outcomes.

An operation ends with success, an error, or an unknown outcome. R3: an acknowledged operation is in
the image of its controller at that moment, and in every image of the end until it is undone.
"""

import enum
from typing import Any

from barnabas.cluster.controller.controller import ControllerRequest
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.protocol.errors import ErrorCode, KafkaError, error_code
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest
from barnabas.testing.simulation.network import Failure
from barnabas.testing.simulation.quorum_invariants import require
from barnabas.testing.simulation.sim_cluster import SimCluster
from barnabas.testing.simulation.world import Process

CLIENT_ID_BASE = 10_000
_TIMEOUT_MS = 5_000
_CREATE_VERSION, _DELETE_VERSION = 7, 6


class _Presence(enum.Enum):
    """The existence of a topic, by the outcomes that its client has."""

    PRESENT = "present"
    ABSENT = "absent"
    UNKNOWN = "unknown"


class AdminClient:
    """One client with one operation in flight; its topics are its own."""

    def __init__(self, cluster: SimCluster, number: int, pause_ms: int) -> None:
        self._cluster = cluster
        self._process = Process(cluster.world, CLIENT_ID_BASE + number)
        self._process.start()
        self._prefix = f"admin-{number}-"
        self._pause_ms = pause_ms
        self._topics: dict[str, _Presence] = {}
        self._controller: int | None = None
        self._count = 0
        self.acknowledged = 0
        self.unknown = 0
        self.is_stopped = False
        self.is_idle = True

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
            request = DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name=name)])
            self._submit(request, _DELETE_VERSION, name, _Presence.ABSENT)
        else:
            self._count += 1
            name = f"{self._prefix}{self._count}"
            topic = CreateTopicsRequest.CreatableTopic(
                name=name, num_partitions=random.randrange(1, 4), replication_factor=1
            )
            request = CreateTopicsRequest(topics=[topic])
            self._submit(request, _CREATE_VERSION, name, _Presence.PRESENT)

    def _submit(
        self, request: ControllerRequest, version: int, name: str, after: _Presence
    ) -> None:
        self.is_idle = False
        before = self._topics.get(name, _Presence.ABSENT)
        self._topics[name] = _Presence.UNKNOWN
        to = self._controller
        if to is None:
            to = self._process.world.random.choice(sorted(self._cluster.controller_ids))

        def answered(outcome: Any) -> None:
            self._end(to, name, self._known_after(outcome, before, after))

        def failed(_: Failure) -> None:
            self._end(None, name, _Presence.UNKNOWN)

        self._cluster.network.ask(
            self._process, to, "controller", (request, version), answered, failed,
            timeout_ms=_TIMEOUT_MS,
        )  # fmt: skip

    def _known_after(self, outcome: Any, before: _Presence, after: _Presence) -> _Presence:
        """Return what an outcome shows of the topic."""
        if isinstance(outcome, KafkaError):
            # The controller that lost its leadership does not know if the records are committed.
            self._controller = None
            return _Presence.UNKNOWN
        is_creation = isinstance(outcome, CreateTopicsResponse)
        (result,) = outcome.topics if is_creation else outcome.responses
        error = error_code(result.error_code)
        if error is ErrorCode.NONE:
            self.acknowledged += 1
            return after
        return before

    def _end(self, controller: int | None, name: str, known: _Presence) -> None:
        self._controller = controller
        self._topics[name] = known
        if known is _Presence.UNKNOWN:
            self.unknown += 1
            self._controller = None
        self.is_idle = True
        self._process.after_ms(self._pause_ms, self._next)

    def stop(self) -> None:
        """Begin no further operation."""
        self.is_stopped = True

    def check_end(self) -> None:
        """Check R3 in the images of the end."""
        require(self.is_idle, "LIVENESS", "an operation has no outcome")
        for node in self._cluster.nodes.values():
            self._check(node.replica.machine.image)

    def _check(self, image: MetadataImage) -> None:
        for name, known in self._topics.items():
            if known is _Presence.PRESENT:
                require(name in image.topics_by_name, "R3", f"created topic {name} does not exist")
            elif known is _Presence.ABSENT:
                require(name not in image.topics_by_name, "R3", f"deleted topic {name} exists")
