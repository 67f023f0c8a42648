"""The quorum's files on one simulated disk: the state file, the log, and its snapshots."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from barnabas.cluster.metadata.image import MetadataImage
from barnabas.cluster.quorum.epoch_history import OffsetAndEpoch
from barnabas.cluster.quorum.image_snapshot import ImageSnapshot
from barnabas.cluster.quorum.metadata_loader import MetadataLoader
from barnabas.cluster.quorum.metadata_snapshot import (
    SnapshotId,
    control_batch,
    decode_snapshot,
)
from barnabas.cluster.quorum.quorum_state import QuorumState
from barnabas.cluster.quorum.raft_state import Entry
from barnabas.cluster.quorum.storage_format import formatted_files
from barnabas.cluster.quorum.voters import VoterSet
from barnabas.protocol.batches.batch_building import build_batch
from barnabas.protocol.batches.record_decoding import Record
from barnabas.protocol.messages_base import Message
from barnabas.protocol.types import Uuid

CLUSTER_ID: Final = "simulated-cluster-0000"


@attrs.define(slots=True, eq=False)
class QuorumDisk:
    """The quorum's files of one directory; `synced` entries survive a loss of power.

    The state file and the snapshots are synced when they are written. `start_offset` is where the
    log begins; the snapshots have what was before.
    """

    directory_id: Uuid
    state: QuorumState = attrs.field(factory=QuorumState)
    entries: list[Entry] = attrs.field(factory=list[Entry])
    synced: int = 0
    start_offset: int = 0
    snapshots: dict[SnapshotId, bytes] = attrs.field(factory=dict[SnapshotId, bytes])
    fsync_ms: tuple[float, float] = (0.2, 2.0)
    static_voters: VoterSet | None = None
    """The voters of controller.quorum.voters, under kraft.version 0."""
    bootstrap: list[Message] = attrs.field(factory=list[Message])
    """The records of `bootstrap.checkpoint`, which the first controller of the cluster writes."""

    @property
    def end_offset(self) -> int:
        """The offset after the last entry."""
        return self.entries[-1].next_offset if self.entries else self.start_offset

    @property
    def synced_end(self) -> int:
        """The offset below which a loss of power changes nothing."""
        return self.entries[self.synced - 1].next_offset if self.synced else self.start_offset

    def format(self, voters: VoterSet | None, levels: Mapping[str, int]) -> None:
        """Write the files of a new directory; a node without initial voters observes (KIP-853)."""
        for name, content in formatted_files(voters=voters, now_ms=0, features=levels):
            snapshot_id = SnapshotId.parse(name.rpartition("/")[2])
            if snapshot_id is None:
                self.bootstrap = decode_snapshot(content).records
            else:
                self.snapshots[snapshot_id] = content

    def load(self, image: MetadataImage) -> MetadataLoader:
        """Read the latest snapshot and the entries after it, as `MetadataLog.read_again`."""
        loader = MetadataLoader(image, self.static_voters)
        if self.snapshots:
            latest = max(self.snapshots)
            loader.load_snapshot(decode_snapshot(self.snapshots[latest]), latest)
            if not self._follows(latest):
                self.restart_at(latest.end_offset)
        for entry in self.between(loader.epochs.end_offset, self.end_offset):
            loader.load_batches(encoded_entry(entry))
        return loader

    def _follows(self, snapshot: SnapshotId) -> bool:
        """True when the log continues the snapshot; a crash may separate both."""
        last_epoch = self.entries[-1].epoch if self.entries else snapshot.epoch
        return self.end_offset >= snapshot.end_offset and last_epoch >= snapshot.epoch

    def truncate(self, offset: int) -> None:
        """Remove the entries from `offset` on."""
        while self.entries and self.entries[-1].base_offset >= offset:
            self.entries.pop()
        self.synced = min(self.synced, len(self.entries))

    def restart_at(self, offset: int) -> None:
        """Remove all entries; the log continues at the end of a snapshot."""
        self.entries.clear()
        self.synced, self.start_offset = 0, offset

    def read(self, offset: int, count: int) -> list[Entry]:
        """Return at most `count` entries from `offset` on."""
        index = self.index_of(offset)
        return self.entries[index : index + count]

    def between(self, start: int, end: int) -> Iterator[Entry]:
        """Yield the entries from `start` on that end at or below `end`."""
        for index in range(self.index_of(start), len(self.entries)):
            entry = self.entries[index]
            if entry.next_offset > end:
                return
            yield entry

    def index_of(self, offset: int) -> int:
        """Return the index of the first entry at or after an offset."""
        return bisect_left(self.entries, offset, key=_base_offset)

    def write_snapshot(self, snapshot: ImageSnapshot, now_ms: int) -> None:
        """Write a snapshot."""
        self.snapshots[snapshot.id] = snapshot.encode(now_ms)

    def remove_old(self, kept: int) -> OffsetAndEpoch | None:
        """Keep the latest snapshots, and the entries after the first of them.

        Return the snapshot that the log starts from now, if it changed.
        """
        ids = sorted(self.snapshots)
        for old in ids[:-kept]:
            del self.snapshots[old]
        first = ids[-kept:][0]
        removed = self.index_of(first.end_offset)
        if first.end_offset <= self.start_offset or not removed:
            return None
        del self.entries[:removed]
        self.synced = max(0, self.synced - removed)
        self.start_offset = first.end_offset
        return OffsetAndEpoch(first.end_offset, first.epoch)

    def lose_power(self, keep: int) -> None:
        """Lose entries that were not synced; `keep` of them are on the disk by chance."""
        del self.entries[self.synced + keep :]
        self.synced = len(self.entries)


def _base_offset(entry: Entry) -> int:
    return entry.base_offset


def encoded_entry(entry: Entry) -> bytes | bytearray:
    """Return the batch of an entry, as it is in a file and in a fetch."""
    if entry.control:
        return control_batch(entry.control, entry.base_offset, entry.epoch, entry.timestamp_ms)
    records = [
        Record(entry.base_offset + delta, entry.timestamp_ms, None, value)
        for delta, value in enumerate(entry.records)
    ]
    return build_batch(records, base_offset=entry.base_offset, leader_epoch=entry.epoch)
