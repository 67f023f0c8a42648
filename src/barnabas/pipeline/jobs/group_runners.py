"""The runners of a group, as its coordinator describes them."""

from typing import Final

from barnabas.client import KafkaClient
from barnabas.pipeline.jobs.core.activity_protocol import GroupRunner, runner_of
from barnabas.protocol.errors import KafkaError, error_code
from barnabas.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

_LANE: Final = "runners"


async def runners_of(client: KafkaClient, group_id: str) -> list[GroupRunner]:
    """Return the runners of a group, without those that join now. Raises KafkaError, ClientError.

    One that was killed is among them until its session is over.
    """

    def check(answer: DescribeGroupsResponse) -> list[GroupRunner]:
        (found,) = answer.groups
        if found.error_code:
            raise KafkaError(error_code(found.error_code))
        return [
            runner_of(each.member_metadata, each.member_assignment)
            for each in found.members
            if each.member_metadata
        ]

    request = DescribeGroupsRequest(groups=[group_id])
    return await client.ask_coordinator(group_id, _LANE, request, DescribeGroupsResponse, check)
