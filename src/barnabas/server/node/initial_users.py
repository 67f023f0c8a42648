"""Users and ACLs that a node, or the parent of a group, adds to a new cluster by itself."""

import secrets
from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

import attrs

from barnabas.cluster.metadata.acls import (
    WILDCARD,
    Acl,
    AclFilter,
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
from barnabas.protocol.messages.create_acls import CreateAclsResponse
from barnabas.protocol.messages.describe_acls import DescribeAclsResponse
from barnabas.protocol.messages_base import Message
from barnabas.security.acl_requests import create_request, describe_request, described_acls
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
        _check(user.name, result.error_code, result.error_message)
    await _add_acls(send, user.name, _acls(user.name, user.grants))


async def add_missing_grants(send: Send, name: str, grants: Sequence[Grant]) -> list[Acl]:
    """Add the ACLs that an existing user lacks, and return them.

    Raises StartupError when the ACLs cannot be read or added.
    """
    answer = await send(describe_request(AclFilter(principal=f"User:{name}")), DescribeAclsResponse)
    _check(name, answer.error_code, answer.error_message)
    existing = set(described_acls(answer))
    missing = [acl for acl in _acls(name, grants) if acl not in existing]
    await _add_acls(send, name, missing)
    return missing


def _acls(name: str, grants: Sequence[Grant]) -> list[Acl]:
    return [
        Acl(
            grant.kind,
            grant.name,
            grant.pattern,
            f"User:{name}",
            WILDCARD,
            operation,
            AclPermission.ALLOW,
        )
        for grant in grants
        for operation in grant.operations
    ]


async def _add_acls(send: Send, name: str, acls: Sequence[Acl]) -> None:
    if not acls:
        return
    answer = await send(create_request(acls), CreateAclsResponse)
    for each in answer.results:
        _check(name, each.error_code, each.error_message)


def _check(name: str, code: int, message: str | None) -> None:
    if code:
        raise StartupError(f"cannot add the user {name}: {message} (error code {code})")
