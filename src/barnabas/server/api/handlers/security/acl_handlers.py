"""DescribeAcls (versions 1-3), and the form of filters and ACLs in requests.

Without an authorizer the response is that of Apache Kafka without one. As there, a request with an
element UNKNOWN (code 0, or one of a later version) ends the connection.
"""

from collections.abc import Iterable

from barnabas.cluster.controller.acl_changes import filter_of
from barnabas.cluster.metadata.acls import (
    AclOperation,
    AclPattern,
    AclPermission,
    ResourceType,
    acls_by_resource,
)
from barnabas.protocol.errors import ErrorCode, KafkaError, ProtocolError
from barnabas.protocol.messages.create_acls import CreateAclsRequest
from barnabas.protocol.messages.delete_acls import DeleteAclsRequest
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from barnabas.server.api.context import AnyContext


def describe_acls(context: AnyContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Return the ACLs that the filter selects, by resource.

    Raises KafkaError SECURITY_DISABLED on a node without an authorizer.
    """
    _check_filters("DescribeAcls", [request])
    authorizer = context.route.authorizer
    if authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
    selected = (acl for _, acl in authorizer.acls.selected(filter_of(request)))
    return DescribeAclsResponse(
        resources=[
            DescribeAclsResponse.DescribeAclsResource(
                resource_type=kind,
                resource_name=name,
                pattern_type=pattern,
                acls=[
                    DescribeAclsResponse.AclDescription(
                        principal=acl.principal,
                        host=acl.host,
                        operation=acl.operation,
                        permission_type=acl.permission,
                    )
                    for acl in acls
                ],
            )
            for (kind, name, pattern), acls in acls_by_resource(selected).items()
        ],
    )


def check_form(request: CreateAclsRequest | DeleteAclsRequest) -> None:
    """Raise ProtocolError for an element that is UNKNOWN."""
    if isinstance(request, DeleteAclsRequest):
        _check_filters("DeleteAcls", request.filters)
        return
    for acl in request.creations:
        _check(
            "CreateAcls",
            acl.resource_type,
            acl.resource_pattern_type,
            acl.operation,
            acl.permission_type,
        )


def _check_filters(
    api: str, filters: Iterable[DescribeAclsRequest | DeleteAclsRequest.DeleteAclsFilter]
) -> None:
    for each in filters:
        _check(
            api,
            each.resource_type_filter,
            each.pattern_type_filter,
            each.operation,
            each.permission_type,
        )


def _check(api: str, kind: int, pattern: int, operation: int, permission: int) -> None:
    is_known = (
        ResourceType.of(kind)
        and AclPattern.of(pattern)
        and AclOperation.of(operation)
        and AclPermission.of(permission)
    )
    if not is_known:
        raise ProtocolError(f"{api} request contains UNKNOWN elements")
