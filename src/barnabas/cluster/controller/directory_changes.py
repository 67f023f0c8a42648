"""The log directories of replicas (KIP-858).

A broker with several log directories reports the directories of its replicas
(AssignReplicasToDirs). As `handleAssignReplicasToDirs` of Kafka's `ReplicationControlManager`.
"""

from collections.abc import Iterator

from barnabas.cluster.controller.election_rules import builder_of, election_of
from barnabas.cluster.controller.isr_changes import leave_partitions
from barnabas.cluster.controller.operation_result import Context, ControllerResult
from barnabas.cluster.metadata.feature_levels import supports_directories
from barnabas.cluster.metadata.image import BrokerImage, MetadataImage
from barnabas.cluster.metadata.partition_index import PartitionKey
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.metadata_records import PartitionChangeRecord
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
    context: Context, request: AssignReplicasToDirsRequest
) -> ControllerResult[AssignReplicasToDirsResponse]:
    """Record the directories of a broker's replicas.

    Raises KafkaError: STALE_BROKER_EPOCH, or UNSUPPORTED_VERSION when the metadata.version has no
    directories.
    """
    image = context.image
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
                    records += _assign(context, broker, directory.id, topic.topic_id, number)
                except KafkaError as error:
                    answer.error_code = error.code
            result.topics.append(TopicResult(topic_id=topic.topic_id, partitions=answers))
    return ControllerResult(records, response)


def _assign(
    context: Context, broker: BrokerImage, directory: Uuid, topic_id: Uuid, number: int
) -> Iterator[PartitionChangeRecord]:
    topic = context.image.topics_by_id.get(topic_id)
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
    is_online = broker.has_online(directory)
    if is_online:
        # A replica on a new disk could not be elected when its broker was unfenced: its directory
        # was the lost one. Kafka elects it then, as its broker reports the directory before that.
        placed = partition.with_directory(broker.id, directory)
        election = election_of(context, topic.name)
        builder = builder_of(context, topic, partition, election=election, placed=placed)
    else:
        builder = builder_of(context, topic, partition)
    builder.directories = {broker.id: directory}
    record = builder.build(topic_id, number)
    if record is not None:
        yield record
    if not is_online:
        yield from leave_partitions(context, broker.id, [PartitionKey(topic_id, number)])
