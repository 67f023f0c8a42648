"""The cluster as each node describes it, read with raw requests: no client hides a fault."""

import time
from collections.abc import Mapping

import attrs

from barnabas.protocol.messages.describe_quorum import DescribeQuorumRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.testing.known_brokers import known_brokers
from compat_tests import wire
from compat_tests.client_security import credentials

QUORUM_TOPIC = "__cluster_metadata"


@attrs.frozen
class Partition:
    """A partition as one node's metadata has it."""

    leader: int
    epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@attrs.frozen
class Quorum:
    """The quorum as its leader describes it."""

    leader: int
    epoch: int
    high_watermark: int
    log_ends: Mapping[int, int]
    observers: tuple[int, ...]


def partitions(address: str, topic: str) -> dict[int, Partition]:
    """Return a topic's partitions as a node's metadata has them."""
    with wire.Connection(address) as connection:
        return partitions_of(connection, topic)


def partitions_of(connection: wire.Connection, topic: str) -> dict[int, Partition]:
    """Return a topic's partitions over a connection that is open."""
    wanted = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)])
    (found,) = connection.call(wanted, 9).topics
    return {
        each.partition_index: Partition(
            each.leader_id, each.leader_epoch, tuple(each.replica_nodes), tuple(each.isr_nodes)
        )
        for each in found.partitions
    }


def leader(address: str, topic: str) -> int:
    """Return the leader of partition 0 that a node names to its clients."""
    return partitions(address, topic)[0].leader


def quorum(address: str) -> Quorum:
    """Return the quorum's state. Raises AssertionError when the node has no answer now."""
    data = DescribeQuorumRequest.PartitionData(partition_index=0)
    topic = DescribeQuorumRequest.TopicData(topic_name=QUORUM_TOPIC, partitions=[data])
    answer = wire.call(address, DescribeQuorumRequest(topics=[topic]), 1)
    assert not answer.error_code, answer
    found = answer.topics[0].partitions[0]
    assert not found.error_code, found
    return Quorum(
        found.leader_id,
        found.leader_epoch,
        found.high_watermark,
        {each.replica_id: each.log_end_offset for each in found.current_voters},
        tuple(each.replica_id for each in found.observers),
    )


def try_quorum(address: str) -> Quorum | None:
    """Return the quorum's state, None while the node has no answer."""
    try:
        return quorum(address)
    except (AssertionError, OSError, EOFError):
        return None


def all_registered(addresses: Mapping[int, str]) -> bool:
    """True when every node lists every node."""
    return all(
        known_brokers(address, credentials(address)) == addresses.keys()
        for address in addresses.values()
    )


def in_sync(address: str, topic: str) -> bool:
    """True when all replicas of all partitions of a topic are in sync, as a node sees it."""
    try:
        found = partitions(address, topic)
    except (OSError, EOFError):
        return False
    return bool(found) and all(set(each.isr) == set(each.replicas) for each in found.values())


def seconds_until(condition, timeout_s: float, pause_s: float = 0.02) -> float:
    """Return the seconds until a condition holds. Raises TimeoutError."""
    started = time.monotonic()
    while not condition():
        if time.monotonic() - started > timeout_s:
            raise TimeoutError(f"not within {timeout_s} s")
        time.sleep(pause_s)
    return time.monotonic() - started
