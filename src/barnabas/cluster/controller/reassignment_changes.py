"""Reassign partitions to other replicas (AlterPartitionReassignments).

A reassignment is recorded in the partition: `replicas` has the target replicas and those to remove,
and the added and removed replicas are listed separately. It completes when all added replicas are
in sync. As Kafka's `ReplicationControlManager` and `PartitionReassignmentReplicas`.
"""

from collections.abc import Iterator, Sequence

from barnabas.cluster.controller.election_rules import builder_of, election_of
from barnabas.cluster.controller.operation_result import Context, ControllerResult
from barnabas.cluster.controller.partition_change_builder import RECOVERING, Election
from barnabas.cluster.controller.topic_changes import check_manual
from barnabas.cluster.metadata.image import MetadataImage, PartitionImage, TopicImage
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.metadata_records import PartitionChangeRecord

TopicResult = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
PartitionResult = AlterPartitionReassignmentsResponse.ReassignablePartitionResponse
OngoingTopic = ListPartitionReassignmentsResponse.OngoingTopicReassignment
OngoingPartition = ListPartitionReassignmentsResponse.OngoingPartitionReassignment


def alter_partition_reassignments(
    context: Context, request: AlterPartitionReassignmentsRequest
) -> ControllerResult[AlterPartitionReassignmentsResponse]:
    """Begin or cancel (null replicas) reassignments; a refused one does not prevent the others."""
    if not request.topics:
        return ControllerResult([], AlterPartitionReassignmentsResponse())
    records: list[Message] = []
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
    )
    for topic in request.topics:
        results: list[PartitionResult] = []
        for asked in topic.partitions:
            number = asked.partition_index
            result = PartitionResult(partition_index=number, error_message=None)
            results.append(result)
            try:
                known, partition = _find(context.image, topic.name, number)
                if asked.replicas is None:
                    change = _cancel(context, known, number)
                else:
                    check_manual(context.image, asked.replicas, None)
                    if not request.allow_replication_factor_change:
                        _check_same_factor(partition, len(asked.replicas))
                    change = _begin(context, known, number, asked.replicas)
            except KafkaError as error:
                result.error_code, result.error_message = error.code, error.message or None
                continue
            if change is not None:
                records.append(change)
        response.responses.append(TopicResult(name=topic.name, partitions=results))
    return ControllerResult(records, response)


def list_partition_reassignments(
    image: MetadataImage, request: ListPartitionReassignmentsRequest
) -> ControllerResult[ListPartitionReassignmentsResponse]:
    """Return the reassignments in progress, of all topics or of those named."""
    topics: dict[str, OngoingTopic] = {}
    for topic, number in _wanted(image, request):
        partition = topic.partitions.get(number)
        if partition is None or not (partition.adding_replicas or partition.removing_replicas):
            continue
        if topic.name not in topics:
            topics[topic.name] = OngoingTopic(name=topic.name)
        ongoing = OngoingPartition(
            partition_index=number,
            replicas=list(partition.replicas),
            adding_replicas=list(partition.adding_replicas),
            removing_replicas=list(partition.removing_replicas),
        )
        topics[topic.name].partitions.append(ongoing)
    response = ListPartitionReassignmentsResponse(error_message=None, topics=list(topics.values()))
    return ControllerResult([], response)


def _wanted(
    image: MetadataImage, request: ListPartitionReassignmentsRequest
) -> Iterator[tuple[TopicImage, int]]:
    """Yield the named partitions of known topics, or without names all that are reassigned."""
    if request.topics is None:
        for key in sorted(image.partition_index.reassigning):
            yield image.topics_by_id[key.topic_id], key.number
        return
    for asked in request.topics:
        topic = image.topics_by_name.get(asked.name)
        if topic is not None:
            for number in asked.partition_indexes:
                yield topic, number


def _find(image: MetadataImage, name: str, number: int) -> tuple[TopicImage, PartitionImage]:
    topic = image.topics_by_name.get(name)
    if topic is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}."
        )
    partition = topic.partitions.get(number)
    if partition is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{number}."
        )
    return topic, partition


def _check_same_factor(partition: PartitionImage, wanted: int) -> None:
    present = len(
        {*partition.replicas, *partition.adding_replicas} - {*partition.removing_replicas}
    )
    if present != wanted:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {present} to {wanted}",
        )


def _begin(
    context: Context, topic: TopicImage, number: int, wanted: Sequence[int]
) -> PartitionChangeRecord | None:
    """Return the change towards these replicas, or None when nothing changes.

    It replaces a reassignment in progress. Unlike in Kafka, a replica that the former reassignment
    added and the new one keeps must still join the ISR before the new one completes.
    """
    partition = topic.partitions[number]
    original = {*partition.replicas} - {*partition.adding_replicas}
    removing = sorted({*partition.replicas} - {*wanted})
    builder = builder_of(context, topic, partition)
    builder.replicas = (*wanted, *removing)
    builder.removing = removing
    builder.adding = sorted({*wanted} - original)
    return builder.build(topic.id, number)


def _cancel(context: Context, topic: TopicImage, number: int) -> PartitionChangeRecord | None:
    """Return the change back to the replicas before the reassignment.

    When only added replicas are in sync, an eligible replica can lead, or else, where an unclean
    election is allowed, the first replica.

    Raises KafkaError when there is no reassignment, or it cannot be cancelled.
    """
    partition = topic.partitions[number]
    if not partition.adding_replicas and not partition.removing_replicas:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "")
    added = partition.adding_replicas
    replicas = tuple(replica for replica in partition.replicas if replica not in added)
    isr = tuple(replica for replica in partition.isr if replica not in added)
    election = election_of(context, topic.name)
    builder = builder_of(context, topic, partition, election=election)
    if not isr and not {*partition.elr} & {*replicas}:
        if not replicas or election is not Election.UNCLEAN:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Unable to revert partition assignment for {topic.name}:{number} because it would "
                "require an unclean leader election.",
            )
        isr = replicas[:1]
        builder.recovery_state = RECOVERING
    builder.isr, builder.replicas, builder.adding, builder.removing = isr, replicas, (), ()
    return builder.build(topic.id, number)
