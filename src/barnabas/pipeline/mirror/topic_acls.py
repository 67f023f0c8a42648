"""ACLs of topics that the target shall have, and the requests to read and add them.

As with MirrorMaker 2: only ACLs of literal names, added and never removed. ALLOW rules of Write
are left out, and All becomes Read, so that no client may write to a copy.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from barnabas.client import KafkaClient
from barnabas.client.failures import raise_for
from barnabas.protocol.errors import ErrorCode, error_code
from barnabas.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

_TOPIC: Final = 2
_LITERAL: Final = 3
_ANY: Final = 1
_ALL: Final = 2
_READ: Final = 3
_WRITE: Final = 4
_ALLOW: Final = 3
_REASONS: Final = {
    ErrorCode.SECURITY_DISABLED: "the {side} has no authorizer",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: (
        "the flow's principal may not {verb} them at the {side}, which needs the right {right} on "
        "the cluster"
    ),
}


class TopicAcl(NamedTuple):
    """One rule for a topic, with Kafka's numbers."""

    topic: str
    principal: str
    host: str
    operation: int
    permission: int


class AclsNotCopiedError(Exception):
    """ACLs cannot be copied; the message says why."""


async def missing_acls(
    source: KafkaClient, target: KafkaClient, topics: Mapping[str, str]
) -> list[TopicAcl]:
    """Return the rules that the target lacks; `topics` are the names there, by those at the source.

    Raises AclsNotCopiedError, KafkaError, ClientError.
    """
    there = await topic_acls(source, "source")
    return acls_to_add(there, await topic_acls(target, "target"), topics)


def acls_to_add(
    source: Iterable[TopicAcl], target: Collection[TopicAcl], topics: Mapping[str, str]
) -> list[TopicAcl]:
    """Return the rules of the source's topics that the target lacks; see `missing_acls`."""
    wanted: set[TopicAcl] = set()
    for acl in source:
        is_allowed = acl.permission == _ALLOW
        if acl.topic not in topics or (is_allowed and acl.operation == _WRITE):
            continue
        is_everything = is_allowed and acl.operation == _ALL
        operation = _READ if is_everything else acl.operation
        wanted.add(acl._replace(topic=topics[acl.topic], operation=operation))
    return sorted(wanted.difference(target))


async def add_acls(client: KafkaClient, acls: Collection[TopicAcl]) -> None:
    """Add rules at the target. Raises AclsNotCopiedError, KafkaError, ClientError."""
    creations = [
        CreateAclsRequest.AclCreation(
            resource_type=_TOPIC,
            resource_name=acl.topic,
            resource_pattern_type=_LITERAL,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission,
        )
        for acl in acls
    ]

    async def attempt() -> None:
        request = CreateAclsRequest(creations=creations)
        response = await client.ask_controller(request, CreateAclsResponse)
        for result in response.results:
            _check(result.error_code, result.error_message, "target", "add", "Alter")

    await client.retry("adding ACLs", attempt)


async def topic_acls(client: KafkaClient, side: str) -> list[TopicAcl]:
    """Return all rules of literal topics of a cluster. Raises as `missing_acls`."""
    request = DescribeAclsRequest(
        resource_type_filter=_TOPIC,
        resource_name_filter=None,
        pattern_type_filter=_LITERAL,
        principal_filter=None,
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )

    async def attempt() -> DescribeAclsResponse:
        response = await client.ask_any(request, DescribeAclsResponse)
        _check(response.error_code, response.error_message, side, "read", "Describe")
        return response

    return [
        TopicAcl(
            resource.resource_name, acl.principal, acl.host, acl.operation, acl.permission_type
        )
        for resource in (await client.retry("describing ACLs", attempt)).resources
        for acl in resource.acls
    ]


def _check(number: int, message: str | None, side: str, verb: str, right: str) -> None:
    if reason := _REASONS.get(error_code(number)):
        raise AclsNotCopiedError(reason.format(side=side, verb=verb, right=right))
    raise_for(number, message)
