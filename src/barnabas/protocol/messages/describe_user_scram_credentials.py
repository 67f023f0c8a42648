"""DescribeUserScramCredentials: list users with SCRAM credentials."""

from __future__ import annotations

from barnabas.protocol.fields import array, int8, int16, int32, string
from barnabas.protocol.messages_base import Message, Struct


class DescribeUserScramCredentialsRequest(Message, api="DescribeUserScramCredentials"):
    """The users; null for all."""

    class UserName(Struct):
        name: str = string()

    users: list[DescribeUserScramCredentialsRequest.UserName] | None = array(
        "UserName", nullable=True
    )


class DescribeUserScramCredentialsResponse(Message, api="DescribeUserScramCredentials"):
    """Each user's mechanisms and iterations, never the secrets."""

    class CredentialInfo(Struct):
        mechanism: int = int8()
        iterations: int = int32()

    class DescribeUserScramCredentialsResult(Struct):
        user: str = string()
        error_code: int = int16()
        error_message: str | None = string(nullable=True)
        credential_infos: list[DescribeUserScramCredentialsResponse.CredentialInfo] = array(
            "CredentialInfo"
        )

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    results: list[DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult] = array(
        "DescribeUserScramCredentialsResult"
    )
