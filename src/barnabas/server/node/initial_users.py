"""Users and ACLs that a node, or the parent of a group, adds to a new cluster by itself."""

import secrets
from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

import attrs

from barnabas.cluster.metadata.acls import (
    WILDCARD,
    AclOperation,
    AclPattern,
    AclPermission,
    ResourceType,
)
from barnabas.cluster.metadata.scram_credentials import ITERATIONS_MIN, SCRAM_BY_NAME
from barnabas.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from barnabas.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from barnabas.protocol.messages_base import Message
from barnabas.server.node_failures import StartupError

ResponseT = TypeVar("ResponseT", bound=Message)

MECHANISM: Final = SCRAM_BY_NAME["SCRAM-SHA-512"]
_SALT_BYTES: Final = 32


@attrs.frozen
class Grant:
    """Operations on a resource, or on all resources whose names have a prefix."""

    kind: ResourceType
    name: str
    operations: tuple[AclOperation, ...]
    pattern: AclPattern = AclPattern.LITERAL


@attrs.frozen
class InitialUser:
    """A user to add, or whose password to replace, with what it may do."""

    name: str
    password: str = attrs.field(repr=False)
    grants: Sequence[Grant] = ()


class Send(Protocol):
    """Sends a request to the controller, as the node or as an administrator."""

    async def __call__(self, request: Message, response_type: type[ResponseT], /) -> ResponseT:
        """Return the response, which may contain error codes."""
        ...


async def add_user(send: Send, user: InitialUser) -> None:
    """Set the user's password and add its ACLs. Raises StartupError when one is refused."""
    salt = secrets.token_bytes(_SALT_BYTES)
    salted = MECHANISM.salted_password(user.password, salt, ITERATIONS_MIN)
    upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name=user.name,
        mechanism=MECHANISM.code,
        iterations=ITERATIONS_MIN,
        salt=salt,
        salted_password=salted,
    )
    answer = await send(
        AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion]),
        AlterUserScramCredentialsResponse,
    )
    for result in answer.results:
        _check(user, result.error_code, result.error_message)
    creations = [
        CreateAclsRequest.AclCreation(
            resource_type=grant.kind,
            resource_name=grant.name,
            resource_pattern_type=grant.pattern,
            principal=f"User:{user.name}",
            host=WILDCARD,
            operation=operation,
            permission_type=AclPermission.ALLOW,
        )
        for grant in user.grants
        for operation in grant.operations
    ]
    if creations:
        added = await send(CreateAclsRequest(creations=creations), CreateAclsResponse)
        for each in added.results:
            _check(user, each.error_code, each.error_message)


def _check(user: InitialUser, code: int, message: str | None) -> None:
    if code:
        raise StartupError(f"cannot add the user {user.name}: {message} (error code {code})")
