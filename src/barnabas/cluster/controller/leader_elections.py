"""Elect leaders outside of failures: on request (ElectLeaders), and in periodic tasks.

As Kafka's `ReplicationControlManager`: `electLeaders`, `maybeBalancePartitionLeaders` and
`maybeElectUncleanLeaders`.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

from barnabas.cluster.controller.election_rules import allows_unclean_election, builder_of
from barnabas.cluster.controller.operation_result import Context, ControllerResult
from barnabas.cluster.controller.partition_change_builder import Election
from barnabas.cluster.metadata.image import NO_LEADER
from barnabas.cluster.metadata.partition_index import PartitionKey
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.metadata_records import PartitionChangeRecord

# org.apache.kafka.common.ElectionType
PREFERRED, UNCLEAN = 0, 1

Result = ElectLeadersResponse.ReplicaElectionResult
PartitionResult = ElectLeadersResponse.PartitionResult


def elect_leaders(
    context: Context, request: ElectLeadersRequest
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
        wanted = [(name, topic.partitions) for name, topic in context.image.topics_by_name.items()]
    else:
        wanted = [(topic.topic, topic.partitions) for topic in asked]
    for name, numbers in wanted:
        results: list[PartitionResult] = []
        for number in numbers:
            result = PartitionResult(partition_id=number, error_message=None)
            try:
                records.append(_elect(context, name, number, kind))
            except KafkaError as error:
                if asked is None and error.code == ErrorCode.ELECTION_NOT_NEEDED:
                    continue
                result.error_code, result.error_message = error.code, error.message
            results.append(result)
        response.replica_election_results.append(Result(topic=name, partition_result=results))
    return ControllerResult(records, response)


def balance_leaders(context: Context, most: int) -> list[Message]:
    """Return the changes that let preferred replicas lead again where they can, at most `most`."""
    imbalanced = context.image.partition_index.imbalanced
    return list(islice(_elections(context, imbalanced, Election.PREFERRED), most))


def elect_uncleanly(context: Context, most: int) -> list[Message]:
    """Return the elections in leaderless partitions of topics that allow unclean ones."""
    topics = context.image.topics_by_id
    leaderless = (
        key
        for key in context.image.partition_index.leaderless
        if allows_unclean_election(context, topics[key.topic_id].name)
    )
    return list(islice(_elections(context, leaderless, Election.UNCLEAN), most))


def _elections(
    context: Context, partitions: Iterable[PartitionKey], election: Election
) -> Iterator[PartitionChangeRecord]:
    for topic_id, number in partitions:
        topic = context.image.topics_by_id[topic_id]
        partition = topic.partitions[number]
        record = builder_of(context, topic, partition, election=election).build(topic_id, number)
        if record is not None:
            yield record


def _elect(context: Context, name: str, number: int, kind: int) -> PartitionChangeRecord:
    """Return the record that elects a leader.

    Raises KafkaError when no replica can be elected, or no election is needed.
    """
    topic = context.image.topics_by_name.get(name)
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
    election = Election.PREFERRED if kind == PREFERRED else Election.UNCLEAN
    record = builder_of(context, topic, partition, election=election).build(topic.id, number)
    if record is not None:
        return record
    if kind == PREFERRED:
        raise KafkaError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."
        )
    raise KafkaError(
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        "Eligible topic partition leaders are not available.",
    )
