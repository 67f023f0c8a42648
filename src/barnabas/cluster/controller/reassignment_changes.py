"""Reassign partitions to other replicas (AlterPartitionReassignments).

A reassignment is recorded in the partition: `replicas` has the target replicas and those to remove,
and the added and removed replicas are listed separately. It completes when all added replicas are
in sync. As Kafka's `ReplicationControlManager`, `PartitionReassignmentReplicas` and
`PartitionChangeBuilder`.
"""

from collections.abc import Sequence

import attrs

from barnabas.cluster.controller.leader_elections import may_lead
from barnabas.cluster.controller.operation_result import Context, ControllerResult
from barnabas.cluster.controller.topic_changes import assigned_directory, check_manual
from barnabas.cluster.metadata.image import (
    NO_LEADER,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from barnabas.config import TopicConfig
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
from barnabas.protocol.types import Uuid

TopicResult = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
PartitionResult = AlterPartitionReassignmentsResponse.ReassignablePartitionResponse


@attrs.frozen(slots=True)
class _Target:
    """The target state of a partition."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


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
                topic_id, partition = _find(context.image, topic.name, number)
                move = _Reassignment(context.image, partition)
                if asked.replicas is None:
                    is_unclean_allowed = _is_unclean_allowed(context, topic.name)
                    change = move.cancel(f"{topic.name}:{number}", is_unclean_allowed)
                else:
                    check_manual(context.image, asked.replicas, None)
                    if not request.allow_replication_factor_change:
                        _check_same_factor(partition, len(asked.replicas))
                    change = move.begin(asked.replicas)
            except KafkaError as error:
                result.error_code, result.error_message = error.code, error.message or None
                continue
            if change is not None:
                change.topic_id, change.partition_id = topic_id, number
                records.append(change)
        response.responses.append(TopicResult(name=topic.name, partitions=results))
    return ControllerResult(records, response)


def list_partition_reassignments(
    image: MetadataImage, request: ListPartitionReassignmentsRequest
) -> ControllerResult[ListPartitionReassignmentsResponse]:
    """Return the reassignments in progress, of all topics or of those named."""
    answer = ListPartitionReassignmentsResponse
    response = answer(error_message=None)
    wanted: list[tuple[TopicImage, set[int] | None]]
    if request.topics is None:
        wanted = [(topic, None) for topic in image.topics_by_name.values()]
    else:
        wanted = [
            (topic, set(asked.partition_indexes))
            for asked in request.topics
            if (topic := image.topics_by_name.get(asked.name)) is not None
        ]
    for topic, numbers in wanted:
        moving = [
            answer.OngoingPartitionReassignment(
                partition_index=number,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding_replicas),
                removing_replicas=list(partition.removing_replicas),
            )
            for number, partition in topic.partitions.items()
            if (numbers is None or number in numbers)
            and (partition.adding_replicas or partition.removing_replicas)
        ]
        if moving:
            response.topics.append(
                answer.OngoingTopicReassignment(name=topic.name, partitions=moving)
            )
    return ControllerResult([], response)


def _find(image: MetadataImage, name: str, number: int) -> tuple[Uuid, PartitionImage]:
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
    return topic.id, partition


def _check_same_factor(partition: PartitionImage, wanted: int) -> None:
    present = len(
        {*partition.replicas, *partition.adding_replicas} - {*partition.removing_replicas}
    )
    if present != wanted:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {present} to {wanted}",
        )


def _is_unclean_allowed(context: Context, topic: str) -> bool:
    config = TopicConfig(context.config, context.image.topic_config(topic))
    return config.get("unclean.leader.election.enable")


@attrs.frozen(slots=True)
class _Reassignment:
    """The reassignment of one partition."""

    _image: MetadataImage
    _partition: PartitionImage

    def begin(self, wanted: Sequence[int]) -> PartitionChangeRecord | None:
        """Return the change towards these replicas, or None when nothing changes."""
        partition = self._partition
        removing = tuple(sorted({*partition.replicas} - {*wanted}))
        adding = tuple(sorted({*wanted} - {*partition.replicas}))
        target = _Target(
            replicas=(*wanted, *removing),
            isr=partition.isr,
            adding=adding or partition.adding_replicas,
            removing=removing or partition.removing_replicas,
        )
        return self._change(_completed(target), unclean=False)

    def cancel(self, name: str, is_unclean_allowed: bool) -> PartitionChangeRecord | None:
        """Return the change back to the replicas before the reassignment.

        Raises KafkaError when there is no reassignment, or it cannot be cancelled.
        """
        partition = self._partition
        if not partition.adding_replicas and not partition.removing_replicas:
            raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "")
        added = partition.adding_replicas
        replicas = tuple(replica for replica in partition.replicas if replica not in added)
        isr = tuple(replica for replica in partition.isr if replica not in added)
        if not isr:
            if not replicas or not is_unclean_allowed:
                raise KafkaError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"Unable to revert partition assignment for {name} because it would require "
                    "an unclean leader election.",
                )
            isr = replicas[:1]
        return self._change(_Target(replicas, isr, (), ()), unclean=is_unclean_allowed)

    def _change(self, target: _Target, *, unclean: bool) -> PartitionChangeRecord | None:
        partition = self._partition
        record = PartitionChangeRecord()
        leader = self._leader(target, unclean=unclean)
        # A removed replica must not count in the leader epoch that it knows.
        if leader != partition.leader or {*partition.replicas} - {*target.replicas}:
            record.leader = leader
        if target.isr and target.isr != partition.isr:
            record.isr = list(target.isr)
        if target.replicas != partition.replicas:
            record.replicas = list(target.replicas)
        directories = tuple(self._directory(replica) for replica in target.replicas)
        if directories != partition.directories:
            record.directories = list(directories)
        if target.removing != partition.removing_replicas:
            record.removing_replicas = list(target.removing)
        if target.adding != partition.adding_replicas:
            record.adding_replicas = list(target.adding)
        return None if record == PartitionChangeRecord() else record

    def _leader(self, target: _Target, *, unclean: bool) -> int:
        partition = self._partition
        in_sync = target.isr or partition.elr
        candidates = [
            replica
            for replica in (partition.leader, *target.replicas)
            if may_lead(self._image, partition, replica)
        ]
        clean = [replica for replica in candidates if replica in in_sync]
        return next(iter(clean or (candidates if unclean else ())), NO_LEADER)

    def _directory(self, replica: int) -> Uuid:
        partition = self._partition
        if replica in partition.replicas:
            return partition.directory(replica)
        return assigned_directory(self._image.brokers[replica])


def _completed(target: _Target) -> _Target:
    """Return the state after a reassignment that is complete, or else the given state."""
    if not target.adding and not target.removing:
        return target
    isr = tuple(replica for replica in target.isr if replica not in target.removing)
    replicas = tuple(replica for replica in target.replicas if replica not in target.removing)
    waits_for_all = len(target.adding) < len(target.removing)
    if (
        not isr
        or not replicas
        or not {*target.adding} <= {*isr}
        or (waits_for_all and not {*replicas} <= {*isr})
    ):
        return target
    return _Target(replicas, isr, (), ())
