"""Requests that a broker forwards to the active controller.

CreateTopics, DeleteTopics, CreatePartitions, AlterPartitionReassignments,
ListPartitionReassignments, ElectLeaders, UpdateFeatures and DescribeQuorum. A change is committed
before its response arrives.
"""

from barnabas.protocol.apis import API
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest
from barnabas.protocol.messages.describe_quorum import DescribeQuorumRequest
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from barnabas.protocol.messages.update_features import UpdateFeaturesRequest
from barnabas.protocol.messages_base import Message
from barnabas.server.api.handler_services import AdminContext

ForwardedRequest = (
    CreateTopicsRequest
    | DeleteTopicsRequest
    | CreatePartitionsRequest
    | ElectLeadersRequest
    | AlterPartitionReassignmentsRequest
    | ListPartitionReassignmentsRequest
    | UpdateFeaturesRequest
    | DescribeQuorumRequest
)


async def forward(ctx: AdminContext, request: ForwardedRequest) -> Message:
    """Send the request to the controller, in the client's version and on the client's behalf."""
    return await ctx.services.channel.send(
        request,
        API[ctx.api_key].response_type,
        version=ctx.version,
        on_behalf_of=ctx.connection,
    )
