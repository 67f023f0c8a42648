"""Topics, their configuration, and the ends of partitions."""

from collections.abc import Mapping
from typing import Final

import attrs

from barnabas.client.core.metadata_cache import PartitionLeader, TopicMetadata
from barnabas.client.failures import raise_for
from barnabas.client.kafka_client import KafkaClient
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse

EARLIEST: Final = -2
LATEST: Final = -1
"""The end of the partition: the high watermark, or the last stable offset when only committed
records are read."""

BROKER_DEFAULT: Final = -1
TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4

_READ_COMMITTED: Final = 1
_CREATE_TIMEOUT_MS: Final = 30_000


@attrs.frozen
class ConfigEntry:
    """One property of a topic or a broker."""

    name: str
    value: str | None
    source: int
    is_read_only: bool
    is_sensitive: bool


async def describe_topic(client: KafkaClient, topic: str) -> TopicMetadata | None:
    """Return a topic as the brokers know it now, None when there is no such topic.

    Raises KafkaError for any other error of the topic.
    """

    async def attempt() -> TopicMetadata | None:
        await client.refresh_metadata((topic,))
        entry = client.metadata.topic(topic)
        if entry is None or entry.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return None
        raise_for(entry.error, f"topic {topic}")
        return entry

    return await client.retry(f"describing topic {topic}", attempt)


async def create_topic(
    client: KafkaClient,
    topic: str,
    *,
    partitions: int = BROKER_DEFAULT,
    replication_factor: int = BROKER_DEFAULT,
    configs: Mapping[str, str] | None = None,
    validate_only: bool = False,
) -> None:
    """Create a topic. Raises KafkaError: TOPIC_ALREADY_EXISTS when it is there.

    A retry after a lost answer raises TOPIC_ALREADY_EXISTS too, so callers that only need the topic
    call `ensure_topic`.
    """
    wanted = CreateTopicsRequest.CreatableTopic(
        name=topic,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name=name, value=value)
            for name, value in (configs or {}).items()
        ],
    )
    request = CreateTopicsRequest(
        topics=[wanted], timeout_ms=_CREATE_TIMEOUT_MS, validate_only=validate_only
    )

    async def attempt() -> None:
        response = await client.ask_controller(request, CreateTopicsResponse)
        for result in response.topics:
            if result.error_code == ErrorCode.NOT_CONTROLLER:
                await client.refresh_metadata()
            raise_for(result.error_code, result.error_message, about=topic)

    await client.retry(f"creating topic {topic}", attempt)


async def ensure_topic(
    client: KafkaClient,
    topic: str,
    *,
    partitions: int = BROKER_DEFAULT,
    replication_factor: int = BROKER_DEFAULT,
    configs: Mapping[str, str] | None = None,
) -> bool:
    """Create a topic unless it exists; return True when it was created. Raises KafkaError."""
    try:
        await create_topic(
            client,
            topic,
            partitions=partitions,
            replication_factor=replication_factor,
            configs=configs,
        )
    except KafkaError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
        return False
    return True


async def describe_configs(
    client: KafkaClient, resource_type: int, name: str
) -> dict[str, ConfigEntry]:
    """Return the properties of a topic (by name) or a broker (by id), by property name."""
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=resource_type, resource_name=name, configuration_keys=None
    )

    async def attempt() -> dict[str, ConfigEntry]:
        request = DescribeConfigsRequest(resources=[resource])
        response = await client.ask_any(request, DescribeConfigsResponse)
        for result in response.results:
            raise_for(result.error_code, result.error_message, about=name)
            return {
                item.name: ConfigEntry(
                    item.name, item.value, item.config_source, item.read_only, item.is_sensitive
                )
                for item in result.configs
            }
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"the response has no configuration of {name}"
        )

    return await client.retry(f"describing the configuration of {name}", attempt)


async def list_offset(
    client: KafkaClient,
    topic: str,
    partition: int,
    timestamp: int = LATEST,
    *,
    read_committed: bool = False,
) -> int:
    """Return the offset of `EARLIEST`, `LATEST`, or of the first record since a timestamp (ms).

    It is -1 when no record is as new as the timestamp.
    """

    def build(leader: PartitionLeader) -> ListOffsetsRequest:
        wanted = ListOffsetsRequest.ListOffsetsPartition(
            partition_index=partition, current_leader_epoch=leader.epoch, timestamp=timestamp
        )
        return ListOffsetsRequest(
            replica_id=-1,
            isolation_level=_READ_COMMITTED if read_committed else 0,
            topics=[ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[wanted])],
        )

    async def attempt() -> int:
        response = await client.ask_leader(topic, partition, build, ListOffsetsResponse)
        for found in response.topics:
            for item in found.partitions:
                client.check_partition(item.error_code, topic, partition)
                return item.offset
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"the response has no offset of {topic}-{partition}"
        )

    return await client.retry(f"listing offsets of {topic}-{partition}", attempt)
