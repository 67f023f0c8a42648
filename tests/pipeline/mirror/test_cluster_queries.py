"""Requests of the driver to a broker that cannot answer them at once."""

from collections.abc import Awaitable, Callable

import pytest

from barnabas.client import KafkaClient
from barnabas.pipeline.mirror import cluster_queries
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.describe_configs import DescribeConfigsResponse
from barnabas.protocol.messages.describe_log_dirs import DescribeLogDirsResponse
from barnabas.protocol.messages.list_groups import ListGroupsResponse
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages_base import Message
from tests.client.harness import FakeBroker, metadata, with_fake_broker

Query = Callable[[KafkaClient], Awaitable[object]]


def _groups(code: int) -> Message:
    group = ListGroupsResponse.ListedGroup(group_id="g", protocol_type="consumer")
    return ListGroupsResponse(error_code=code, groups=[] if code else [group])


def _configs(code: int) -> Message:
    result = DescribeConfigsResponse.DescribeConfigsResult(
        error_code=code, resource_type=2, resource_name="t", configs=[]
    )
    return DescribeConfigsResponse(results=[result])


CASES: dict[str, tuple[Query, Callable[[int], Message], ErrorCode, object]] = {
    "groups": (
        cluster_queries.groups,
        _groups,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ["g"],
    ),
    "sizes": (
        lambda client: cluster_queries.partition_sizes(client, [("t", 0)]),
        lambda code: DescribeLogDirsResponse(error_code=code, results=[]),
        ErrorCode.NETWORK_EXCEPTION,
        {},
    ),
    "properties": (
        lambda client: cluster_queries.topic_configs(client, ["t"]),
        _configs,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        {"t": {}},
    ),
}


def _broker(codes: list[ErrorCode], answer: Callable[[int], Message]) -> FakeBroker:
    """Return a broker that answers the query with the codes, in turn."""
    left = iter(codes)

    def handle(request: Message, version: int) -> Message | None:
        del version
        if isinstance(request, ApiVersionsRequest):
            return None
        if isinstance(request, MetadataRequest):
            return metadata(broker)
        return answer(int(next(left)))

    broker = FakeBroker(handle)
    return broker


@pytest.mark.parametrize("name", CASES)
def test_a_retriable_error_in_a_response_is_retried(name: str) -> None:
    query, answer, code, expected = CASES[name]

    async def test(client: KafkaClient, broker: FakeBroker) -> None:
        del broker
        await client.refresh_metadata()
        assert await query(client) == expected

    with_fake_broker(_broker([code, code, ErrorCode.NONE], answer), test)


@pytest.mark.parametrize("name", CASES)
def test_another_error_is_raised_at_once(name: str) -> None:
    query, answer, _, _ = CASES[name]
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    async def test(client: KafkaClient, broker: FakeBroker) -> None:
        del broker
        await client.refresh_metadata()
        with pytest.raises(KafkaError) as caught:
            await query(client)
        assert caught.value.code is refused

    with_fake_broker(_broker([refused], answer), test)


def test_a_topic_without_a_leader_is_described_again() -> None:
    async def test(client: KafkaClient, broker: FakeBroker) -> None:
        codes = iter([ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NONE])

        def handle(request: Message, version: int) -> Message | None:
            del version
            if not isinstance(request, MetadataRequest):
                return None
            response = metadata(broker)
            response.topics[0].error_code = next(codes)
            return response

        broker.handler = handle
        found = await cluster_queries.topics(client, ["t"])
        assert found["t"].partitions == 1

    with_fake_broker(FakeBroker(lambda request, version: None), test)
