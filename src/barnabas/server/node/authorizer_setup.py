"""The authorizer of a node, from its configuration."""

from typing import TYPE_CHECKING, Final

from barnabas.config import NodeConfig
from barnabas.security.standard_authorizer import StandardAuthorizer, super_users_of
from barnabas.server.node_failures import StartupError

if TYPE_CHECKING:
    from barnabas.cluster.metadata.image import MetadataImage

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
