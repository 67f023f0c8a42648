"""The cluster as the client sees it: brokers, topics, and the leaders of partitions.

The cache changes by Metadata responses, and by the leaders that Produce and Fetch responses name
(KIP-951). A leader of an older epoch never replaces one of a newer epoch of the same topic id.
"""

from collections.abc import Iterable
from typing import NamedTuple

import attrs

from barnabas.client.failures import Address
from barnabas.protocol.errors import ErrorCode, error_code
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.types import ZERO_UUID, Uuid


@attrs.frozen
class PartitionLeader:
    """The leader of one partition, as far as known."""

    node_id: int
    epoch: int
    topic_id: Uuid
    """The topic's id, or all zeros when the brokers are older than topic ids."""


class LeaderHint(NamedTuple):
    """A leader that a Produce or Fetch response named, -1 when it named none (KIP-951)."""

    node_id: int
    epoch: int
    address: Address | None


@attrs.frozen
class TopicMetadata:
    """One topic of the last Metadata response."""

    name: str
    topic_id: Uuid
    error: ErrorCode
    leaders: dict[int, PartitionLeader]
    """By partition; a partition without a leader is missing."""
    partition_count: int
    replication_factor: int


class MetadataCache:
    """Brokers by id and topics by name."""

    def __init__(self) -> None:
        self.brokers: dict[int, Address] = {}
        self.controller_id = -1
        self.cluster_id: str | None = None
        self._topics: dict[str, TopicMetadata] = {}

    def topic(self, name: str) -> TopicMetadata | None:
        """Return a topic, None before a response described it."""
        return self._topics.get(name)

    def leader(self, topic: str, partition: int) -> PartitionLeader | None:
        """Return the leader of a partition, None when it has none or it is unknown."""
        entry = self._topics.get(topic)
        return entry.leaders.get(partition) if entry is not None else None

    def known_topics(self) -> list[str]:
        """Return the names of all topics that a refresh must ask for."""
        return list(self._topics)

    def forget_leader(self, topic: str, partition: int) -> None:
        """Drop a leader that turned out to be wrong; its epoch no longer holds others back."""
        entry = self._topics.get(topic)
        if entry is not None:
            entry.leaders.pop(partition, None)

    def update(self, response: MetadataResponse) -> None:
        """Take a Metadata response in; topics that it does not name stay as they are."""
        self.brokers = {
            broker.node_id: Address(broker.host, broker.port) for broker in response.brokers
        }
        self.controller_id = response.controller_id
        self.cluster_id = response.cluster_id
        for topic in response.topics:
            if topic.name is not None:
                self._topics[topic.name] = self._merged(topic.name, topic)

    def learn_leader(self, topic: str, partition: int, hint: LeaderHint) -> bool:
        """Take in a leader that a response named; False when it is not newer than the known one."""
        entry = self._topics.get(topic)
        known = entry.leaders.get(partition) if entry is not None else None
        if entry is None or hint.node_id < 0 or (known is not None and hint.epoch <= known.epoch):
            return False
        if hint.address is not None:
            self.brokers[hint.node_id] = hint.address
        if hint.node_id not in self.brokers:
            return False
        entry.leaders[partition] = PartitionLeader(hint.node_id, hint.epoch, entry.topic_id)
        return True

    def _merged(self, name: str, topic: MetadataResponse.MetadataResponseTopic) -> TopicMetadata:
        """Return a topic of a response, with the leaders that are known to be newer kept."""
        before = self._topics.get(name)
        if before is not None and before.topic_id != topic.topic_id:
            before = None
        leaders: dict[int, PartitionLeader] = {}
        for item in topic.partitions:
            index, epoch = item.partition_index, item.leader_epoch
            known = before.leaders.get(index) if before is not None else None
            if known is not None and known.epoch > epoch and known.node_id in self.brokers:
                leaders[index] = known
            elif item.leader_id >= 0 and item.leader_id in self.brokers:
                leaders[index] = PartitionLeader(item.leader_id, epoch, topic.topic_id)
        return TopicMetadata(
            name,
            topic.topic_id,
            error_code(topic.error_code),
            leaders,
            len(topic.partitions),
            max((len(item.replica_nodes) for item in topic.partitions), default=0),
        )


def metadata_request(topics: Iterable[str]) -> MetadataRequest:
    """Return a request for the brokers and some topics; it creates none of them."""
    return MetadataRequest(
        topics=[
            MetadataRequest.MetadataRequestTopic(topic_id=ZERO_UUID, name=name) for name in topics
        ],
        allow_auto_topic_creation=False,
    )
