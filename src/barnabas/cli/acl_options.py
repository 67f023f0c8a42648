"""Options of `barnabas acl`: resources, operations and filters, and ACLs as rows and JSON."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import click

from barnabas.cluster.metadata.acls import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    AclOperation,
    AclPattern,
    AclPermission,
    ResourceType,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

COLUMNS = ("RESOURCE", "PATTERN", "PRINCIPAL", "HOST", "OPERATION", "PERMISSION")

_FIRST_VALUE = 2
"""The first code of an ACL: UNKNOWN and ANY are below."""


def option_name(value: Any) -> str:
    """Return the name of an enum's member as options have it: `transactional-id`."""
    return value.name.lower().replace("_", "-")


RESOURCE_TYPES = {option_name(each): each for each in ResourceType if each >= _FIRST_VALUE}
OPERATIONS = {option_name(each): each for each in AclOperation if each >= _FIRST_VALUE}
_PERMISSIONS = {option_name(each): each for each in AclPermission if each >= _FIRST_VALUE}
_PATTERNS = {option_name(each): each for each in AclPattern if each}

Resource = tuple[ResourceType, str]


def resource_of(text: str) -> Resource:
    """Return the type and name of a text TYPE:NAME; the cluster needs no name.

    Raises click.BadParameter for another text.
    """
    kind_name, _, name = text.partition(":")
    kind = RESOURCE_TYPES.get(kind_name.lower().replace("_", "-"))
    if kind is ResourceType.CLUSTER and name in ("", CLUSTER_NAME):
        return kind, CLUSTER_NAME
    if kind is None or kind is ResourceType.CLUSTER or not name:
        types = ", ".join(each for each in RESOURCE_TYPES if each != "cluster")
        raise click.BadParameter(f"{text!r} must be cluster, or TYPE:NAME with a type of: {types}")
    return kind, name


def principal_of(text: str) -> str:
    """Return a principal as it is. Raises click.BadParameter for one that is not TYPE:NAME."""
    kind, _, name = text.partition(":")
    if not kind or not name:
        raise click.BadParameter(f"{text!r} must be TYPE:NAME, for example User:alice")
    return text


def choice(values: Iterable[str]) -> click.Choice[str]:
    """Return a choice of names that ignores case."""
    return click.Choice(list(values), case_sensitive=False)


def filter_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that select ACLs; the command gets an `AclFilter` as `selected`."""

    @click.option(
        "--principal", type=principal_of, metavar="PRINCIPAL", help="Only ACLs of this principal."
    )
    @click.option(
        "--resource",
        type=resource_of,
        metavar="TYPE:NAME",
        help="Only ACLs of this resource, for example topic:orders, or cluster.",
    )
    @click.option(
        "--resource-type", type=choice(RESOURCE_TYPES), help="Only ACLs of resources of this type."
    )
    @click.option(
        "--pattern",
        type=choice(_PATTERNS),
        default="any",
        show_default=True,
        help="How --resource selects: ACLs with exactly this name (any, literal, prefixed), or all "
        "that apply to it (match).",
    )
    @click.option("--host", help="Only ACLs of this host; * is an ACL of all hosts.")
    @click.option("--operation", type=choice(OPERATIONS), help="Only ACLs of this operation.")
    @click.option("--permission", type=choice(_PERMISSIONS), help="Only ACLs that allow, or deny.")
    @functools.wraps(command)
    def wrapped(
        *arguments: Any,
        principal: str | None,
        resource: Resource | None,
        resource_type: str | None,
        pattern: str,
        host: str | None,
        operation: str | None,
        permission: str | None,
        **options: Any,
    ) -> Any:
        kind, name = resource or (ResourceType.ANY, None)
        if resource_type is not None:
            wanted = RESOURCE_TYPES[resource_type]
            if kind not in (ResourceType.ANY, wanted):
                raise click.UsageError("--resource and --resource-type name different types.")
            kind = wanted
        selected = AclFilter(
            kind,
            name,
            _PATTERNS[pattern],
            principal,
            host,
            OPERATIONS[operation] if operation else AclOperation.ANY,
            _PERMISSIONS[permission] if permission else AclPermission.ANY,
        )
        return command(*arguments, selected=selected, **options)

    return wrapped


def resource_text(kind: ResourceType, name: str) -> str:
    """Return a resource as the option --resource has it."""
    return "cluster" if kind is ResourceType.CLUSTER else f"{option_name(kind)}:{name}"


def row(acl: Acl) -> tuple[str, ...]:
    """Return the cells of an ACL under `COLUMNS`."""
    return (
        resource_text(acl.resource_type, acl.resource_name),
        option_name(acl.pattern_type),
        acl.principal,
        acl.host,
        option_name(acl.operation),
        option_name(acl.permission),
    )


def acl_json(acl: Acl) -> dict[str, str]:
    """Return an ACL for a JSON document."""
    return {
        "resource_type": option_name(acl.resource_type),
        "resource_name": acl.resource_name,
        "pattern": option_name(acl.pattern_type),
        "principal": acl.principal,
        "host": acl.host,
        "operation": option_name(acl.operation),
        "permission": option_name(acl.permission),
    }


def in_order(acls: Iterable[Acl]) -> list[Acl]:
    """Return ACLs by resource, principal and operation."""
    return sorted(
        acls,
        key=lambda acl: (
            acl.resource_type,
            acl.resource_name,
            acl.pattern_type,
            acl.principal,
            acl.operation,
            acl.permission,
            acl.host,
        ),
    )
