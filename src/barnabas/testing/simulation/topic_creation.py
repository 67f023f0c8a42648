"""Creating the topics of a simulation, until it succeeds."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs

from barnabas.config.mirror_topics import SOURCE
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.testing.simulation.controller_client import TIMEOUT_MS, ControllerClient
from barnabas.testing.simulation.seed_options import SeedOptions
from barnabas.testing.simulation.sim_cluster import SimCluster
from barnabas.testing.simulation.world import Process

_RETRY_MS: Final = 500
_INTERNAL_PARTITIONS: Final = 2
_CREATED: Final = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


@attrs.frozen(slots=True, kw_only=True)
class NewTopic:
    """A topic to create."""

    name: str
    partitions: int
    replication_factor: int
    min_insync_replicas: int
    mirror_source: str = ""


def internal_topic(name: str, options: SeedOptions) -> NewTopic:
    """Return a topic of coordinators."""
    return NewTopic(
        name=name,
        partitions=_INTERNAL_PARTITIONS,
        replication_factor=options.replication_factor,
        min_insync_replicas=options.min_insync_replicas,
    )


class TopicCreation:
    """Creates topics with one request, which it repeats until all exist."""

    def __init__(
        self,
        cluster: SimCluster,
        client_id: int,
        topics: Sequence[NewTopic],
        done: Callable[[], None],
    ) -> None:
        self._process = Process(cluster.world, client_id)
        self._process.start()
        random = cluster.world.stream(f"creation {client_id}")
        self._controller = ControllerClient(cluster, self._process, random)
        self._topics = topics
        self._done = done
        self._process.after_ms(_RETRY_MS, self._create)

    def _create(self) -> None:
        request = CreateTopicsRequest(
            topics=[_creatable(topic) for topic in self._topics], timeout_ms=TIMEOUT_MS
        )
        self._controller.submit(request, self._answered)

    def _answered(self, response: Any) -> None:
        if response is not None and all(topic.error_code in _CREATED for topic in response.topics):
            self._done()
        else:
            self._process.after_ms(_RETRY_MS, self._create)


def _creatable(topic: NewTopic) -> CreateTopicsRequest.CreatableTopic:
    values = {"min.insync.replicas": str(topic.min_insync_replicas)}
    if topic.mirror_source:
        values[SOURCE] = topic.mirror_source
    return CreateTopicsRequest.CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name=name, value=value)
            for name, value in values.items()
        ],
    )
