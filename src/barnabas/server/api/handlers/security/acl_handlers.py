"""DescribeAcls (versions 1-3), and the form of filters and ACLs in requests.

Without an authorizer the response is that of Apache Kafka without one. As there, a request with an
element UNKNOWN (code 0) ends the connection; a code of a later version selects nothing, and is
refused in a new ACL.
"""

from collections.abc import Iterable

from barnabas.cluster.controller.acl_changes import filter_of
from barnabas.cluster.metadata.acls import acls_by_resource
from barnabas.protocol.errors import ErrorCode, KafkaError, ProtocolError
from barnabas.protocol.messages.create_acls import CreateAclsRequest
from barnabas.protocol.messages.delete_acls import DeleteAclsRequest
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from barnabas.server.api.context import AnyContext

_Element = CreateAclsRequest.AclCreation | DeleteAclsRequest.DeleteAclsFilter | DescribeAclsRequest


def describe_acls(context: AnyContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Return the ACLs that the filter selects, by resource.

    Raises KafkaError SECURITY_DISABLED on a node without an authorizer.
    """
    _check("DescribeAcls", [_codes(request)])
    selection = filter_of(request)
    authorizer = context.route.authorizer
    if authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
    selected = (acl for _, acl in authorizer.acls.selected(selection))
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
        _check("DeleteAcls", map(_codes, request.filters))
    else:
        _check("CreateAcls", map(_codes, request.creations))


def _codes(element: _Element) -> tuple[int, ...]:
    """Return the codes of an ACL or a filter, as the request has them."""
    if isinstance(element, CreateAclsRequest.AclCreation):
        resource = (element.resource_type, element.resource_pattern_type)
    else:
        resource = (element.resource_type_filter, element.pattern_type_filter)
    return *resource, element.operation, element.permission_type


def _check(api: str, elements: Iterable[tuple[int, ...]]) -> None:
    if any(0 in codes for codes in elements):
        raise ProtocolError(f"{api} request contains UNKNOWN elements")
