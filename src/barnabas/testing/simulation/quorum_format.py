"""Formatting the nodes of a simulation, as `barnabas format` does it: voters and feature levels."""

from collections.abc import Iterable, Mapping
from typing import Final

from barnabas.cluster.metadata.feature_levels import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    GROUP_VERSION,
    TRANSACTION_VERSION,
)
from barnabas.cluster.metadata.image import Endpoint
from barnabas.cluster.metadata.releases import (
    METADATA_VERSION_NAMES,
    levels_to_format,
    parse_feature,
)
from barnabas.cluster.quorum.storage_format import parse_initial_controllers
from barnabas.cluster.quorum.voters import ReplicaKey, VoterSet, static_voters

LISTENER: Final = "CONTROLLER"
PORT: Final = 9093
CONSUMER_GROUPS_SINCE: Final = 22
"""The first metadata.version with the consumer protocol of groups (group.version 1)."""


def controller_endpoint(node_id: int, port: int = PORT) -> Endpoint:
    """Return the controller listener of a node."""
    return Endpoint(LISTENER, f"node-{node_id}", port)


def initial_controllers(keys: Iterable[ReplicaKey]) -> VoterSet:
    """Return the voters that the nodes of a new cluster are formatted with."""
    texts = [f"{key.id}@node-{key.id}:{PORT}:{key.directory_id}" for key in keys]
    return parse_initial_controllers(",".join(texts), LISTENER)


def configured_voters(node_ids: Iterable[int]) -> VoterSet:
    """Return the voters of controller.quorum.voters, whose directories are not known."""
    return static_voters([f"{node_id}@node-{node_id}:{PORT}" for node_id in node_ids], LISTENER)


def feature_levels(
    metadata_version: int, elr_version: int, transaction_version: int
) -> Mapping[str, int]:
    """Return the levels of a new cluster."""
    chosen = (
        f"{ELIGIBLE_LEADER_REPLICAS_VERSION}={elr_version}",
        f"{TRANSACTION_VERSION}={transaction_version}",
        f"{GROUP_VERSION}={int(metadata_version >= CONSUMER_GROUPS_SINCE)}",
    )
    release = METADATA_VERSION_NAMES[metadata_version]
    return levels_to_format(release, dict(parse_feature(each) for each in chosen))
