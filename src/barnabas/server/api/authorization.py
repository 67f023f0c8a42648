"""The authorization of an api: declared in its line of `api.registry`, and checked by a node with
an authorizer before the api's handler is called.
"""

from enum import Enum
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import attrs

from barnabas.cluster.metadata.acls import AclOperation

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.server.api.context import AnyContext
    from barnabas.server.api.registry import Handler

_GUARDS: Final = "barnabas.server.api.guards"


@attrs.frozen
class OnCluster:
    """The request needs an operation on the cluster."""

    operation: AclOperation


@attrs.frozen
class ByGuard:
    """A guard checks the resources that the request names: module and function below `guards`."""

    path: str

    def guard(self) -> "Callable[[AnyContext, Any, Handler], Any]":
        """Return the guard; its module is imported on first use."""
        module, _, function = self.path.rpartition(".")
        return getattr(import_module(f"{_GUARDS}.{module}"), function)


class Unguarded(Enum):
    """Apis without a check before their handler."""

    UNRESTRICTED = "every client may call it"
    IN_HANDLER = "the handler checks what the request reads or changes"
    BY_CONTROLLER = "the broker forwards the request, and the controller checks it"


Authorization = OnCluster | ByGuard | Unguarded

UNRESTRICTED: Final = Unguarded.UNRESTRICTED
IN_HANDLER: Final = Unguarded.IN_HANDLER
BY_CONTROLLER: Final = Unguarded.BY_CONTROLLER


def guarded(handler: "Handler", authorization: Authorization) -> "Handler":
    """Return the handler that checks an api's authorization first.

    It raises KafkaError CLUSTER_AUTHORIZATION_FAILED where the whole api needs an operation on the
    cluster that the client may not do.
    """
    if isinstance(authorization, ByGuard):
        guard = authorization.guard()
        return lambda context, request: guard(context, request, handler)
    if isinstance(authorization, OnCluster):
        return _on_cluster(handler, authorization.operation)
    return handler


def _on_cluster(handler: "Handler", operation: AclOperation) -> "Handler":
    from barnabas.server.api.permissions import require_on_cluster

    def check_and_handle(context: "AnyContext", request: Any) -> Any:
        require_on_cluster(context, operation)
        return handler(context, request)

    return check_and_handle
