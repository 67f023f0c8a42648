"""Creating the coordinators' topics on first use."""

import logging
from typing import TYPE_CHECKING

from barnabas.protocol.errors import ErrorCode, KafkaError, error_code
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.server.coordinators.auto_topics import creatable, request_creation

if TYPE_CHECKING:
    from barnabas.config.subscriptions import ConfigSubscriptions
    from barnabas.server.controller_channel.controller_channel import ControllerChannel

logger = logging.getLogger(__name__)

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_TOPIC = "__transaction_state"


async def create_internal_topic(
    channel: "ControllerChannel", settings: "ConfigSubscriptions", name: str
) -> None:
    """Create a coordinator's topic with the node's properties, if it does not exist.

    Raises KafkaError COORDINATOR_NOT_AVAILABLE when that is not possible (yet).
    """
    topic = creatable(settings.current, name)
    request = CreateTopicsRequest(topics=[topic])
    try:
        response = await request_creation(channel, request)
    except KafkaError as error:
        raise _not_available(name) from error
    (result,) = response.topics
    error = error_code(result.error_code)
    if error is ErrorCode.INVALID_REPLICATION_FACTOR:
        logger.error(
            "cannot create topic=%s: its replication factor of %d is more than the live brokers; "
            "set it to 1 on a single node",
            name,
            topic.replication_factor,
        )
    elif error is not ErrorCode.TOPIC_ALREADY_EXISTS and error is not ErrorCode.NONE:
        logger.error("cannot create topic=%s: %s", name, result.error_message)
    else:
        return
    raise _not_available(name)


def _not_available(name: str) -> KafkaError:
    return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{name} does not exist yet")
