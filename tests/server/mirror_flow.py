"""A flow, as a plain client: it sends batches of a source to a mirror topic."""

from collections.abc import Sequence
from typing import Any

from barnabas.config.mirror_topics import SOURCE
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.delete_records import DeleteRecordsRequest
from barnabas.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.testing.mirrored import as_sent
from compat_tests.wire import CLIENT_ID, call

FLOW = CLIENT_ID
"""The name of the flow: without an authorizer, its client id."""

SET, DELETE = 0, 1
TOPIC = 2
LATEST, EARLIEST = -1, -2


def create_mirror(
    bootstrap: str, topic: str = "m", *, replicas: int = 1, flow: str = FLOW, **configs: str
) -> int:
    """Create a mirror topic with one partition; return the error code."""
    named = {SOURCE: flow, **{key.replace("_", "."): value for key, value in configs.items()}}
    asked = CreateTopicsRequest.CreatableTopic(
        name=topic,
        num_partitions=1,
        replication_factor=replicas,
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name=name, value=value)
            for name, value in named.items()
        ],
    )
    request = CreateTopicsRequest(topics=[asked], timeout_ms=30_000)
    return call(bootstrap, request, 7).topics[0].error_code


def produce(bootstrap: str, records: bytes | bytearray, topic: str = "m", **fields: Any) -> Any:
    """Send a Produce with acks=all; return the partition's answer."""
    data = ProduceRequest.PartitionProduceData(index=0, records=records)
    request = ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[data])],
        **fields,
    )
    return call(bootstrap, request, 9).responses[0].partition_responses[0]


def copy(bootstrap: str, batches: Sequence[bytes], position: int, topic: str = "m") -> Any:
    """Send batches that the source has from `position` on; return the partition's answer."""
    return produce(bootstrap, as_sent(batches, position), topic)


def start_at(bootstrap: str, offset: int, topic: str = "m") -> tuple[int, int]:
    """Delete the records below an offset; return the error code and the low watermark."""
    asked = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsRequest.DeleteRecordsTopic(name=topic, partitions=[asked])],
        timeout_ms=30_000,
    )
    answer = call(bootstrap, request, 2).topics[0].partitions[0]
    return answer.error_code, answer.low_watermark


def alter(
    bootstrap: str, name: str, value: str | None, operation: int = SET, topic: str = "m"
) -> tuple[int, str | None]:
    """Change one property of a topic; return the error code and message."""
    config = IncrementalAlterConfigsRequest.AlterableConfig(
        name=name, value=value, config_operation=operation
    )
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=TOPIC, resource_name=topic, configs=[config]
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    answer = call(bootstrap, request, 1).responses[0]
    return answer.error_code, answer.error_message


def promote(bootstrap: str, topic: str = "m") -> None:
    """Promote a mirror as any Kafka tool can."""
    assert alter(bootstrap, SOURCE, None, DELETE, topic) == (0, None)


def offset(bootstrap: str, which: int, topic: str = "m", isolation: int = 0) -> int:
    """Return an offset of the partition, from its leader."""
    asked = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=which)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[asked])],
    )
    answer = call(bootstrap, request, 7).topics[0].partitions[0]
    assert answer.error_code == 0
    return answer.offset
