"""The right that each route needs, and the rights of the caller of a request.

Rights on a subject are those on the topic that the subject belongs to (`subject_topics`). A caller
without DESCRIBE does not see a subject in lists, nor a schema that only such subjects have.
"""

from typing import Final, Protocol

import attrs

from barnabas.cluster.metadata.acls import AclOperation
from barnabas.http.asgi import Scope
from barnabas.registry.core.registry_errors import denied
from barnabas.registry.core.subject_topics import is_settings_place


@attrs.frozen
class Need:
    """Operations that the caller of a route needs, on the subject of the path or on the cluster.

    Without operations every caller may use the route; what it lists is filtered.
    """

    operations: tuple[AclOperation, ...] = ()
    of_cluster: bool = False


OPEN: Final = Need()
READ: Final = Need((AclOperation.DESCRIBE,))
WRITE: Final = Need((AclOperation.WRITE, AclOperation.DESCRIBE))
DELETE: Final = Need((AclOperation.DELETE,))
ALTER_SETTINGS: Final = Need((AclOperation.ALTER_CONFIGS,))
ALTER_CLUSTER: Final = Need((AclOperation.ALTER,), of_cluster=True)


class Rights(Protocol):
    """Decides about one caller."""

    def allows(
        self, operation: AclOperation, subject: str | None, *, only_filters: bool = False
    ) -> bool:
        """Return True for an operation on a subject's topic; None is the cluster."""
        ...


class RegistryAuthorizer(Protocol):
    """Finds the rights of callers."""

    async def rights(self, scope: Scope) -> Rights:
        """Return the rights of the sender of a request. Raises AccessUnavailableError."""
        ...


class EveryRight:
    """The rights of a caller of a registry without authorization."""

    def allows(
        self, operation: AclOperation, subject: str | None, *, only_filters: bool = False
    ) -> bool:
        """Return True."""
        return True


EVERY_RIGHT: Final = EveryRight()


def check(rights: Rights, need: Need, subject: str | None) -> None:
    """Raise RegistryError (40301) when the caller lacks a right."""
    if subject is not None and is_settings_place(subject):
        subject = None
    place = None if need.of_cluster else subject
    for operation in need.operations:
        if not rights.allows(operation, place):
            raise denied(operation.name.replace("_", " ").title().replace(" ", ""), place)


def sees(rights: Rights, subject: str) -> bool:
    """True when the caller may see a subject, or of a context by its settings."""
    place = None if is_settings_place(subject) else subject
    return rights.allows(AclOperation.DESCRIBE, place, only_filters=True)
