"""Requests that the active controller answers, on the controller listener.

CreateTopics, DeleteTopics, CreatePartitions, AlterConfigs, IncrementalAlterConfigs,
AlterPartitionReassignments, ListPartitionReassignments, ElectLeaders, UpdateFeatures,
BrokerRegistration, BrokerHeartbeat, AllocateProducerIds, ControllerRegistration,
AssignReplicasToDirs, AlterPartition, UnregisterBroker, AlterUserScramCredentials and
AlterClientQuotas: clients and brokers send the same messages, and the controller decides each of
them (`cluster.controller`).
"""

from typing import TYPE_CHECKING, Final

from barnabas.cluster.controller.controller_requests import ControllerRequest
from barnabas.protocol.messages_base import Message
from barnabas.server.api.context import RequestContext

if TYPE_CHECKING:
    from barnabas.server.quorum.quorum import Quorum


_CREATE_TOPICS: Final = 19
_DELETE_TOPICS: Final = 20
_CREATE_PARTITIONS: Final = 37
_STRICT_SINCE: Final = {_CREATE_TOPICS: 6, _DELETE_TOPICS: 5, _CREATE_PARTITIONS: 3}
"""The first versions whose clients know THROTTLING_QUOTA_EXCEEDED (KIP-599), by api key."""


async def answer_operation(ctx: "RequestContext[Quorum]", request: ControllerRequest) -> Message:
    """Have the controller decide the request; respond once the change is committed."""
    quota, strict_since = ctx.route.quotas.mutations, _STRICT_SINCE.get(ctx.api_key)
    if quota is None or strict_since is None:
        return await ctx.services.handle(request, ctx.version)
    mutations = quota.mutations(ctx, is_strict=ctx.version >= strict_since)
    if mutations is None:
        return await ctx.services.handle(request, ctx.version)
    response = await ctx.services.handle(request, ctx.version, mutations.charge)
    quota.finish(ctx, mutations)
    return response
