"""Making Kafka's internal topics when they are first needed.

Kafka: AutoTopicCreationManager and GroupCoordinatorService.groupMetadataTopicConfigs.
"""

import logging
from typing import TYPE_CHECKING

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.create_topics import CreateTopicsRequest

if TYPE_CHECKING:
    from barnabas.server.node import Node

logger = logging.getLogger(__name__)

OFFSETS_TOPIC = "__consumer_offsets"

CreatableTopic = CreateTopicsRequest.CreatableTopic
CreatableTopicConfig = CreateTopicsRequest.CreatableTopicConfig


async def create_offsets_topic(node: "Node") -> None:
    """Create `__consumer_offsets` as the offsets.topic.* properties say, if it is not there.

    Raises KafkaError COORDINATOR_NOT_AVAILABLE when that cannot be done (yet).
    """
    get = node.config.get
    configs = {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(get("offsets.topic.segment.bytes")),
    }
    topic = CreatableTopic(
        name=OFFSETS_TOPIC,
        num_partitions=get("offsets.topic.num.partitions"),
        replication_factor=get("offsets.topic.replication.factor"),
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
    )
    request = CreateTopicsRequest(topics=[topic])
    try:
        response = await node.quorum.submit(
            lambda controller, _now_ms: controller.create_topics(request)
        )
    except KafkaError as error:
        raise _not_available() from error
    (result,) = response.topics
    error = ErrorCode(result.error_code)
    if error is ErrorCode.INVALID_REPLICATION_FACTOR:
        logger.error(
            "cannot create topic=%s: offsets.topic.replication.factor=%d is more than the live "
            "brokers; set it to 1 on a single node",
            OFFSETS_TOPIC,
            topic.replication_factor,
        )
    elif error is not ErrorCode.TOPIC_ALREADY_EXISTS and error is not ErrorCode.NONE:
        logger.error("cannot create topic=%s: %s", OFFSETS_TOPIC, result.error_message)
    else:
        return
    raise _not_available()


def _not_available() -> KafkaError:
    return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{OFFSETS_TOPIC} is not there yet")
