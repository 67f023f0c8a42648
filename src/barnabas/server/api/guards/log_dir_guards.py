"""The guard of DescribeLogDirs."""

from barnabas.cluster.metadata.acls import AclOperation
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from barnabas.server.api.context import AnyContext
from barnabas.server.api.guards.guarded_answers import Answer
from barnabas.server.api.permissions import may_on_cluster
from barnabas.server.api.registry import Handler

_ERROR_CODE_VERSION = 3


def describe_log_dirs(ctx: AnyContext, request: DescribeLogDirsRequest, handler: Handler) -> Answer:
    """DESCRIBE on the cluster; early versions, which have no code for it, get no directories."""
    if may_on_cluster(ctx, AclOperation.DESCRIBE):
        return handler(ctx, request)
    if ctx.version < _ERROR_CODE_VERSION:
        return DescribeLogDirsResponse()
    return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
