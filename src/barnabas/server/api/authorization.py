"""The authorization of an api, declared in its line of `api.registry`.

One that applies to the whole request is checked here.
"""

from enum import Enum
from typing import TYPE_CHECKING, Any, Final

import attrs

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.security.authorizer import CLUSTER, AclOperation

if TYPE_CHECKING:
    from barnabas.server.api.context import AnyContext
    from barnabas.server.api.registry import Handler


@attrs.frozen
class OnCluster:
    """The request needs one of these operations on the cluster, before its handler is called."""

    any_of: tuple[AclOperation, ...]


class ByHandler(Enum):
    """Apis without a check before their handler."""

    UNRESTRICTED = "every client may call it"
    PER_RESOURCE = "the handler checks the resources that the request names"
    BY_CONTROLLER = "the broker forwards the request, and the controller checks it"


Authorization = OnCluster | ByHandler

UNRESTRICTED: Final = ByHandler.UNRESTRICTED
PER_RESOURCE: Final = ByHandler.PER_RESOURCE
BY_CONTROLLER: Final = ByHandler.BY_CONTROLLER


def on_cluster(*any_of: AclOperation) -> OnCluster:
    """Return the authorization of an api that needs one of the operations on the cluster."""
    return OnCluster(any_of)


def checked(handler: "Handler", authorization: Authorization) -> "Handler":
    """Return the handler that checks a whole api's authorization first.

    It raises KafkaError CLUSTER_AUTHORIZATION_FAILED for a client without the permission.
    """
    if not isinstance(authorization, OnCluster):
        return handler
    any_of = authorization.any_of

    def check_and_handle(context: "AnyContext", request: Any) -> Any:
        if not any(context.may(operation, CLUSTER) for operation in any_of):
            raise KafkaError(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                f"{context.connection.principal} is not authorized to "
                f"{' or '.join(operation.name for operation in any_of)} on the cluster",
            )
        return handler(context, request)

    return check_and_handle
