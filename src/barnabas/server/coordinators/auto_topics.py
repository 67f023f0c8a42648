"""Topics that are created on first use (Kafka's `AutoTopicCreationManager`).

Internal topics get the number of partitions, the replication factor and the properties that their
coordinator needs; all others get the broker's defaults.
"""

from copy import copy
from typing import TYPE_CHECKING, Final

from barnabas import tasks
from barnabas.cluster.metadata.topic_names import refusal
from barnabas.protocol.apis import API
from barnabas.protocol.errors import ErrorCode, KafkaError, error_code
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse

if TYPE_CHECKING:
    from barnabas.config import NodeConfig
    from barnabas.config.subscriptions import ConfigSubscriptions
    from barnabas.server.api.context import AnyContext
    from barnabas.server.controller_channel.controller_channel import ControllerChannel

CreatableTopic = CreateTopicsRequest.CreatableTopic

_WAIT_S: Final = 10.0

# name -> the broker properties of its size.
_INTERNAL = {
    "__consumer_offsets": ("offsets.topic.num.partitions", "offsets.topic.replication.factor"),
    "__transaction_state": (
        "transaction.state.log.num.partitions",
        "transaction.state.log.replication.factor",
    ),
    "__share_group_state": (
        "share.coordinator.state.topic.num.partitions",
        "share.coordinator.state.topic.replication.factor",
    ),
}


async def create_topics(
    channel: "ControllerChannel",
    settings: "ConfigSubscriptions",
    names: list[str],
    client: "AnyContext",
) -> dict[str, ErrorCode]:
    """Create topics for a client; return, by name, the error that it gets for a missing one.

    The controller authorizes the client, and counts the partitions for its quota.

    A topic that lacks brokers will be created later, so the client gets UNKNOWN_TOPIC_OR_PARTITION
    and retries, as with Kafka. A bad name gets its own error.
    """
    request = CreateTopicsRequest(
        topics=[creatable(settings.current, name) for name in names if refusal(name) is None]
    )
    try:
        answer = await request_creation(channel, request, on_behalf_of=_creation_of(client))
    except KafkaError as error:
        return dict.fromkeys(names, _client_error(error.code))
    return {
        result.name: _client_error(error_code(result.error_code))
        for result in answer.topics
        if result.error_code
    }


def _creation_of(client: "AnyContext") -> "AnyContext":
    """Return the context of a CreateTopics request that is sent for a client.

    As in Kafka it has the client's id and correlation id, and the latest version.
    """
    api = API[CreateTopicsRequest.API_KEY]
    context = copy(client)
    context.api_key, context.version = api.key, api.advertised[1]
    return context


async def request_creation(
    channel: "ControllerChannel",
    request: CreateTopicsRequest,
    *,
    on_behalf_of: "AnyContext | None" = None,
) -> CreateTopicsResponse:
    """Have the controller create topics while a client waits. Raises KafkaError.

    The node creates them for itself without `on_behalf_of`.

    Without a controller the client gets a retriable error before its own request times out.
    """
    with tasks.move_on_after(_WAIT_S):
        return await channel.send(request, CreateTopicsResponse, on_behalf_of=on_behalf_of)
    raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the topics were not created in time")


def _client_error(code: ErrorCode) -> ErrorCode:
    if code in (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.INVALID_REPLICATION_FACTOR):
        return code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def creatable(config: "NodeConfig", name: str) -> CreatableTopic:
    """Return a topic as it is created on first use."""
    sizes = _INTERNAL.get(name)
    if sizes is None:
        return CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)
    configs = _internal_configs(config, name)
    return CreatableTopic(
        name=name,
        num_partitions=config.get_int(sizes[0]),
        replication_factor=config.get_int(sizes[1]),
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name=key, value=value)
            for key, value in configs.items()
        ],
    )


def _internal_configs(config: "NodeConfig", name: str) -> dict[str, str]:
    """Return the properties of an internal topic.

    As `GroupCoordinatorService.groupMetadataTopicConfigs` and its siblings in Kafka.
    """
    if name == "__consumer_offsets":
        return {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config.get_int("offsets.topic.segment.bytes")),
        }
    if name == "__transaction_state":
        return {
            "unclean.leader.election.enable": "false",
            "compression.type": "uncompressed",
            "cleanup.policy": "compact",
            "min.insync.replicas": str(config.get_int("transaction.state.log.min.isr")),
            "segment.bytes": str(config.get_int("transaction.state.log.segment.bytes")),
        }
    return {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "segment.bytes": str(config.get_int("share.coordinator.state.topic.segment.bytes")),
        "retention.ms": "-1",
    }
