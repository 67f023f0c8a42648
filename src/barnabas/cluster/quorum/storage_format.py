"""The files that `kafka-storage format --standalone` of Kafka 4.3 writes, as content.

Dynamic quorum (kraft.version 1): the snapshot `0-0.checkpoint` of the quorum's log has the voters,
`bootstrap.checkpoint` the feature levels that the first controller writes to the log.
"""

from collections.abc import Iterable, Iterator, Mapping

from barnabas.cluster.metadata.feature_levels import BOOTSTRAP, KRAFT_VERSION_LATEST
from barnabas.cluster.metadata.image import Endpoint
from barnabas.cluster.metadata.metadata_snapshot import (
    BOOTSTRAP_CHECKPOINT,
    Snapshot,
    SnapshotId,
    encode_snapshot,
)
from barnabas.cluster.quorum.voters import ReplicaKey, Voter, VoterSet
from barnabas.protocol.records.metadata_records import FeatureLevelRecord
from barnabas.protocol.types import Uuid

METADATA_DIRECTORY = "__cluster_metadata-0"


def standalone_files(
    *,
    node_id: int,
    directory_id: Uuid,
    controller_endpoints: Iterable[Endpoint],
    now_ms: int,
    features: Mapping[str, int] = BOOTSTRAP,
) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each file of a quorum whose only voter is this node.

    Names are relative to the log directory. `meta.properties`, which has `directory_id`, is not
    among them.
    """
    voter = Voter(ReplicaKey(node_id, directory_id), tuple(controller_endpoints))
    quorum = Snapshot(
        kraft_version=KRAFT_VERSION_LATEST,
        voters=VoterSet.of(voter),
        last_timestamp_ms=now_ms,
    )
    yield f"{METADATA_DIRECTORY}/{SnapshotId(0, 0).file_name}", _encoded(quorum, now_ms)
    levels = sorted(features.items(), key=_metadata_version_first)
    bootstrap = Snapshot(
        records=[FeatureLevelRecord(name=name, feature_level=level) for name, level in levels]
    )
    yield BOOTSTRAP_CHECKPOINT, _encoded(bootstrap, now_ms)


def _encoded(snapshot: Snapshot, now_ms: int) -> bytes:
    return b"".join(encode_snapshot(snapshot, now_ms))


def _metadata_version_first(feature: tuple[str, int]) -> tuple[bool, str]:
    return feature[0] != "metadata.version", feature[0]
