"""Requests that the active controller answers, on the controller listener.

CreateTopics, DeleteTopics, CreatePartitions, AlterConfigs, IncrementalAlterConfigs,
AlterPartitionReassignments, ListPartitionReassignments, ElectLeaders, UpdateFeatures,
BrokerRegistration, BrokerHeartbeat, AllocateProducerIds, ControllerRegistration,
AssignReplicasToDirs, AlterPartition, UnregisterBroker, AlterUserScramCredentials and
AlterClientQuotas: clients and brokers send the same messages, and the controller decides each of
them (`cluster.controller`).
"""

from typing import TYPE_CHECKING

from barnabas.cluster.controller.controller_requests import ControllerRequest
from barnabas.protocol.messages_base import Message
from barnabas.server.api.context import RequestContext

if TYPE_CHECKING:
    from barnabas.server.quorum.quorum import Quorum


async def answer_operation(ctx: "RequestContext[Quorum]", request: ControllerRequest) -> Message:
    """Have the controller decide the request; respond once the change is committed."""
    return await ctx.services.handle(request, ctx.version)
