"""A snapshot of a metadata image: its id and its content."""

import attrs

from barnabas.cluster.metadata.feature_levels import METADATA_VERSION
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.cluster.metadata.image_records import image_records
from barnabas.cluster.metadata.record_versions import records_at
from barnabas.cluster.quorum.metadata_snapshot import Snapshot, SnapshotId, encode_snapshot
from barnabas.cluster.quorum.voters import VoterSet


@attrs.frozen(slots=True)
class ImageSnapshot:
    """An image to write, with the voters and the kraft.version at its offset.

    `timestamp_ms` is the time of the last record that it contains.
    """

    image: MetadataImage
    voters: VoterSet
    kraft_version: int
    timestamp_ms: int

    @property
    def id(self) -> SnapshotId:
        """Return the end offset, and the epoch of the last record.

        The epoch may be earlier than the current one.
        """
        return SnapshotId(self.image.offset + 1, self.image.record_epoch)

    def encode(self, now_ms: int) -> bytes:
        """Return the content of the file; this takes long for a large image."""
        level = self.image.features[METADATA_VERSION]
        records = records_at(image_records(self.image), level)
        snapshot = Snapshot(records, self.kraft_version, self.voters, self.timestamp_ms)
        batches = encode_snapshot(snapshot, now_ms, epoch=self.id.epoch, metadata_version=level)
        return b"".join(batches)
