"""ACLs as values, the filters that select them, and all ACLs of a metadata image.

The codes and the rules of filters are those of `org.apache.kafka.common.acl` and
`org.apache.kafka.common.resource`.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Final, Self

import attrs

from barnabas.cluster.metadata.persistent_map import PersistentMap
from barnabas.protocol.records.metadata_records import AccessControlEntryRecord
from barnabas.protocol.types import Uuid

WILDCARD: Final = "*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The only name of a resource of the type CLUSTER."""


class _Code(IntEnum):
    """A code of the protocol; a code of a later version reads as UNKNOWN."""

    @classmethod
    def of(cls, code: int) -> Self:
        """Return the member with this code, or UNKNOWN."""
        found = cls._value2member_map_.get(code)
        return cls(0) if found is None else cls(code)

    def __str__(self) -> str:
        return self.name


class AclOperation(_Code):
    """An operation on a resource."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
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


class ResourceType(_Code):
    """A type of resource (`org.apache.kafka.common.resource.ResourceType`)."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclPattern(_Code):
    """The way a resource's name selects resources (`PatternType`)."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclPermission(_Code):
    """The outcome for a client that an ACL matches (`AclPermissionType`)."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


@attrs.frozen(slots=True, cache_hash=True)
class Acl:
    """One access control entry with its resource pattern (`StandardAcl`)."""

    resource_type: ResourceType
    resource_name: str
    pattern_type: AclPattern
    principal: str
    host: str
    operation: AclOperation
    permission: AclPermission

    @classmethod
    def of(cls, record: AccessControlEntryRecord) -> Self:
        """Return the ACL of a record."""
        return cls.of_codes(
            (record.resource_type, record.resource_name, record.pattern_type),
            (record.principal, record.host, record.operation, record.permission_type),
        )

    @classmethod
    def of_codes(cls, resource: tuple[int, str, int], entry: tuple[str, str, int, int]) -> Self:
        """Return the ACL that messages describe by codes.

        `resource` is (type, name, pattern type), `entry` is (principal, host, operation,
        permission); a code of a later version is UNKNOWN.
        """
        kind, name, pattern = resource
        principal, host, operation, permission = entry
        return cls(
            ResourceType.of(kind),
            name,
            AclPattern.of(pattern),
            principal,
            host,
            AclOperation.of(operation),
            AclPermission.of(permission),
        )

    def record(self, acl_id: Uuid) -> AccessControlEntryRecord:
        """Return the record that adds the ACL."""
        return AccessControlEntryRecord(
            id=acl_id,
            resource_type=self.resource_type,
            resource_name=self.resource_name,
            pattern_type=self.pattern_type,
            principal=self.principal,
            host=self.host,
            operation=self.operation,
            permission_type=self.permission,
        )

    def __str__(self) -> str:
        """Return the text of Kafka's `StandardAcl`, which the audit log shows."""
        return (
            f"StandardAcl[resourceType={self.resource_type}, resourceName={self.resource_name}, "
            f"patternType={self.pattern_type}, principal={self.principal}, host={self.host}, "
            f"operation={self.operation}, permissionType={self.permission}]"
        )


@attrs.frozen(slots=True)
class AclFilter:
    """Selects ACLs (`AclBindingFilter`); None and ANY select every value."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: AclPattern = AclPattern.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY

    def matches(self, acl: Acl) -> bool:
        """True when the filter selects the ACL."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._matches_pattern(acl)
            and (self.principal is None or self.principal == acl.principal)
            and (self.host is None or self.host == acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (AclPermission.ANY, acl.permission)
        )

    def _matches_pattern(self, acl: Acl) -> bool:
        """True for the pattern itself, and with MATCH for each pattern that covers the name."""
        pattern, name = self.pattern_type, self.resource_name
        if pattern not in (AclPattern.ANY, AclPattern.MATCH, acl.pattern_type):
            return False
        if name is None:
            return True
        if pattern is not AclPattern.MATCH:
            return name == acl.resource_name
        if acl.pattern_type is AclPattern.PREFIXED:
            return name.startswith(acl.resource_name)
        return acl.pattern_type is AclPattern.LITERAL and acl.resource_name in (name, WILDCARD)


class AclsImage(Mapping[Uuid, Acl]):
    """All ACLs by their id, and which ACLs exist."""

    __slots__ = ("_by_id", "_ids")

    def __init__(self, acls: Mapping[Uuid, Acl] | None = None) -> None:
        by_id = dict(acls or {})
        self._by_id = PersistentMap(by_id)
        self._ids = PersistentMap({acl: acl_id for acl_id, acl in by_id.items()})

    def updated(self, changes: Mapping[Uuid, Acl | None]) -> "AclsImage":
        """Return the ACLs after `changes`; a value of None removes an ACL."""
        ids: dict[Acl, Uuid | None] = {}
        for acl_id, acl in changes.items():
            if acl is not None:
                ids[acl] = acl_id
            elif (removed := self._by_id.get(acl_id)) is not None:
                ids.setdefault(removed, None)
        successor = AclsImage()
        successor._by_id = self._by_id.updated(changes)
        successor._ids = self._ids.updated(ids)
        return successor

    def has(self, acl: Acl) -> bool:
        """True when the ACL exists."""
        return acl in self._ids

    def selected(self, acl_filter: AclFilter) -> Iterator[tuple[Uuid, Acl]]:
        """Yield the ACLs that a filter selects, with their ids."""
        return ((acl_id, acl) for acl_id, acl in self._by_id.items() if acl_filter.matches(acl))

    def __getitem__(self, key: Uuid) -> Acl:
        return self._by_id[key]

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Uuid]:
        return iter(self._by_id)


def acls_by_resource(acls: Iterable[Acl]) -> dict[tuple[ResourceType, str, AclPattern], list[Acl]]:
    """Return the ACLs by their resource pattern, as DescribeAcls lists them."""
    found: dict[tuple[ResourceType, str, AclPattern], list[Acl]] = {}
    for acl in acls:
        key = (acl.resource_type, acl.resource_name, acl.pattern_type)
        found.setdefault(key, []).append(acl)
    return found
