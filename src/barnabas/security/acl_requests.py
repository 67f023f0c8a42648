"""ACLs in the requests and responses of clients: DescribeAcls, CreateAcls, DeleteAcls."""

from collections.abc import Iterable
from typing import Final, Protocol

from barnabas.cluster.metadata.acls import Acl, AclFilter
from barnabas.protocol.messages.create_acls import CreateAclsRequest
from barnabas.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from barnabas.security.acl_index import AclIndex

EVERY_ACL: Final = AclFilter()


def describe_request(selected: AclFilter = EVERY_ACL) -> DescribeAclsRequest:
    """Return the request for the ACLs that a filter selects."""
    return DescribeAclsRequest(
        resource_type_filter=selected.resource_type,
        resource_name_filter=selected.resource_name,
        pattern_type_filter=selected.pattern_type,
        principal_filter=selected.principal,
        host_filter=selected.host,
        operation=selected.operation,
        permission_type=selected.permission,
    )


def described_acls(response: DescribeAclsResponse) -> list[Acl]:
    """Return the ACLs of a response, in their order."""
    return [_acl(resource, acl) for resource in response.resources for acl in resource.acls]


def delete_request(selected: AclFilter) -> DeleteAclsRequest:
    """Return the request that removes the ACLs that a filter selects."""
    wanted = DeleteAclsRequest.DeleteAclsFilter(
        resource_type_filter=selected.resource_type,
        resource_name_filter=selected.resource_name,
        pattern_type_filter=selected.pattern_type,
        principal_filter=selected.principal,
        host_filter=selected.host,
        operation=selected.operation,
        permission_type=selected.permission,
    )
    return DeleteAclsRequest(filters=[wanted])


def deleted_acl(deleted: DeleteAclsResponse.DeleteAclsMatchingAcl) -> Acl:
    """Return an ACL that was removed."""
    return _acl(deleted, deleted)


def create_request(acls: Iterable[Acl]) -> CreateAclsRequest:
    """Return the request that adds ACLs."""
    return CreateAclsRequest(
        creations=[
            CreateAclsRequest.AclCreation(
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                resource_pattern_type=each.pattern_type,
                principal=each.principal,
                host=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            for each in acls
        ]
    )


class _Resource(Protocol):
    resource_type: int
    resource_name: str
    pattern_type: int


class _Entry(Protocol):
    principal: str
    host: str
    operation: int
    permission_type: int


def _acl(resource: _Resource, entry: _Entry) -> Acl:
    return Acl.of_codes(
        (resource.resource_type, resource.resource_name, resource.pattern_type),
        (entry.principal, entry.host, entry.operation, entry.permission_type),
    )


def index_of(acls: Iterable[Acl]) -> AclIndex:
    """Return the index of ACLs, for decisions."""
    return AclIndex().updated(acls, ())
