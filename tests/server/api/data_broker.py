"""A broker without sockets, for tests that call the handlers of the data path directly."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from barnabas.clock import Clock
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.cluster.replication import Partition, ReplicaManager
from barnabas.config import NodeConfig, TopicConfig
from barnabas.config.subscriptions import ConfigSubscriptions
from barnabas.log import LogConfig, LogManager
from barnabas.log.checkpoints import MetaProperties
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.types import Uuid
from barnabas.security.principals import ANONYMOUS
from barnabas.server.api.context import RequestContext
from barnabas.server.api.handler_services import DataServices
from barnabas.server.api.node_quotas import ClientQuotas, QuotaWindows
from barnabas.server.replication.commit_wait import CommitWaits
from barnabas.server.replication.fetch_sessions import FetchSessionCache
from barnabas.testing.batches import NOW_MS, batch
from tests.cluster.states import CLUSTER_ID, Cluster
from tests.log.logs import open_volume

TOPICS = {"t": [1], "elsewhere": [2], "replicated": [1, 2], "__consumer_offsets": [1]}


def create(cluster: Cluster, topic: str, replicas: list[int]) -> None:
    """Create a topic with one partition on these brokers."""
    asked = CreateTopicsRequest.CreatableTopic(
        name=topic,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            CreateTopicsRequest.CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)
        ],
    )
    cluster.take(cluster.controller.create_topics(CreateTopicsRequest(topics=[asked])))


class FakeConnection:
    """The client's connection as handlers see it."""

    principal = ANONYMOUS
    client_host = "192.0.2.1"
    listener_name = "PLAINTEXT"

    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True

    def on_close(self, callback: Callable[[], object]) -> None:
        raise NotImplementedError


class DataBroker:
    """Broker 1 of two; it leads `t` and `replicated`, and broker 2 leads `elsewhere`."""

    def __init__(self, path: Path, **overrides: str) -> None:
        volume = open_volume(path)
        given = {key.replace("_", "."): value for key, value in overrides.items()}
        config = NodeConfig.load(None, {"max.incremental.fetch.session.cache.slots": "2", **given})
        cluster = self.cluster = Cluster(brokers=2, racks=2)
        (directory,) = cluster.image.brokers[1].directories
        volume.write_properties(MetaProperties(CLUSTER_ID, 1, directory))
        for topic, replicas in TOPICS.items():
            create(cluster, topic, replicas)
        self.image: MetadataImage = cluster.image
        logs = LogManager([volume], volume, LogConfig.from_topic(TopicConfig(config)))
        self.clock_ms = 0
        clock = Clock(lambda: NOW_MS, lambda: self.clock_ms)
        self.replicas = ReplicaManager(
            1,
            logs,
            config=lambda: config,
            clock=clock,
        )
        self.replicas.apply(self.image)
        self.connection = FakeConnection()
        self.checkpoints = 0
        session_ids = iter(range(100, 200))
        unused: Any = None
        self.quotas = ClientQuotas(
            QuotaWindows(11, 1000), QuotaWindows(11, 1000), lambda: self.clock_ms
        )
        self.services = DataServices(
            replicas=self.replicas,
            records=unused,
            fetch_sessions=FetchSessionCache(2, lambda: next(session_ids)),
            settings=ConfigSubscriptions(config),
            clock=clock,
            admission=unused,
            commits=CommitWaits(self._flush),
            checkpoint_log_starts=self._checkpoint,
            quotas=self.quotas,
        )

    async def _flush(self, partition: Partition) -> bool:
        partition.log.flush()
        return True

    async def _checkpoint(self) -> None:
        self.checkpoints += 1

    def topic_id(self, topic: str) -> Uuid:
        return self.image.topics_by_name[topic].id

    def partition(self, topic: str = "t", number: int = 0) -> Partition:
        return self.replicas.partition(topic, number)

    def append(self, *values: bytes, topic: str = "t") -> int:
        """Append one batch as a producer does; returns its first offset."""
        partition = self.partition(topic)
        info = partition.append(batch(*values), required_acks=1, origin="client", now_ms=NOW_MS)
        return info.first_offset

    def ask(
        self, handler: Callable[..., Any], request: Any, version: int, client_id: str | None = "me"
    ) -> Any:
        """Call a handler with the request; returns what it returns."""
        return handler(
            context(self.services, request, version, self.connection, client_id), request
        )


def context(
    services: Any, request: Any, version: int, connection: Any, client_id: str | None = "me"
) -> RequestContext[Any]:
    """Return the context of a request."""
    route: Any = SimpleNamespace(
        api_key=request.API_KEY,
        version=version,
        services=services,
        listener="broker",
        authorizer=None,
    )
    return RequestContext(connection, route, 1, client_id, request)
