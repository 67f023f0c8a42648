"""DescribeUserScramCredentials v0: no user has SCRAM credentials."""

from collections import Counter

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from barnabas.server.api.context import AnyContext

Result = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult


def describe_user_scram_credentials(
    _context: AnyContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Return an error for each user that the request names."""
    counts = Counter(user.name for user in request.users or ())
    return DescribeUserScramCredentialsResponse(
        error_message="", results=[_result(*each) for each in sorted(counts.items())]
    )


def _result(name: str, count: int) -> Result:
    code = ErrorCode.RESOURCE_NOT_FOUND
    message = f"Attempt to describe a user credential that does not exist: {name}"
    if count > 1:
        code = ErrorCode.DUPLICATE_RESOURCE
        message = (
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        )
    return Result(user=name, error_code=code, error_message=message)
