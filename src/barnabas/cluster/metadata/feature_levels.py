"""Feature levels (KIP-584): those that this node supports, and those that a new cluster finalizes.

A new cluster finalizes all features that this server supports. Clients read the finalized levels
from ApiVersions and choose their protocol: with `transaction.version` below 2 they use the first
transaction protocol, and without `group.version` they use classic groups.
"""

from collections.abc import Mapping

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
GROUP_VERSION = "group.version"
TRANSACTION_VERSION = "transaction.version"
ELIGIBLE_LEADER_REPLICAS_VERSION = "eligible.leader.replicas.version"
SHARE_VERSION = "share.version"
STREAMS_VERSION = "streams.version"

# org.apache.kafka.server.common.MetadataVersion: IBP_3_3_IV3 is 7, the oldest that 4.x knows.
METADATA_VERSION_MIN = 7
# IBP_4_3_IV0.
METADATA_VERSION_LATEST = 30
# The levels that added records or fields (`didMetadataChange`).
_METADATA_CHANGES = frozenset({7, 8, 11, 13, 14, 15, 17, 23, 30})
# IBP_3_5_IV2: users have SCRAM credentials (KIP-900).
SCRAM_SINCE = 11
# IBP_3_6_IV2: delegation tokens are in the metadata (KAFKA-15219).
DELEGATION_TOKENS_SINCE = 14
# IBP_3_7_IV0: controllers register (KIP-919).
CONTROLLER_REGISTRATION_SINCE = 15
# IBP_3_7_IV2: partitions have the directories of their replicas (KIP-858).
DIRECTORIES_SINCE = 17
# IBP_4_3_IV0: brokers report cordoned directories (KIP-1066).
CORDONED_DIRECTORIES_SINCE = 30
# Dynamic voters (KIP-853).
KRAFT_VERSION_LATEST = 1
# Consumer groups (KIP-848).
GROUP_VERSION_LATEST = 1
# Transactions of the second version (KIP-890).
TRANSACTION_VERSION_LATEST = 2
# Eligible leader replicas (KIP-966).
ELIGIBLE_LEADER_REPLICAS_LATEST = 1
# IBP_4_0_IV1: partitions can have eligible leader replicas.
ELIGIBLE_LEADER_REPLICAS_SINCE = 23

# name -> (min, max) that this server supports, as in its registrations and in ApiVersions.
SUPPORTED: Mapping[str, tuple[int, int]] = {
    METADATA_VERSION: (METADATA_VERSION_MIN, METADATA_VERSION_LATEST),
    KRAFT_VERSION: (0, KRAFT_VERSION_LATEST),
    GROUP_VERSION: (0, GROUP_VERSION_LATEST),
    TRANSACTION_VERSION: (0, TRANSACTION_VERSION_LATEST),
    ELIGIBLE_LEADER_REPLICAS_VERSION: (0, ELIGIBLE_LEADER_REPLICAS_LATEST),
}

# name -> (min, max) in registrations. A controller refuses a node that lacks a finalized feature,
# so the features that Apache Kafka 4.3 finalizes are in it. This server replays their records and
# answers their requests with UNSUPPORTED_VERSION.
REGISTERED: Mapping[str, tuple[int, int]] = {
    SHARE_VERSION: (0, 1),
    STREAMS_VERSION: (0, 1),
    **SUPPORTED,
}

# name -> level that formatting a directory writes to `bootstrap.checkpoint`.
BOOTSTRAP: Mapping[str, int] = {
    METADATA_VERSION: METADATA_VERSION_LATEST,
    GROUP_VERSION: GROUP_VERSION_LATEST,
    TRANSACTION_VERSION: TRANSACTION_VERSION_LATEST,
    ELIGIBLE_LEADER_REPLICAS_VERSION: ELIGIBLE_LEADER_REPLICAS_LATEST,
}


def served(finalized: Mapping[str, int]) -> dict[str, int]:
    """Return the finalized levels that clients may use here.

    A directory that Apache Kafka formatted may finalize more than this server supports. Those
    levels stay in the metadata, so that Kafka can take the directory back, but they are not
    advertised.
    """
    levels: dict[str, int] = {}
    for name, level in finalized.items():
        if name in SUPPORTED and level > 0:
            levels[name] = min(level, SUPPORTED[name][1])
    return levels


def supports_directories(finalized: Mapping[str, int]) -> bool:
    """True when the metadata can have the directories of replicas.

    As `isDirectoryAssignmentSupported`.
    """
    return finalized.get(METADATA_VERSION, 0) >= DIRECTORIES_SINCE


def supports_cordoned_directories(finalized: Mapping[str, int]) -> bool:
    """True when the metadata can have the cordoned directories of brokers."""
    return finalized.get(METADATA_VERSION, 0) >= CORDONED_DIRECTORIES_SINCE


def supports_controller_registration(finalized: Mapping[str, int]) -> bool:
    """True when the metadata can have the registrations of controllers."""
    return finalized.get(METADATA_VERSION, 0) >= CONTROLLER_REGISTRATION_SINCE


def metadata_changed(lower: int, higher: int) -> bool:
    """True when the higher metadata.version has records or fields that the lower one lacks."""
    return any(lower < level <= higher for level in _METADATA_CHANGES)
