"""DescribeAcls, CreateAcls and DeleteAcls (versions 1-3): no authorizer is configured.

The responses are those of Apache Kafka without an authorizer. As there, a request with an element
UNKNOWN (code 0) ends the connection.
"""

from collections.abc import Iterable
from typing import NoReturn

from barnabas.protocol.errors import ErrorCode, KafkaError, ProtocolError
from barnabas.protocol.messages.create_acls import CreateAclsRequest
from barnabas.protocol.messages.delete_acls import DeleteAclsRequest
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest
from barnabas.server.api.context import AnyContext

_UNKNOWN = 0


def describe_acls(_context: AnyContext, request: DescribeAclsRequest) -> NoReturn:
    """Refuse with SECURITY_DISABLED and the broker's message."""
    _check_filters("DescribeAcls", [request])
    raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")


def create_acls(_context: AnyContext, request: CreateAclsRequest) -> NoReturn:
    """Refuse with SECURITY_DISABLED and the controller's message."""
    for acl in request.creations:
        _check(
            "CreateAcls",
            acl.resource_type,
            acl.resource_pattern_type,
            acl.operation,
            acl.permission_type,
        )
    raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


def delete_acls(_context: AnyContext, request: DeleteAclsRequest) -> NoReturn:
    """Refuse with SECURITY_DISABLED and the controller's message."""
    _check_filters("DeleteAcls", request.filters)
    raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


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


def _check(api: str, *codes: int) -> None:
    if _UNKNOWN in codes:
        raise ProtocolError(f"{api} request contains UNKNOWN elements")
