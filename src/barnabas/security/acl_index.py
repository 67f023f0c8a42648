"""ACLs by resource, and the decision of Kafka's `StandardAuthorizerData` over them.

The ACLs that apply to a resource are those of its name, those of each prefix of the name, and those
of the name `*`. A DENY among them that matches the client and the operation wins over any ALLOW.
When no ACL applies to the resource, whichever client it names, a setting of the node decides.

An index is never changed: an update returns another index, which shares most of this one. A new
decision costs one look-up for each distinct length of the prefixes of the resource's type.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

import attrs

from barnabas.cluster.metadata.acls import (
    WILDCARD,
    Acl,
    AclOperation,
    AclPattern,
    AclPermission,
    ResourceType,
)
from barnabas.cluster.metadata.persistent_map import PersistentMap

WILDCARD_PRINCIPAL: Final = "User:*"

# An ALLOW of one of these operations allows the key, too.
_IMPLIED_BY: Final = {
    AclOperation.DESCRIBE: frozenset({
        AclOperation.DESCRIBE,
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.DELETE,
        AclOperation.ALTER,
    }),
    AclOperation.DESCRIBE_CONFIGS: frozenset({
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    }),
}  # fmt: skip

_Pattern: TypeAlias = tuple[ResourceType, AclPattern, str]
_ByPrincipal: TypeAlias = Mapping[str, tuple[Acl, ...]]


@attrs.frozen(slots=True)
class Rule:
    """A decision, and the text of the rule that made it, as in Kafka's audit log."""

    allowed: bool
    text: str
    acl: Acl | None = None


SUPER_USER: Final = Rule(True, "SuperUser")
DEFAULT_ALLOW: Final = Rule(True, "DefaultAllow")
DEFAULT_DENY: Final = Rule(False, "DefaultDeny")


def matches(acl: Acl, principals: Iterable[str], host: str, operation: AclOperation) -> bool:
    """True when an ACL that applies to the resource decides for the client and the operation."""
    if acl.principal not in principals or acl.host not in (WILDCARD, host):
        return False
    if acl.operation in (AclOperation.ALL, operation):
        return True
    if acl.permission is not AclPermission.ALLOW:
        return False
    return acl.operation in _IMPLIED_BY.get(operation, ())


class AclIndex:
    """The ACLs of a metadata image, for decisions."""

    def __init__(self) -> None:
        self._patterns: PersistentMap[_Pattern, _ByPrincipal] = PersistentMap()
        self._lengths: Mapping[ResourceType, Counter[int]] = {}

    def updated(self, added: Iterable[Acl], removed: Iterable[Acl]) -> "AclIndex":
        """Return the index with other ACLs."""
        changes: dict[_Pattern, dict[str, tuple[Acl, ...]]] = {}
        lengths = {kind: Counter(counts) for kind, counts in self._lengths.items()}
        for acl, count in _signed(added, removed):
            key = (acl.resource_type, acl.pattern_type, acl.resource_name)
            entry = changes.get(key)
            if entry is None:
                entry = changes[key] = dict(self._patterns.get(key, {}))
            entry[acl.principal] = _changed(entry.get(acl.principal, ()), acl, count)
            if not entry[acl.principal]:
                del entry[acl.principal]
            if acl.pattern_type is AclPattern.PREFIXED:
                lengths.setdefault(acl.resource_type, Counter())[len(acl.resource_name)] += count
        successor = AclIndex()
        successor._patterns = self._patterns.updated(
            {key: entry or None for key, entry in changes.items()}
        )
        successor._lengths = {kind: +counts for kind, counts in lengths.items()}
        return successor

    def decide(
        self,
        principal: str,
        host: str,
        operation: AclOperation,
        kind: ResourceType,
        name: str,
        *,
        without_acl: Rule,
    ) -> Rule:
        """Return the decision for a client; `without_acl` is that of a resource without ACLs.

        Of several ACLs that match, the rule names the one that Kafka's audit log names.
        """
        principals = (principal, WILDCARD_PRINCIPAL)
        allow: Acl | None = None
        outcome = without_acl
        for entry in self._applying(kind, name):
            outcome = DEFAULT_DENY
            found = [
                acl
                for each in dict.fromkeys(principals)
                for acl in entry.get(each, ())
                if matches(acl, principals, host, operation)
            ]
            denies = [acl for acl in found if acl.permission is not AclPermission.ALLOW]
            if denies:
                return _matching(False, min(denies, key=_order))
            if found:
                allow = max(found, key=_order)
        return outcome if allow is None else _matching(True, allow)

    def _applying(self, kind: ResourceType, name: str) -> Iterator[_ByPrincipal]:
        """Yield the ACLs that apply to a resource: of the longest names first, then of `*`."""
        patterns, size = self._patterns, len(name)
        names = [(AclPattern.LITERAL, name)]
        lengths = sorted(self._lengths.get(kind, ()), reverse=True)
        names += [(AclPattern.PREFIXED, name[:length]) for length in lengths if length <= size]
        if name != WILDCARD:
            names.append((AclPattern.LITERAL, WILDCARD))
        for pattern, each in names:
            entry = patterns.get((kind, pattern, each))
            if entry is not None:
                yield entry

    def allows_any(
        self, principal: str, host: str, operation: AclOperation, kind: ResourceType
    ) -> bool:
        """True when the client may do the operation on at least one resource of the type.

        As Kafka's `Authorizer.authorizeByResourceType`: no operation implies another one, and an
        ALLOW of a prefix is outdone only by a DENY of a prefix.
        """
        allowed: list[tuple[AclPattern, str]] = []
        denied = set[tuple[AclPattern, str]]()
        principals = (principal, WILDCARD_PRINCIPAL)
        for (of_kind, pattern, name), entry in self._patterns.items():
            if of_kind is not kind:
                continue
            for acl in (acl for each in principals for acl in entry.get(each, ())):
                if acl.host not in (WILDCARD, host):
                    continue
                if acl.operation not in (operation, AclOperation.ALL):
                    continue
                if acl.permission is AclPermission.ALLOW:
                    allowed.append((pattern, name))
                elif acl.permission is AclPermission.DENY:
                    denied.add((pattern, name))
        wildcard = (AclPattern.LITERAL, WILDCARD)
        if wildcard in denied:
            return False
        return wildcard in allowed or any(not _is_dominated(each, denied) for each in allowed)


def _is_dominated(allowed: tuple[AclPattern, str], denied: set[tuple[AclPattern, str]]) -> bool:
    """True when a DENY covers all that an ALLOW covers."""
    pattern, name = allowed
    if pattern is AclPattern.LITERAL and allowed in denied:
        return True
    return any((AclPattern.PREFIXED, name[:end]) in denied for end in range(1, len(name) + 1))


def _signed(added: Iterable[Acl], removed: Iterable[Acl]) -> Iterator[tuple[Acl, int]]:
    yield from ((acl, -1) for acl in removed)
    yield from ((acl, 1) for acl in added)


def _changed(acls: tuple[Acl, ...], acl: Acl, count: int) -> tuple[Acl, ...]:
    if count > 0:
        return (*acls, acl)
    position = acls.index(acl)
    return (*acls[:position], *acls[position + 1 :])


def _matching(allowed: bool, acl: Acl) -> Rule:
    return Rule(allowed, f"MatchingAcl(acl={acl})", acl)


def _order(acl: Acl) -> tuple[object, ...]:
    """Return the place of an ACL among those of one resource name (`StandardAcl.compareTo`)."""
    return (acl.pattern_type, acl.operation, acl.principal, acl.host, acl.permission)
