"""Guards of DescribeClientQuotas and AlterClientQuotas."""

from barnabas.cluster.metadata.acls import AclOperation
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)
from barnabas.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from barnabas.server.api.context import AnyContext
from barnabas.server.api.guards.guarded_answers import Answer
from barnabas.server.api.permissions import MESSAGES, may_on_cluster
from barnabas.server.api.registry import Handler

_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def describe_client_quotas(
    ctx: AnyContext, request: DescribeClientQuotasRequest, handler: Handler
) -> Answer:
    """DESCRIBE_CONFIGS on the cluster."""
    if may_on_cluster(ctx, AclOperation.DESCRIBE_CONFIGS):
        return handler(ctx, request)
    return DescribeClientQuotasResponse(error_code=_DENIED, error_message=None, entries=None)


def alter_client_quotas(
    ctx: AnyContext, request: AlterClientQuotasRequest, handler: Handler
) -> Answer:
    """ALTER_CONFIGS on the cluster; the refusal names the entities."""
    if may_on_cluster(ctx, AclOperation.ALTER_CONFIGS):
        return handler(ctx, request)
    answer = AlterClientQuotasResponse
    return AlterClientQuotasResponse(
        entries=[
            answer.EntryData(
                error_code=_DENIED,
                error_message=MESSAGES[_DENIED],
                entity=[
                    answer.EntityData(entity_type=each.entity_type, entity_name=each.entity_name)
                    for each in entry.entity
                ],
            )
            for entry in request.entries
        ]
    )
