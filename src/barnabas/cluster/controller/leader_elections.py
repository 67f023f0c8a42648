"""Elect leaders on request: the preferred replica, or any online replica (ElectLeaders).

As Kafka's `ReplicationControlManager#electLeaders` and `PartitionChangeBuilder`.
"""

from collections.abc import Iterable

import attrs

from barnabas.cluster.controller.operation_result import ControllerResult
from barnabas.cluster.metadata.image import (
    NO_LEADER,
    MetadataImage,
    PartitionImage,
)
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.metadata_records import PartitionChangeRecord
from barnabas.protocol.types import Uuid

# org.apache.kafka.common.ElectionType
PREFERRED, UNCLEAN = 0, 1
# org.apache.kafka.metadata.LeaderRecoveryState
_RECOVERING = 1

Result = ElectLeadersResponse.ReplicaElectionResult
PartitionResult = ElectLeadersResponse.PartitionResult


def elect_leaders(
    image: MetadataImage, request: ElectLeadersRequest
) -> ControllerResult[ElectLeadersResponse]:
    """Hold the election in the named partitions, or without names in all that need one.

    Raises KafkaError INVALID_REQUEST for an unknown election type.
    """
    asked, kind = request.topic_partitions, request.election_type
    if asked is not None and not asked:
        return ControllerResult([], ElectLeadersResponse())
    if kind not in (PREFERRED, UNCLEAN):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {kind}")
    records: list[Message] = []
    response = ElectLeadersResponse()
    wanted: Iterable[tuple[str, Iterable[int]]]
    if asked is None:
        wanted = [(name, topic.partitions) for name, topic in image.topics_by_name.items()]
    else:
        wanted = [(topic.topic, topic.partitions) for topic in asked]
    for name, numbers in wanted:
        results: list[PartitionResult] = []
        for number in numbers:
            result = PartitionResult(partition_id=number, error_message=None)
            try:
                records.append(_elect(image, name, number, kind))
            except KafkaError as error:
                if asked is None and error.code == ErrorCode.ELECTION_NOT_NEEDED:
                    continue
                result.error_code, result.error_message = error.code, error.message
            results.append(result)
        response.replica_election_results.append(Result(topic=name, partition_result=results))
    return ControllerResult(records, response)


def _elect(image: MetadataImage, name: str, number: int, kind: int) -> PartitionChangeRecord:
    """Return the record that elects a leader.

    Raises KafkaError when no replica can be elected, or no election is needed.
    """
    topic = image.topics_by_name.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    partition = topic.partitions.get(number)
    if partition is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{number}"
        )
    has_leader = partition.leader != NO_LEADER
    if (partition.leader == partition.replicas[0]) if kind == PREFERRED else has_leader:
        raise KafkaError(
            ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
        )
    elected = _candidate(image, partition, kind)
    if elected is None or elected.broker_id == partition.leader:
        if kind == PREFERRED:
            raise KafkaError(
                ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."
            )
        raise KafkaError(
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            "Eligible topic partition leaders are not available.",
        )
    return _change(topic.id, number, partition, elected)


@attrs.frozen(slots=True)
class _Elected:
    broker_id: int
    unclean: bool = False


def _candidate(image: MetadataImage, partition: PartitionImage, kind: int) -> _Elected | None:
    """Return the replica to elect, or None when no replica can lead.

    This may be the current leader.
    """
    replicas = partition.replicas
    order = [partition.leader, *replicas]
    if kind == PREFERRED:
        order.insert(0, replicas[0])
    in_sync = partition.isr or partition.elr
    for replica in order:
        if replica in in_sync and may_lead(image, partition, replica):
            return _Elected(replica)
    # Without in-sync replicas, the last known leader has the most records (KIP-966).
    last_known = (
        partition.last_known_elr if not in_sync and len(partition.last_known_elr) == 1 else ()
    )
    for replica in (*last_known, *(replicas if kind == UNCLEAN else ())):
        if may_lead(image, partition, replica):
            return _Elected(replica, unclean=True)
    return None


def may_lead(image: MetadataImage, partition: PartitionImage, replica: int) -> bool:
    """True when the broker is active and its replica is online (`LeaderAcceptor`)."""
    broker = image.brokers.get(replica)
    if broker is None or not broker.is_active:
        return False
    return broker.has_online(partition.directory(replica))


def _change(
    topic_id: Uuid, number: int, partition: PartitionImage, elected: _Elected
) -> PartitionChangeRecord:
    leader = elected.broker_id
    record = PartitionChangeRecord(topic_id=topic_id, partition_id=number, leader=leader)
    if leader not in partition.isr:
        record.isr = [leader]
    if elected.unclean and partition.leader_recovery_state != _RECOVERING:
        record.leader_recovery_state = _RECOVERING
    if partition.elr:
        others = [replica for replica in partition.elr if replica != leader]
        record.eligible_leader_replicas = [] if elected.unclean else others
    if partition.last_known_elr:
        record.last_known_elr = []
    return record
