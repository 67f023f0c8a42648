"""Feature levels (KIP-584): what this node could serve, and what a new cluster finalizes.

A feature is finalized once it is served, so a new cluster starts with those that this one serves.
Clients read the finalized levels from ApiVersions and pick their protocol by them: with
`transaction.version` below 2 they use the first transaction protocol, without `group.version`
they stay with classic groups.
"""

from collections.abc import Mapping

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
GROUP_VERSION = "group.version"
TRANSACTION_VERSION = "transaction.version"
# Not served yet (KIP-966), but a directory of Apache Kafka's has it finalized.
ELIGIBLE_LEADER_REPLICAS_VERSION = "eligible.leader.replicas.version"

# org.apache.kafka.server.common.MetadataVersion: IBP_3_3_IV3 is 7, the oldest that 4.x knows.
METADATA_VERSION_MIN = 7
# IBP_4_3_IV0.
METADATA_VERSION_LATEST = 30
# The levels that brought records or fields which a lower one cannot state (`didMetadataChange`).
_METADATA_CHANGES = frozenset({7, 8, 11, 13, 14, 15, 17, 23, 30})
# IBP_3_7_IV2: since then partitions state their replicas' directories (KIP-858).
DIRECTORIES_SINCE = 17
# Dynamic voters (KIP-853).
KRAFT_VERSION_LATEST = 1
# Consumer groups (KIP-848).
GROUP_VERSION_LATEST = 1
# Transactions of the second version (KIP-890).
TRANSACTION_VERSION_LATEST = 2

# name -> (min, max) that this server serves, as its registrations and ApiVersions state it.
SUPPORTED: Mapping[str, tuple[int, int]] = {
    METADATA_VERSION: (METADATA_VERSION_MIN, METADATA_VERSION_LATEST),
    KRAFT_VERSION: (0, KRAFT_VERSION_LATEST),
    GROUP_VERSION: (0, GROUP_VERSION_LATEST),
    TRANSACTION_VERSION: (0, TRANSACTION_VERSION_LATEST),
}

# name -> level that formatting a directory writes to `bootstrap.checkpoint`.
BOOTSTRAP: Mapping[str, int] = {
    METADATA_VERSION: METADATA_VERSION_LATEST,
    GROUP_VERSION: GROUP_VERSION_LATEST,
    TRANSACTION_VERSION: TRANSACTION_VERSION_LATEST,
}


def served(finalized: Mapping[str, int]) -> dict[str, int]:
    """The finalized levels that clients may rely on here.

    A directory that Apache Kafka formatted finalizes more than this server serves; those levels
    stay in the metadata (so that Kafka can take the directory back) but are not advertised.
    """
    levels: dict[str, int] = {}
    for name, level in finalized.items():
        if name in SUPPORTED and level > 0:
            levels[name] = min(level, SUPPORTED[name][1])
    return levels


def states_directories(finalized: Mapping[str, int]) -> bool:
    """Whether the metadata has room for where replicas are (`isDirectoryAssignmentSupported`)."""
    return finalized.get(METADATA_VERSION, 0) >= DIRECTORIES_SINCE


def metadata_changed(lower: int, higher: int) -> bool:
    """Whether metadata of the higher metadata.version may not be stated in the lower one."""
    return any(lower < level <= higher for level in _METADATA_CHANGES)
