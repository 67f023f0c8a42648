"""`barnabas acl`: list, add and remove ACLs, and find the one that decides.

The requests are sent with the project's own client: librdkafka has neither all operations nor all
types of resources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from barnabas.cli.acl_options import (
    COLUMNS,
    OPERATIONS,
    Resource,
    acl_json,
    choice,
    filter_options,
    in_order,
    principal_of,
    resource_of,
    resource_text,
    row,
)
from barnabas.cli.admin_requests import ask, check
from barnabas.cli.client_options import Client, client_options
from barnabas.cli.terminal_output import (
    confirm,
    counted,
    json_option,
    print_json,
    print_table,
    yes_option,
)
from barnabas.cluster.metadata.acls import Acl, AclFilter, AclPattern, AclPermission
from barnabas.protocol.messages.create_acls import CreateAclsResponse
from barnabas.protocol.messages.delete_acls import DeleteAclsResponse
from barnabas.protocol.messages.describe_acls import DescribeAclsResponse
from barnabas.security.acl_index import Rule
from barnabas.security.acl_requests import (
    EVERY_ACL,
    create_request,
    delete_request,
    deleted_acl,
    describe_request,
    described_acls,
    index_of,
)
from barnabas.security.java_address import java_address

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# The decision of a cluster about a resource without ACLs: brokers do not show the property.
_BY_DEFAULT = Rule(False, "allow.everyone.if.no.acl.found")


@click.group()
def acl() -> None:
    """Work with ACLs."""


@acl.command("list")
@filter_options
@json_option
@client_options
def list_acls(client: Client, *, selected: AclFilter, as_json: bool) -> None:
    """List ACLs."""
    _show(_described(client, selected), as_json=as_json)


def _described(client: Client, selected: AclFilter) -> list[Acl]:
    answer = ask(client, describe_request(selected), DescribeAclsResponse)
    check(answer.error_code, answer.error_message, "ACLs")
    return in_order(described_acls(answer))


def _show(acls: Iterable[Acl], *, as_json: bool) -> None:
    if as_json:
        print_json([acl_json(each) for each in acls])
    else:
        print_table(COLUMNS, [row(each) for each in acls])


@acl.command()
@click.option(
    "--allow",
    "allowed",
    multiple=True,
    type=principal_of,
    metavar="PRINCIPAL",
    help="Allow the operations to a principal, for example User:alice; repeatable.",
)
@click.option(
    "--deny",
    "denied",
    multiple=True,
    type=principal_of,
    metavar="PRINCIPAL",
    help="Deny the operations to a principal, also where other ACLs allow them; repeatable.",
)
@click.option(
    "--operation",
    "operations",
    multiple=True,
    required=True,
    type=choice(OPERATIONS),
    help="An operation; repeatable.",
)
@click.option(
    "--resource",
    "resources",
    multiple=True,
    required=True,
    type=resource_of,
    metavar="TYPE:NAME",
    help="A resource, for example topic:orders, or cluster; the name * is every one; repeatable.",
)
@click.option("--prefixed", is_flag=True, help="The names are prefixes of names.")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    default=("*",),
    show_default=True,
    help="The client's address; repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Show which ACLs are new, add nothing.")
@json_option
@client_options
def add(
    client: Client,
    *,
    allowed: Sequence[str],
    denied: Sequence[str],
    operations: Sequence[str],
    resources: Sequence[Resource],
    prefixed: bool,
    hosts: Sequence[str],
    dry_run: bool,
    as_json: bool,
) -> None:
    """Add ACLs: one for each principal, host, operation and resource. Existing ones are kept."""
    if not allowed and not denied:
        raise click.UsageError("No principal: use --allow or --deny.")
    pattern = AclPattern.PREFIXED if prefixed else AclPattern.LITERAL
    principals = [(each, AclPermission.ALLOW) for each in allowed]
    principals += [(each, AclPermission.DENY) for each in denied]
    wanted = [
        Acl(kind, name, pattern, principal, java_address(host), OPERATIONS[operation], permission)
        for kind, name in resources
        for principal, permission in principals
        for host in hosts
        for operation in operations
    ]
    existing = set(_described(client, EVERY_ACL))
    new = [each for each in dict.fromkeys(wanted) if each not in existing]
    if new and not dry_run:
        _create(client, new)
    if as_json:
        _show(new, as_json=True)
        return
    print_table(COLUMNS, [row(each) for each in new])
    known = len(dict.fromkeys(wanted)) - len(new)
    kept = f", {counted(known, 'ACL')} existed" if known else ""
    click.echo(f"{counted(len(new), 'ACL')} {'could be added' if dry_run else 'added'}{kept}")


def _create(client: Client, acls: Sequence[Acl]) -> None:
    answer = ask(client, create_request(acls), CreateAclsResponse)
    for each, result in zip(acls, answer.results, strict=True):
        check(result.error_code, result.error_message, " ".join(row(each)))


@acl.command()
@filter_options
@click.option("--all", "everything", is_flag=True, help="Remove all ACLs of the cluster.")
@click.option("--dry-run", is_flag=True, help="Show which ACLs would be removed, remove nothing.")
@yes_option
@json_option
@client_options
def remove(
    client: Client,
    *,
    selected: AclFilter,
    everything: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Remove the ACLs that the options select."""
    if (selected == EVERY_ACL) != everything:
        raise click.UsageError(
            "Select ACLs, for example with --principal or --resource, or use --all alone."
        )
    found = _described(client, selected)
    if not as_json:
        _show(found, as_json=False)
    if found and not dry_run:
        confirm(f"Remove {counted(len(found), 'ACL')}?", yes=yes)
        found = _delete(client, selected)
    if as_json:
        _show(found, as_json=True)
    else:
        done = "would be removed" if dry_run else "removed"
        click.echo(f"{counted(len(found), 'ACL')} {done}")


