"""The guard of DescribeUserScramCredentials."""

from barnabas.cluster.metadata.acls import AclOperation
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from barnabas.server.api.context import AnyContext
from barnabas.server.api.guards.guarded_answers import Answer
from barnabas.server.api.permissions import may_on_cluster
from barnabas.server.api.registry import Handler

_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def describe_user_scram_credentials(
    ctx: AnyContext, request: DescribeUserScramCredentialsRequest, handler: Handler
) -> Answer:
    """DESCRIBE on the cluster; the refusal has a result for each user, without its name."""
    if may_on_cluster(ctx, AclOperation.DESCRIBE):
        return handler(ctx, request)
    result = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult
    return DescribeUserScramCredentialsResponse(
        error_code=_DENIED,
        error_message=None,
        results=[result(error_code=_DENIED, error_message=None) for _ in request.users or ()],
    )
