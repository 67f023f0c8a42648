"""AlterUserScramCredentials: change SCRAM credentials."""

from __future__ import annotations

from barnabas.protocol.fields import array, binary, int8, int16, int32, string
from barnabas.protocol.messages_base import Message, Struct


class AlterUserScramCredentialsRequest(Message, api="AlterUserScramCredentials"):
    """Credentials to delete, and salted credentials to set."""

    class ScramCredentialDeletion(Struct):
        name: str = string()
        mechanism: int = int8()

    class ScramCredentialUpsertion(Struct):
        name: str = string()
        mechanism: int = int8()
        iterations: int = int32()
        salt: bytes = binary(secret=True)
        salted_password: bytes = binary(secret=True)

    deletions: list[AlterUserScramCredentialsRequest.ScramCredentialDeletion] = array(
        "ScramCredentialDeletion"
    )
    upsertions: list[AlterUserScramCredentialsRequest.ScramCredentialUpsertion] = array(
        "ScramCredentialUpsertion"
    )


class AlterUserScramCredentialsResponse(Message, api="AlterUserScramCredentials"):
    """The result of each user: whether the change was accepted."""

    class AlterUserScramCredentialsResult(Struct):
        user: str = string()
        error_code: int = int16()
        error_message: str | None = string(nullable=True)

    throttle_time_ms: int = int32()
    results: list[AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult] = array(
        "AlterUserScramCredentialsResult"
    )
