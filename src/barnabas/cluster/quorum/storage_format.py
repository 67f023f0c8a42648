"""Formatting a data directory as Kafka 4.3's `kafka-storage format --standalone` does.

Dynamic quorum (kraft.version 1): the voters stand in the snapshot `0-0.checkpoint` of the quorum's
log, the feature levels that the first controller writes in `bootstrap.checkpoint`.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from barnabas.cluster.metadata.feature_levels import BOOTSTRAP, KRAFT_VERSION_LATEST
from barnabas.cluster.metadata.image import Endpoint
from barnabas.cluster.metadata.metadata_snapshot import (
    BOOTSTRAP_CHECKPOINT,
    Snapshot,
    SnapshotId,
    encode_snapshot,
)
from barnabas.cluster.quorum.voters import ReplicaKey, Voter, VoterSet
from barnabas.log.file_operations import replace_file
from barnabas.protocol.records.metadata_records import FeatureLevelRecord
from barnabas.protocol.types import Uuid

METADATA_DIRECTORY = "__cluster_metadata-0"


def format_metadata_directory(
    log_directory: Path,
    *,
    node_id: int,
    directory_id: Uuid,
    controller_endpoints: Iterable[Endpoint],
    now_ms: int,
    features: Mapping[str, int] = BOOTSTRAP,
) -> None:
    """Write both checkpoints for a quorum whose only voter is this node.

    `meta.properties` is the log's matter (`directory_id` is the one written there). Each file
    appears whole or not at all; formatting again after a crash in between completes it.
    """
    bootstrap = Snapshot(
        records=[
            FeatureLevelRecord(name=name, feature_level=level)
            for name, level in sorted(features.items(), key=_metadata_version_first)
        ]
    )
    voter = Voter(ReplicaKey(node_id, directory_id), tuple(controller_endpoints))
    quorum = Snapshot(
        kraft_version=KRAFT_VERSION_LATEST,
        voters=VoterSet.of(voter),
        last_timestamp_ms=now_ms,
    )
    metadata_directory = log_directory / METADATA_DIRECTORY
    metadata_directory.mkdir(parents=True, exist_ok=True)
    for path, snapshot in (
        (metadata_directory / SnapshotId(0, 0).file_name, quorum),
        (log_directory / BOOTSTRAP_CHECKPOINT, bootstrap),
    ):
        replace_file(path, b"".join(encode_snapshot(snapshot, now_ms)))


def _metadata_version_first(feature: tuple[str, int]) -> tuple[bool, str]:
    return feature[0] != "metadata.version", feature[0]
