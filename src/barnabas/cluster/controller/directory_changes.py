"""The log directories of replicas, and the failure of directories (KIP-858).

A broker with several log directories reports the directories of its replicas
(AssignReplicasToDirs), and in its heartbeats the directories that failed; it stops leading the
replicas in those. As `handleAssignReplicasToDirs` and `handleDirectoriesOffline` of Kafka's
`ReplicationControlManager`.
"""

from collections.abc import Collection, Iterator, Mapping

import attrs

from barnabas.cluster.controller.leader_elections import may_lead
from barnabas.cluster.controller.operation_result import ControllerResult
from barnabas.cluster.metadata.feature_levels import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    supports_directories,
)
from barnabas.cluster.metadata.image import NO_LEADER, BrokerImage, MetadataImage, PartitionImage
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.metadata_records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
)
from barnabas.protocol.types import Uuid

DirectoryResult = AssignReplicasToDirsResponse.DirectoryData
TopicResult = AssignReplicasToDirsResponse.TopicData
PartitionResult = AssignReplicasToDirsResponse.PartitionData


def registered_broker(image: MetadataImage, broker_id: int, epoch: int) -> BrokerImage:
    """Return the broker that registered in `epoch`.

    Raises KafkaError STALE_BROKER_EPOCH when there is none.
    """
    broker = image.brokers.get(broker_id)
    if broker is None or broker.epoch != epoch:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"Broker {broker_id} has no epoch {epoch}")
    return broker


def assign_replicas_to_dirs(
    image: MetadataImage, request: AssignReplicasToDirsRequest
) -> ControllerResult[AssignReplicasToDirsResponse]:
    """Record the directories of a broker's replicas.

    Raises KafkaError: STALE_BROKER_EPOCH, or UNSUPPORTED_VERSION when the metadata.version has no
    directories.
    """
    if not supports_directories(image.features):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, "Directory assignment is not supported yet."
        )
    broker = registered_broker(image, request.broker_id, request.broker_epoch)
    records: list[Message] = []
    response = AssignReplicasToDirsResponse()
    for directory in request.directories:
        result = DirectoryResult(id=directory.id)
        response.directories.append(result)
        for topic in directory.topics:
            answers: list[PartitionResult] = []
            for partition in topic.partitions:
                number = partition.partition_index
                answer = PartitionResult(partition_index=number)
                answers.append(answer)
                try:
                    records += _assign(image, broker, directory.id, topic.topic_id, number)
                except KafkaError as error:
                    answer.error_code = error.code
            result.topics.append(TopicResult(topic_id=topic.topic_id, partitions=answers))
    return ControllerResult(records, response)


def _assign(
    image: MetadataImage, broker: BrokerImage, directory: Uuid, topic_id: Uuid, number: int
) -> Iterator[PartitionChangeRecord]:
    topic = image.topics_by_id.get(topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"No topic has the id {topic_id}")
    partition = topic.partitions.get(number)
    if partition is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No partition {topic.name}-{number}"
        )
    if broker.id not in partition.replicas:
        raise KafkaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"Broker {broker.id} has no replica of {topic.name}-{number}",
        )
    if partition.directory(broker.id) == directory:
        return
    directories = [
        directory if replica == broker.id else known
        for replica, known in zip(partition.replicas, partition.directories, strict=False)
    ]
    yield PartitionChangeRecord(topic_id=topic_id, partition_id=number, directories=directories)
    if not broker.has_online(directory):
        yield from _change_without(image, topic_id, number, partition, broker.id)


def directories_failed(
    image: MetadataImage, broker: BrokerImage, offline: Collection[Uuid]
) -> Iterator[Message]:
    """Yield the records for directories of a broker that failed since its last report."""
    if not any(directory in broker.directories for directory in offline):
        return
    left = tuple(each for each in broker.directories if each not in offline)
    yield from leave_offline(image, attrs.evolve(broker, directories=left))
    yield BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, log_dirs=list(left)
    )


def leave_offline(image: MetadataImage, broker: BrokerImage) -> Iterator[PartitionChangeRecord]:
    """Remove the broker from the ISR of replicas in directories that it no longer has."""
    for topic in image.topics_by_id.values():
        for number, partition in topic.partitions.items():
            is_there = broker.id in partition.isr or broker.id == partition.leader
            if is_there and not broker.has_online(partition.directory(broker.id)):
                yield from _change_without(image, topic.id, number, partition, broker.id)


def leave_all(image: MetadataImage, broker_id: int) -> Iterator[PartitionChangeRecord]:
    """Remove the broker from the ISR and the leadership of all its partitions."""
    for topic in image.topics_by_id.values():
        for number, partition in topic.partitions.items():
            if broker_id in partition.isr or broker_id == partition.leader:
                yield from _change_without(image, topic.id, number, partition, broker_id)


def _change_without(
    image: MetadataImage, topic_id: Uuid, number: int, partition: PartitionImage, broker_id: int
) -> Iterator[PartitionChangeRecord]:
    """Change a partition to do without a broker: another leader or none, a smaller ISR.

    As `generateLeaderAndIsrUpdates` and `PartitionChangeBuilder`.
    """
    has_elr = keeps_eligible_leaders(image.features)
    isr = tuple(replica for replica in partition.isr if replica != broker_id)
    record = PartitionChangeRecord(topic_id=topic_id, partition_id=number)
    if partition.leader == broker_id:
        able = (
            each for each in partition.replicas if each in isr and may_lead(image, partition, each)
        )
        record.leader = next(able, NO_LEADER)
    if (isr or has_elr) and isr != partition.isr:
        record.isr = list(isr)
    if has_elr and not isr and broker_id not in partition.elr:
        record.eligible_leader_replicas = [*partition.elr, broker_id]
        if partition.last_known_elr != (broker_id,):
            record.last_known_elr = [broker_id]
    if record != PartitionChangeRecord(topic_id=topic_id, partition_id=number):
        yield record


def leads_anything(image: MetadataImage, broker_id: int) -> bool:
    """True when the broker leads a partition."""
    return any(
        partition.leader == broker_id
        for topic in image.topics_by_id.values()
        for partition in topic.partitions.values()
    )


def keeps_eligible_leaders(features: Mapping[str, int]) -> bool:
    """True when eligible leader replicas are kept (KIP-966)."""
    return features.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > 0
