"""Read the quorum's log at start-up: its batches, into a metadata delta and the voters.

Records between BeginTransaction and EndTransaction take effect together, or after AbortTransaction
not at all (KIP-868): the loader holds them back until it reads the end.
"""

from collections.abc import Iterable

from barnabas.cluster.metadata.delta import MetadataDelta
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.cluster.metadata.stepwise import Steps, run_through
from barnabas.cluster.quorum.epoch_history import EpochHistory, OffsetAndEpoch
from barnabas.cluster.quorum.metadata_snapshot import (
    RECORDS_PER_STEP,
    Snapshot,
    SnapshotId,
    decode_control_record,
)
from barnabas.cluster.quorum.raft import BOOTSTRAP_VOTERS_OFFSET
from barnabas.cluster.quorum.voters import VoterSet
from barnabas.cluster.quorum.voters_history import VotersHistory
from barnabas.protocol.batches.batch_header import iter_batches
from barnabas.protocol.batches.compression import Buffer
from barnabas.protocol.batches.record_decoding import read_records
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    decode_metadata_record,
)


class MetadataLoader:
    """Reads a snapshot, and then batches of the log in order.

    `epochs` has the end of the log and its leader epochs, `history` the voters by offset, from
    `static_voters` on where the log states none.
    """

    def __init__(self, image: MetadataImage, static_voters: VoterSet | None = None) -> None:
        self.delta = MetadataDelta(image)
        self.epochs = EpochHistory([], 0)
        self.history = VotersHistory(static_voters or VoterSet.of(), 0)
        self.last_timestamp_ms = 0
        self._transaction: list[Message] | None = None

    def load_snapshot(self, snapshot: Snapshot, snapshot_id: SnapshotId) -> None:
        """Start with the content of a snapshot."""
        run_through(self.snapshot_loading(snapshot, snapshot_id))

    def snapshot_loading(self, snapshot: Snapshot, snapshot_id: SnapshotId) -> Steps[None]:
        """Start with the content of a snapshot, in steps."""
        for number, record in enumerate(snapshot.records):
            if not number % RECORDS_PER_STEP:
                yield
            self.delta.replay(record)
        self.epochs.truncate_to_snapshot(OffsetAndEpoch(snapshot_id.end_offset, snapshot_id.epoch))
        self.last_timestamp_ms = snapshot.last_timestamp_ms
        if snapshot.voters is not None:
            # A snapshot of the log repeats the voters of an earlier record.
            offset = max(snapshot_id.end_offset - 1, BOOTSTRAP_VOTERS_OFFSET)
            self.history = VotersHistory(snapshot.voters, snapshot.kraft_version, offset)

    def load_batches(self, data: Buffer) -> None:
        """Replay the batches of `data` that were not read before.

        Raises ProtocolError or CorruptBatch on a malformed record, KeyError on a record that
        contradicts the earlier ones.
        """
        run_through(self.batches_loading(data))

    def batches_loading(self, data: Buffer) -> Steps[None]:
        """Replay batches in steps; see `load_batches`."""
        for position, header in iter_batches(data):
            if header.last_offset < self.epochs.end_offset:
                continue
            yield
            for number, record in enumerate(read_records(data, position, header), start=1):
                if not number % RECORDS_PER_STEP:
                    yield
                if header.is_control:
                    self._take_control(decode_control_record(record), record.offset)
                else:
                    self._take(decode_metadata_record(record.value or b""))
            self.last_timestamp_ms = header.max_timestamp
            epoch = header.partition_leader_epoch
            self.epochs.extend(epoch, header.base_offset, header.next_offset)

    def image(self) -> MetadataImage:
        """Return the image after all records; an open transaction at the end has no effect."""
        return self.delta.apply(self.epochs.end_offset - 1, self.epochs.last_epoch)

    @property
    def open_transaction(self) -> "list[Message] | None":
        """The records of the transaction that the log does not end; None without one."""
        return self._transaction

    def _take_control(self, message: Message | None, offset: int) -> None:
        if message is not None:
            self.history.take([message], offset)

    def _take(self, record: Message) -> None:
        if isinstance(record, BeginTransactionRecord):
            self._transaction = []
        elif isinstance(record, AbortTransactionRecord):
            self._transaction = None
        elif isinstance(record, EndTransactionRecord):
            self._replay_all(self._transaction or ())
            self._transaction = None
        elif self._transaction is not None:
            self._transaction.append(record)
        else:
            self.delta.replay(record)

    def _replay_all(self, records: Iterable[Message]) -> None:
        for record in records:
            self.delta.replay(record)
