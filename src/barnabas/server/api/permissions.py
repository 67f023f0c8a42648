"""The permissions of a request's sender, by the node's authorizer.

Only guards and handlers of a node with an authorizer call these functions: `Route.authorizer` is
None on any other node, where every client may do everything.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from barnabas.cluster.metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.security.standard_authorizer import StandardAuthorizer, bits_of
from barnabas.server.api.context import AnyContext

ItemT = TypeVar("ItemT")

# org.apache.kafka.security.authorizer.AclEntry#supportedOperations
_OPERATIONS: Final = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DESCRIBE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DESCRIBE,
        AclOperation.DELETE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
    ),
}

# Apis whose refusal has the message of the code; the others name the operation.
_WITHOUT_OPERATION: Final = (
    "AddRaftVoter",
    "ControllerRegistration",
    "DescribeQuorum",
    "FindCoordinator",
    "RemoveRaftVoter",
)
# Kafka's messages of the codes.
MESSAGES: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
}


def authorizer_of(ctx: AnyContext) -> StandardAuthorizer:
    """Return the node's authorizer. Raises RuntimeError when it has none."""
    authorizer = ctx.route.authorizer
    if authorizer is None:
        raise RuntimeError("the node has no authorizer")
    return authorizer


def may(
    ctx: AnyContext,
    operation: AclOperation,
    kind: ResourceType,
    name: str,
    *,
    references: int = 1,
    log_allowed: bool = True,
    log_denied: bool = True,
) -> bool:
    """Return True when the sender may do the operation on a resource."""
    return authorizer_of(ctx).authorize(
        ctx.connection,
        operation,
        kind,
        name,
        request=ctx.route.name,
        references=references,
        log_allowed=log_allowed,
        log_denied=log_denied,
    )


def may_on_cluster(ctx: AnyContext, operation: AclOperation, *, log_denied: bool = True) -> bool:
    """Return True when the sender may do the operation on the cluster."""
    return may(ctx, operation, ResourceType.CLUSTER, CLUSTER_NAME, log_denied=log_denied)


def require_on_cluster(ctx: AnyContext, operation: AclOperation) -> None:
    """Raise KafkaError CLUSTER_AUTHORIZATION_FAILED unless the sender may do the operation."""
    if may_on_cluster(ctx, operation):
        return
    if ctx.route.name in _WITHOUT_OPERATION:
        raise refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    raise KafkaError(
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        f"Request {ctx.route.name} needs {operation} permission.",
    )


def require_group(ctx: AnyContext, operation: AclOperation, group_id: str) -> None:
    """Raise KafkaError GROUP_AUTHORIZATION_FAILED unless the sender may do the operation."""
    if not may(ctx, operation, ResourceType.GROUP, group_id):
        raise refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)


def require_transactional_id(
    ctx: AnyContext, operation: AclOperation, transactional_id: str
) -> None:
    """Raise KafkaError TRANSACTIONAL_ID_AUTHORIZATION_FAILED unless the sender may do it."""
    if not may(ctx, operation, ResourceType.TRANSACTIONAL_ID, transactional_id):
        raise refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def refused(code: ErrorCode) -> KafkaError:
    """Return the error with Kafka's message."""
    return KafkaError(code, MESSAGES[code])


def permitted(
    ctx: AnyContext,
    operation: AclOperation,
    kind: ResourceType,
    names: Iterable[str],
    *,
    log_denied: bool = True,
) -> set[str]:
    """Return the names on which the sender may do the operation; each is decided once."""
    return {
        name
        for name, count in Counter(names).items()
        if may(ctx, operation, kind, name, references=count, log_denied=log_denied)
    }


def parted(
    ctx: AnyContext,
    operation: AclOperation,
    kind: ResourceType,
    items: Iterable[ItemT],
    name_of: Callable[[ItemT], str],
) -> tuple[list[ItemT], list[ItemT]]:
    """Return the items on whose names the sender may do the operation, and the others."""
    listed = list(items)
    names = permitted(ctx, operation, kind, map(name_of, listed))
    return (
        [item for item in listed if name_of(item) in names],
        [item for item in listed if name_of(item) not in names],
    )


def operations_on(ctx: AnyContext, kind: ResourceType, name: str) -> int:
    """Return the operations that the sender may do on a resource, as a field of bits."""
    return bits_of(
        operation
        for operation in _OPERATIONS[kind]
        if may(ctx, operation, kind, name, log_allowed=False, log_denied=False)
    )


def operations_on_cluster(ctx: AnyContext) -> int:
    """Return the operations that the sender may do on the cluster; 0 without DESCRIBE."""
    if not may_on_cluster(ctx, AclOperation.DESCRIBE):
        return 0
    return operations_on(ctx, ResourceType.CLUSTER, CLUSTER_NAME)
