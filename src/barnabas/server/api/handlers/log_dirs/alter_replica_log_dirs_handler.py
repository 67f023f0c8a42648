"""AlterReplicaLogDirs: move replicas between the node's data directories (versions 1-2).

The response means that a move has started; DescribeLogDirs shows it as a future replica until it
ends.
"""

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
)
from barnabas.server.api.handler_services import LogDirContext, LogDirServices

PartitionResult = AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult
TopicResult = AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult


def alter_replica_log_dirs(
    context: LogDirContext, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    """Start each move; a replica that is in its directory already needs none."""
    results: dict[str, list[PartitionResult]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            answers = results.setdefault(topic.name, [])
            for number in topic.partitions:
                code = _begin(context.services, directory.path, topic.name, number)
                answers.append(PartitionResult(partition_index=number, error_code=code))
    return AlterReplicaLogDirsResponse(
        results=[
            TopicResult(topic_name=topic, partitions=answers) for topic, answers in results.items()
        ]
    )


def _begin(services: LogDirServices, path: str, topic: str, number: int) -> ErrorCode:
    try:
        services.logs.relocations.target(path)  # Kafka looks at the directory first
        hosted = services.replicas.hosted(topic, number)
        if hosted is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        _ = hosted.log  # opened or created
        move = services.logs.relocations.begin(topic, number, path)
    except KafkaError as error:
        return error.code
    if move is not None:
        services.start_relocation(move)
    return ErrorCode.NONE