def _delete(client: Client, selected: AclFilter) -> list[Acl]:
    answer = ask(client, delete_request(selected), DeleteAclsResponse)
    removed: list[Acl] = []
    for result in answer.filter_results:
        check(result.error_code, result.error_message, "ACLs")
        for each in result.matching_acls:
            check(each.error_code, each.error_message, " ".join(row(deleted_acl(each))))
            removed.append(deleted_acl(each))
    return in_order(removed)


@acl.command()
@click.option(
    "--principal",
    required=True,
    type=principal_of,
    metavar="PRINCIPAL",
    help="The client, for example User:alice.",
)
@click.option("--operation", required=True, type=choice(OPERATIONS), help="The operation.")
@click.option(
    "--resource",
    required=True,
    type=resource_of,
    metavar="TYPE:NAME",
    help="The resource, for example topic:orders, or cluster.",
)
@click.option(
    "--host",
    default="*",
    help="The client's address. Without it, only ACLs of all hosts count.",
)
@json_option
@client_options
def explain(
    client: Client,
    *,
    principal: str,
    operation: str,
    resource: Resource,
    host: str,
    as_json: bool,
) -> None:
    """Show the rule that decides if a principal may do an operation on a resource."""
    kind, name = resource
    rule = index_of(_described(client, EVERY_ACL)).decide(
        principal, java_address(host), OPERATIONS[operation], kind, name, without_acl=_BY_DEFAULT
    )
    allowed = None if rule is _BY_DEFAULT else rule.allowed
    if as_json:
        print_json(
            {
                "principal": principal,
                "host": host,
                "operation": operation,
                "resource": resource_text(kind, name),
                "allowed": allowed,
                "rule": rule.text,
                "acl": acl_json(rule.acl) if rule.acl is not None else None,
            }
        )
        return
    subject = f"{operation} of {resource_text(kind, name)} by {principal}"
    click.echo(f"{subject}: {_verdict(rule)}")
    if rule.acl is not None:
        print_table(COLUMNS, [row(rule.acl)])
    click.echo("(if the principal is in super.users, which servers do not show, it is allowed)")


def _verdict(rule: Rule) -> str:
    if rule is _BY_DEFAULT:
        return (
            "no ACL applies to the resource, so allow.everyone.if.no.acl.found of the brokers "
            "decides: denied, unless it is true"
        )
    if rule.acl is None:
        return "denied, because ACLs apply to the resource and none of them matches"
    return f"{'allowed' if rule.allowed else 'denied'} by the ACL"
