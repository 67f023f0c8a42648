"""The authorizer of a node, from its configuration."""

import logging
from typing import TYPE_CHECKING, Final

from barnabas.config import NodeConfig
from barnabas.security.principals import ANONYMOUS, USER, Principal
from barnabas.security.standard_authorizer import StandardAuthorizer, super_users_of
from barnabas.server.node_failures import StartupError

if TYPE_CHECKING:
    from barnabas.cluster.metadata.image import MetadataImage
    from barnabas.server.node.peer_access import NodeAccess

logger = logging.getLogger(__name__)

_NO_ADMINISTRATOR: Final = (
    "authorizer.class.name is set, but no client could ever change topics, users or ACLs of this "
    "cluster: super.users is empty, allow.everyone.if.no.acl.found is false, and no ACL allows "
    "ALTER on the cluster; set super.users to the principals of the administrators, as "
    "User:admin;User:other"
)


def configured_authorizer(config: NodeConfig) -> StandardAuthorizer:
    """Return the authorizer with the configuration's super users."""
    return StandardAuthorizer(
        super_users_of(config.get("super.users")),
        allow_without_acl=config.get_bool("allow.everyone.if.no.acl.found"),
    )


def check_administrators(
    config: NodeConfig, authorizer: StandardAuthorizer, image: "MetadataImage"
) -> None:
    """Raise StartupError when no client of this controller's cluster could ever change an ACL.

    A controller that joins a cluster does not have its ACLs yet, and is not refused.
    """
    if not config.is_controller:
        return
    has_metadata = config.is_single_node or image.features
    if has_metadata and not authorizer.can_be_administered(image.acls):
        raise StartupError(_NO_ADMINISTRATOR)


def warn_of_controllers(config: NodeConfig, access: "NodeAccess | None") -> None:
    """Warn when controllers could not elect a leader after all of them have stopped.

    Until a controller has read the ACLs it serves super users only, so the votes of others fail.
    The principals of certificates are not looked at.
    """
    principal = _at_controllers(config, access)
    if principal is None or str(principal) in super_users_of(config.get("super.users")):
        return
    listener = config.controller_listener_names[0]
    logger.warning(
        "super.users lacks %s, as whom this node connects to controllers (listener %s): once all "
        "controllers have stopped, they refuse each other's votes, because they have no ACLs "
        "before one of them leads; add the principal to super.users on each controller",
        principal,
        listener,
    )


def _at_controllers(config: NodeConfig, access: "NodeAccess | None") -> Principal | None:
    """Return who this controller is for other ones; None without others, and with certificates."""
    if not (config.is_controller and config.names_other_controllers):
        return None
    if access is None or access.controllers.protocol == "PLAINTEXT":
        return ANONYMOUS
    credentials = access.controllers.credentials
    return credentials and Principal(USER, credentials.username)
