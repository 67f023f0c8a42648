"""Requests of the driver to one cluster: topics, ends of partitions, properties."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

import attrs
import trio

from barnabas.client import ClientError, ConnectionFailureError, KafkaClient
from barnabas.client.admin_calls import LATEST, TOPIC_RESOURCE
from barnabas.client.broker_connection import BrokerConnection
from barnabas.client.failures import raise_for
from barnabas.pipeline.mirror.flow_values import Partition
from barnabas.protocol.errors import ErrorCode, KafkaError, error_code
from barnabas.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from barnabas.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from barnabas.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from barnabas.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from barnabas.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from barnabas.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)

_LANE: Final = "mirror plan"
_READ_COMMITTED: Final = 1
_NO_EPOCH: Final = -1
_CONSUMER: Final = "consumer"
_DYNAMIC_TOPIC: Final = 1
_SET: Final = 0
_DELETE: Final = 1
_TIMEOUT_MS: Final = 30_000
_ATTEMPTS: Final = 20
_CONSUMER_ID: Final = -1
_EPOCHS_OF_CONSUMERS: Final = 3
"""The oldest version of OffsetForLeaderEpoch that a client may send; brokers since 2.3."""

T = TypeVar("T")


class EpochEnd(NamedTuple):
    """The largest leader epoch of a log that is not above the requested one, and its end."""

    leader_epoch: int
    offset: int


@attrs.frozen
class Topic:
    """A topic as a cluster has it now."""

    name: str
    topic_id: str
    partitions: int
    is_internal: bool = False

    @property
    def pairs(self) -> list[Partition]:
        """Return all its partitions."""
        return [(self.name, number) for number in range(self.partitions)]


async def topics(client: KafkaClient, names: Collection[str] | None = None) -> dict[str, Topic]:
    """Return the topics that exist, of the given names or all. Raises KafkaError, ClientError."""

    async def attempt() -> dict[str, Topic]:
        wanted = None
        if names is not None:
            wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        response = await client.ask_any(request, MetadataResponse)
        client.metadata.update(response)
        return _existing_topics(response)

    return await client.retry("describing topics", attempt)


def _existing_topics(response: MetadataResponse) -> dict[str, Topic]:
    found: dict[str, Topic] = {}
    for topic in response.topics:
        code = error_code(topic.error_code)
        if topic.name is None or code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            continue
        raise_for(topic.error_code, f"topic {topic.name}")
        found[topic.name] = Topic(
            topic.name, str(topic.topic_id), len(topic.partitions), topic.is_internal
        )
    return found


async def offsets(
    client: KafkaClient,
    pairs: Iterable[Partition],
    which: int,
    *,
    read_committed: bool = False,
    may_be_deleted: bool = False,
) -> dict[Partition, int]:
    """Return the offset EARLIEST or LATEST of partitions. Raises KafkaError, ClientError.

    With `may_be_deleted` partitions are missing whose topics do not exist.
    """

    async def ask(node_id: int, mine: list[Partition]) -> dict[Partition, int]:
        return await _list(
            client, node_id, _list_request(mine, which, read_committed=read_committed)
        )

    return await _from_leaders(client, "listing offsets", pairs, ask, may_be_deleted=may_be_deleted)


async def await_leader_epochs(client: KafkaClient, epochs: Mapping[Partition, int]) -> None:
    """Return when each leader has at least this leader epoch. Raises KafkaError, ClientError."""

    async def ask(node_id: int, mine: list[Partition]) -> dict[Partition, int]:
        request = _list_request(mine, LATEST, read_committed=False, epochs=epochs)
        return await _list(client, node_id, request, done=ErrorCode.FENCED_LEADER_EPOCH)

    await _from_leaders(client, "waiting for leaders", epochs, ask)


async def epoch_ends(
    client: KafkaClient, epochs: Mapping[Partition, int]
) -> dict[Partition, EpochEnd]:
    """Return where leader epochs end in the logs of their leaders.

    A partition is missing when its log has no epoch that the requested one can be compared with,
    and with brokers older than 2.3. Raises KafkaError, ClientError.
    """

    async def ask(node_id: int, mine: list[Partition]) -> dict[Partition, EpochEnd]:
        return await _ends_of_epochs(client, node_id, {where: epochs[where] for where in mine})

    found = await _from_leaders(client, "comparing leader epochs", epochs, ask)
    return {where: end for where, end in found.items() if end.leader_epoch >= 0 <= end.offset}


async def _from_leaders(
    client: KafkaClient,
    what: str,
    pairs: Iterable[Partition],
    ask: Callable[[int, list[Partition]], Awaitable[dict[Partition, T]]],
    *,
    may_be_deleted: bool = False,
) -> dict[Partition, T]:
    """Return what the leaders answer for their partitions: one request for each leader.

    Partitions whose leader changes meanwhile are requested again. Raises KafkaError, ClientError.
    """
    wanted, found = set(pairs), dict[Partition, T]()
    last: Exception | None = None
    for failures in range(_ATTEMPTS):
        if failures:
            await client.back_off(what, failures, last)
            if may_be_deleted:
                wanted = await _existing(client, wanted)
        by_leader: defaultdict[int, list[Partition]] = defaultdict(list)
        try:
            for where in wanted - found.keys():
                by_leader[(await client.leader(*where)).node_id].append(where)
            for node_id, mine in by_leader.items():
                found |= await ask(node_id, mine)
        except (KafkaError, ClientError) as error:
            _forget(client, wanted - found.keys())
            if isinstance(error, KafkaError) and not error.code.retriable:
                raise
            last = error
        if wanted <= found.keys():
            return found
    raise last or KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "partitions have no leaders")


async def _existing(client: KafkaClient, pairs: Collection[Partition]) -> set[Partition]:
    """Return the partitions whose topics exist."""
    existing = await topics(client, {topic for topic, _ in pairs})
    return {where for where in pairs if where[0] in existing}


def _forget(client: KafkaClient, pairs: Iterable[Partition]) -> None:
    for where in pairs:
        client.metadata.forget_leader(*where)


def _list_request(
    pairs: Iterable[Partition],
    which: int,
    *,
    read_committed: bool,
    epochs: Mapping[Partition, int] | None = None,
) -> ListOffsetsRequest:
    """Return a request; with `epochs`, leaders that have other leader epochs refuse it."""
    grouped: defaultdict[str, list[ListOffsetsRequest.ListOffsetsPartition]] = defaultdict(list)
    for topic, partition in pairs:
        grouped[topic].append(
            ListOffsetsRequest.ListOffsetsPartition(
                partition_index=partition,
                current_leader_epoch=(epochs or {}).get((topic, partition), _NO_EPOCH),
                timestamp=which,
            )
        )
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=_READ_COMMITTED if read_committed else 0,
        topics=[
            ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=partitions)
            for name, partitions in grouped.items()
        ],
    )


async def _list(
    client: KafkaClient,
    node_id: int,
    request: ListOffsetsRequest,
    done: ErrorCode = ErrorCode.NONE,
) -> dict[Partition, int]:
    """Return what one leader answers; without the partitions that it does not lead.

    The error `done` is taken for an answer.
    """
    connection = await client.pool.connection(client.metadata.brokers[node_id], _LANE)
    response = await connection.ask(request, ListOffsetsResponse)
    found: dict[Partition, int] = {}
    for topic in response.topics:
        for each in topic.partitions:
            code = error_code(each.error_code)
            if code.retriable and code is not done:
                client.metadata.forget_leader(topic.name, each.partition_index)
                continue
            if code is not done:
                raise_for(each.error_code, f"{topic.name}-{each.partition_index}")
            found[topic.name, each.partition_index] = each.offset
    return found


async def _ends_of_epochs(
    client: KafkaClient, node_id: int, epochs: Mapping[Partition, int]
) -> dict[Partition, EpochEnd]:
    """Return what one leader answers; without the partitions that it does not lead."""
    connection = await client.pool.connection(client.metadata.brokers[node_id], _LANE)
    if connection.versions.choose(OffsetForLeaderEpochRequest.API_KEY) < _EPOCHS_OF_CONSUMERS:
        return dict.fromkeys(epochs, EpochEnd(_NO_EPOCH, -1))
    grouped: defaultdict[str, list[OffsetForLeaderEpochRequest.OffsetForLeaderPartition]]
    grouped = defaultdict(list)
    for (topic, partition), epoch in epochs.items():
        leader = client.metadata.leader(topic, partition)
        grouped[topic].append(
            OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
                partition=partition,
                current_leader_epoch=_NO_EPOCH if leader is None else leader.epoch,
                leader_epoch=epoch,
            )
        )
    topic_kind = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    request = OffsetForLeaderEpochRequest(
        replica_id=_CONSUMER_ID,
        topics=[topic_kind(topic=name, partitions=each) for name, each in grouped.items()],
    )
    response = await connection.ask(request, OffsetForLeaderEpochResponse)
    found: dict[Partition, EpochEnd] = {}
    for topic in response.topics:
        for each in topic.partitions:
            if error_code(each.error_code).retriable:
                client.metadata.forget_leader(topic.topic, each.partition)
                continue
            raise_for(each.error_code, f"{topic.topic}-{each.partition}")
            found[topic.topic, each.partition] = EpochEnd(each.leader_epoch, each.end_offset)
    return found


async def _reachable(client: KafkaClient) -> list[BrokerConnection]:
    """Return a connection to each broker; a broker that has failed is left out for a while.

    Raises ConnectionFailureError when no broker can be reached.
    """
    failure: ConnectionFailureError | None = None
    found: list[BrokerConnection] = []
    for address in list(client.metadata.brokers.values()):
        try:
            found.append(await client.pool.connection(address, _LANE))
        except ConnectionFailureError as error:
            failure = error
    if failure is not None and not found:
        raise failure
    return found


async def partition_sizes(client: KafkaClient, pairs: Iterable[Partition]) -> dict[Partition, int]:
    """Return the size in bytes of the largest replica of partitions.

    Raises KafkaError, ClientError.
    """
    grouped: defaultdict[str, list[int]] = defaultdict(list)
    for topic, partition in pairs:
        grouped[topic].append(partition)
    topic_kind = DescribeLogDirsRequest.DescribableLogDirTopic
    wanted = [topic_kind(topic=name, partitions=numbers) for name, numbers in grouped.items()]

    async def attempt() -> dict[Partition, int]:
        found: defaultdict[Partition, int] = defaultdict(int)
        for connection in await _reachable(client):
            response = await connection.ask(
                DescribeLogDirsRequest(topics=wanted), DescribeLogDirsResponse
            )
            raise_for(response.error_code, "describing log directories")
            for directory in response.results:
                for topic in directory.topics:
                    for each in topic.partitions:
                        where = topic.name, each.partition_index
                        found[where] = max(found[where], each.partition_size)
        return dict(found)

    return await client.retry("describing log directories", attempt)


async def groups(client: KafkaClient) -> list[str]:
    """Return the names of all groups with offsets of consumers. Raises KafkaError, ClientError.

    A broker that loads the groups of a partition refuses with COORDINATOR_LOAD_IN_PROGRESS.
    """

    async def attempt() -> set[str]:
        found: set[str] = set()
        for connection in await _reachable(client):
            response = await connection.ask(ListGroupsRequest(), ListGroupsResponse)
            raise_for(response.error_code, "listing groups")
            kinds = ("", _CONSUMER)
            found |= {each.group_id for each in response.groups if each.protocol_type in kinds}
        return found

    return sorted(await client.retry("listing groups", attempt))


async def topic_configs(client: KafkaClient, names: Collection[str]) -> dict[str, dict[str, str]]:
    """Return the properties that were set for each topic. Raises KafkaError, ClientError."""
    if not names:
        return {}
    resources = [
        DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=None
        )
        for name in names
    ]

    async def attempt() -> dict[str, dict[str, str]]:
        request = DescribeConfigsRequest(resources=resources)
        response = await client.ask_any(request, DescribeConfigsResponse)
        found: dict[str, dict[str, str]] = {}
        for result in response.results:
            raise_for(result.error_code, f"topic {result.resource_name}")
            found[result.resource_name] = {
                each.name: each.value
                for each in result.configs
                if each.config_source == _DYNAMIC_TOPIC and each.value is not None
            }
        return found

    return await client.retry("describing properties of topics", attempt)


async def alter_configs(client: KafkaClient, topic: str, changes: Mapping[str, str | None]) -> None:
    """Set properties of a topic; None removes one. Raises KafkaError, ClientError."""
    configs = [
        IncrementalAlterConfigsRequest.AlterableConfig(
            name=name, config_operation=_DELETE if value is None else _SET, value=value
        )
        for name, value in changes.items()
    ]
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=topic, configs=configs
    )

    async def attempt() -> None:
        request = IncrementalAlterConfigsRequest(resources=[resource])
        response = await client.ask_controller(request, IncrementalAlterConfigsResponse)
        for result in response.responses:
            raise_for(result.error_code, result.error_message, about=topic)

    await client.retry(f"changing properties of topic {topic}", attempt)


async def add_partitions(client: KafkaClient, topic: str, count: int) -> None:
    """Add partitions to a topic, up to `count` in all. Raises KafkaError, ClientError."""
    wanted = CreatePartitionsRequest.CreatePartitionsTopic(
        name=topic, count=count, assignments=None
    )

    async def attempt() -> None:
        request = CreatePartitionsRequest(topics=[wanted], timeout_ms=_TIMEOUT_MS)
        response = await client.ask_controller(request, CreatePartitionsResponse)
        for result in response.results:
            raise_for(result.error_code, result.error_message, about=topic)

    await client.retry(f"adding partitions to topic {topic}", attempt)


async def delete_records(client: KafkaClient, starts: Mapping[Partition, int]) -> None:
    """Have logs start at these offsets. Raises KafkaError, ClientError."""
    async with trio.open_nursery() as nursery:
        for where, offset in starts.items():
            nursery.start_soon(_delete_before, client, where, offset)


async def _delete_before(client: KafkaClient, where: Partition, offset: int) -> None:
    topic, partition = where
    wanted = DeleteRecordsRequest.DeleteRecordsTopic(
        name=topic,
        partitions=[
            DeleteRecordsRequest.DeleteRecordsPartition(partition_index=partition, offset=offset)
        ],
    )
    request = DeleteRecordsRequest(topics=[wanted], timeout_ms=_TIMEOUT_MS)

    async def attempt() -> None:
        response = await client.ask_leader(
            topic, partition, lambda leader: request, DeleteRecordsResponse, lane=_LANE
        )
        for found in response.topics:
            for each in found.partitions:
                client.check_partition(each.error_code, topic, partition)

    await client.retry(f"deleting records of {topic}-{partition}", attempt)
