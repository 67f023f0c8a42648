"""The authorizer's interface: a principal, an operation and a resource, under Kafka's codes."""

from enum import IntEnum
from typing import Final, Protocol

import attrs

from barnabas.security.principals import Principal


class AclOperation(IntEnum):
    """An operation on a resource (`org.apache.kafka.common.acl.AclOperation`)."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(IntEnum):
    """A kind of resource (`org.apache.kafka.common.resource.ResourceType`)."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


@attrs.frozen
class Resource:
    """One resource by its type and literal name."""

    type: ResourceType
    name: str


CLUSTER: Final = Resource(ResourceType.CLUSTER, "kafka-cluster")
"""The only resource of the type CLUSTER."""


class Authorizer(Protocol):
    """Decides what a principal may do."""

    def authorize(
        self, principal: Principal, host: str, operation: AclOperation, resource: Resource, /
    ) -> bool:
        """Return True when the principal may do the operation from this host."""
        ...


class AllowAll:
    """The authorizer of a node without `authorizer.class.name`: it allows each operation."""

    def authorize(
        self, _principal: Principal, _host: str, _operation: AclOperation, _resource: Resource, /
    ) -> bool:
        """Return True."""
        return True
