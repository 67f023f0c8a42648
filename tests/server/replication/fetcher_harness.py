"""The fetchers of a broker without the rest of a node, and a leader in the same event loop."""

from collections.abc import Awaitable, Callable, Mapping
from types import SimpleNamespace
from typing import Any, Final

import trio

from barnabas.clock import Clock
from barnabas.cluster.broker.broker_identity import BrokerIdentity
from barnabas.cluster.metadata.image import BrokerImage, Endpoint, MetadataImage
from barnabas.cluster.replication.fetcher_assignments import FetcherAssignments
from barnabas.cluster.replication.replication_quota import ReplicationQuota
from barnabas.config import NodeConfig
from barnabas.config.node_config import SINGLE_NODE
from barnabas.config.subscriptions import ConfigSubscriptions
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest
from barnabas.protocol.messages_base import Message
from barnabas.protocol.types import Uuid
from barnabas.server.quorum.metadata_publisher import MetadataPublisher
from barnabas.server.replication.replica_fetcher import ReplicaFetchers
from barnabas.testing.batches import NOW_MS
from tests.client.harness import FakeBroker, run
from tests.cluster.replication.fetcher_world import SimLeader, SimReplica

FOLLOWER: Final = 1
LEADER: Final = 2
UUID: Final = Uuid(bytes(15) + b"\x07")


def configured(properties: Mapping[str, str]) -> NodeConfig:
    return NodeConfig({**SINGLE_NODE, "node.id": str(FOLLOWER), **properties})


class Harness:
    """A follower whose leader is a `FakeBroker`; `leader` answers unless a test replaces it."""

    def __init__(self, properties: Mapping[str, str], partitions: int = 1) -> None:
        self.leaders = [SimReplica(LEADER, number) for number in range(partitions)]
        self.followers = [SimReplica(FOLLOWER, number) for number in range(partitions)]
        for each in self.leaders:
            each.lead(0, {LEADER, FOLLOWER})
        self.leader = SimLeader(*self.leaders)
        self.broker = FakeBroker(self._answer)
        self.settings = ConfigSubscriptions(configured(properties))
        self.quota = ReplicationQuota()
        self.assignments = FetcherAssignments(FOLLOWER, self.quota)
        self.publisher = MetadataPublisher(MetadataImage())
        broker: Any = SimpleNamespace(identity=BrokerIdentity(FOLLOWER, UUID, epoch=42))
        self.fetchers = ReplicaFetchers(
            self.assignments,
            self.publisher,
            self.settings,
            broker=broker,
            clock=Clock(lambda: NOW_MS, lambda: int(trio.current_time() * 1000)),
        )
        self.is_silent = False

    def _answer(self, request: Message, version: int) -> Message | None:
        if isinstance(request, FetchRequest | ListOffsetsRequest) and not self.is_silent:
            return self.leader.respond(request)
        return None

    @property
    def fetches(self) -> list[FetchRequest]:
        return [each for each in self.broker.requests if isinstance(each, FetchRequest)]

    def publish(self) -> None:
        """Publish an image with the leader's address, and follow the partitions."""
        address = self.broker.address
        endpoint = Endpoint("PLAINTEXT", address.host, address.port)
        broker = BrokerImage(LEADER, 7, UUID, {"PLAINTEXT": endpoint}, {}, None, False, False, ())
        image = MetadataImage(brokers={LEADER: broker}, features={"metadata.version": 30})
        for each in self.followers:
            self.assignments.follow(each, LEADER, each.leader_epoch)
        self.publisher.publish(image, None)  # pyright: ignore[reportArgumentType]


def with_fetchers(
    test: Callable[[Harness], Awaitable[None]], partitions: int = 1, **properties: str
) -> None:
    """Run a test with running fetchers; `properties` have _ for a dot."""
    named = {name.replace("_", "."): value for name, value in properties.items()}

    async def main() -> None:
        harness = Harness(named, partitions)
        async with trio.open_nursery() as nursery:
            await nursery.start(harness.broker.serve)
            await nursery.start(harness.fetchers.run)
            await test(harness)
            nursery.cancel_scope.cancel()

    run(main)
