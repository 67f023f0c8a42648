"""DescribeUserScramCredentials v0: the mechanisms and iterations of users, never the keys."""

from collections import Counter

from barnabas.cluster.metadata.image import MetadataImage
from barnabas.cluster.metadata.scram_credentials import credentials_of_user
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from barnabas.server.api.handler_services import SecurityContext

CredentialInfo = DescribeUserScramCredentialsResponse.CredentialInfo
Result = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult


def describe_user_scram_credentials(
    ctx: SecurityContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Return the credentials of the users that the request names, of all when it names none."""
    image = ctx.services.image()
    counts = Counter(user.name for user in request.users or ())
    if not counts:
        counts = Counter({user for user, _ in image.scram})
    return DescribeUserScramCredentialsResponse(
        error_message="",
        results=[_result(image, user, count) for user, count in sorted(counts.items())],
    )


def _result(image: MetadataImage, user: str, count: int) -> Result:
    if count > 1:
        return Result(
            user=user,
            error_code=ErrorCode.DUPLICATE_RESOURCE,
            error_message="Cannot describe SCRAM credentials for the same user twice in a single "
            f"request: {user}",
        )
    infos = [
        CredentialInfo(mechanism=mechanism_code, iterations=credential.iterations)
        for mechanism_code, credential in credentials_of_user(image.scram, user)
    ]
    if infos:
        return Result(user=user, error_message="", credential_infos=infos)
    return Result(
        user=user,
        error_code=ErrorCode.RESOURCE_NOT_FOUND,
        error_message=f"Attempt to describe a user credential that does not exist: {user}",
    )
