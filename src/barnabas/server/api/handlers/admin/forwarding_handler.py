"""Requests that a broker forwards to the active controller.

CreateTopics, DeleteTopics, CreatePartitions, AlterPartitionReassignments,
ListPartitionReassignments, ElectLeaders, UpdateFeatures, UnregisterBroker, DescribeQuorum,
AddRaftVoter, RemoveRaftVoter, AlterUserScramCredentials and AlterClientQuotas. A change is
committed before its response arrives.
"""

from typing import TypeVar

from barnabas.protocol.apis import API
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.add_raft_voter import AddRaftVoterRequest
from barnabas.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from barnabas.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
)
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest
from barnabas.protocol.messages.describe_quorum import DescribeQuorumRequest
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from barnabas.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from barnabas.protocol.messages.unregister_broker import UnregisterBrokerRequest
from barnabas.protocol.messages.update_features import UpdateFeaturesRequest
from barnabas.protocol.messages_base import Message
from barnabas.server.api.handler_services import AdminContext

ResponseT = TypeVar("ResponseT", bound=Message)

ForwardedRequest = (
    CreateTopicsRequest
    | DeleteTopicsRequest
    | CreatePartitionsRequest
    | ElectLeadersRequest
    | AlterPartitionReassignmentsRequest
    | ListPartitionReassignmentsRequest
    | UpdateFeaturesRequest
    | UnregisterBrokerRequest
    | DescribeQuorumRequest
    | AddRaftVoterRequest
    | RemoveRaftVoterRequest
    | AlterUserScramCredentialsRequest
    | AlterClientQuotasRequest
)


async def forward(ctx: AdminContext, request: ForwardedRequest) -> Message | None:
    """Send the request to the controller, in the client's version and on the client's behalf."""
    return await send_on_behalf(ctx, request, API[ctx.api_key].response_type)


async def send_on_behalf(
    ctx: AdminContext, request: Message, response_type: type[ResponseT]
) -> ResponseT | None:
    """Send a client's request to the controller; return the response.

    When the controller does not serve the client's version, close the client's connection and
    return None: the client then reads the supported versions again.
    """
    try:
        response = await ctx.services.channel.send(request, response_type, on_behalf_of=ctx)
    except KafkaError as error:
        if error.code is not ErrorCode.UNSUPPORTED_VERSION:
            raise
        ctx.connection.close()
        return None
    # A quota of the controller holds the client back, too.
    ctx.throttle_ms = max(ctx.throttle_ms, getattr(response, "throttle_time_ms", 0))
    return response
