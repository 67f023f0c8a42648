"""DescribeAcls, CreateAcls and DeleteAcls (versions 1-3): there are no access rules.

Nothing is authorized yet; Kafka without an authorizer answers the same.
"""

from typing import NoReturn

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.create_acls import CreateAclsRequest
from barnabas.protocol.messages.delete_acls import DeleteAclsRequest
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest
from barnabas.server.api.context import AnyContext


def describe_acls(_context: AnyContext, _request: DescribeAclsRequest) -> NoReturn:
    """SECURITY_DISABLED, in the broker's words."""
    raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")


def change_acls(_context: AnyContext, _request: CreateAclsRequest | DeleteAclsRequest) -> NoReturn:
    """SECURITY_DISABLED, in the controller's words."""
    raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
