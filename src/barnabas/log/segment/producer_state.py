"""The producers that write to a log (Kafka's `ProducerStateManager`).

For each producer id the state has the epoch, the last five batches, which identify duplicates, and
the open transaction. All of it follows from the batches in the log; snapshots make a start faster.
A snapshot has only a producer's last batch. So after a restart, the four batches before it are read
from the log when a batch does not continue the sequence.
"""

from collections.abc import Collection, Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple

from barnabas.log.segment.segment_index import AbortedTxn
from barnabas.protocol.batches.batch_header import BatchHeader
from barnabas.protocol.batches.compression import Buffer
from barnabas.protocol.batches.control_batches import (
    MIRROR_ENDED,
    TransactionMarker,
    decode_marker,
)
from barnabas.protocol.batches.crc import crc32c
from barnabas.protocol.batches.record_decoding import read_records
from barnabas.protocol.errors import ErrorCode, KafkaError

WINDOW: Final = 5
"""The number of a producer's batches that are kept to identify duplicates."""

NO_EPOCH: Final = -1
_NO_SEQUENCE: Final = -1
_SEQUENCE_MAX: Final = (1 << 31) - 1

_SNAPSHOT_VERSION: Final = 1
_SNAPSHOT_HEAD: Final = Struct(">hI")
_COUNT: Final = Struct(">i")
_ENTRY: Final = Struct(">qhiqiqiq")


class SnapshotError(ValueError):
    """A producer snapshot that is damaged or of an unknown version."""


class BatchMetadata(NamedTuple):
    """One batch in a producer's window; the timestamp in ms."""

    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        """The offset of the batch's first record."""
        return self.last_offset - self.offset_delta


class ProducerEntry:
    """The state of one producer id."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_sequence",
        "last_timestamp",
        "producer_id",
        "txn_first_offset",
        "window_is_cut",
    )

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.epoch = NO_EPOCH
        self.last_sequence = _NO_SEQUENCE
        self.last_timestamp = -1
        self.coordinator_epoch = -1
        self.txn_first_offset = -1
        self.batches: list[BatchMetadata] = []
        # True after a snapshot: the log may have more batches than `batches`.
        self.window_is_cut = False

    @property
    def last_offset(self) -> int:
        """The last offset that the producer wrote; -1 if only markers are known."""
        return self.batches[-1].last_offset if self.batches else -1

    def start_epoch(self, epoch: int) -> None:
        """Start an epoch; the batches of an older epoch are removed."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()
            self.last_sequence = _NO_SEQUENCE
            self.window_is_cut = False

    def add(self, header: BatchHeader, base_offset: int) -> None:
        """Add a data batch that was appended at `base_offset`."""
        self.start_epoch(header.producer_epoch)
        delta = header.last_offset_delta
        last_sequence = header.last_sequence
        batches = self.batches
        batches.append(
            BatchMetadata(
                header.base_sequence,
                last_sequence,
                base_offset + delta,
                delta,
                header.max_timestamp,
            )
        )
        if len(batches) > WINDOW:
            del batches[0]
        self.last_sequence = last_sequence
        self.last_timestamp = header.max_timestamp

    def duplicate_of(self, header: BatchHeader) -> BatchMetadata | None:
        """Return the earlier batch that this one repeats; None if it is new."""
        if header.producer_epoch == self.epoch:
            first, last = header.base_sequence, header.last_sequence
            for batch in self.batches:
                if batch.first_sequence == first and batch.last_sequence == last:
                    return batch
        return None


def read_marker(batch: Buffer, header: BatchHeader) -> TransactionMarker | None:
    """Return the marker in a control batch; None for another kind of control batch."""
    records = read_records(batch, 0, header)
    return decode_marker(records[0].key, records[0].value) if records else None


class ProducerState:
    """The producers of one log, up to `end_offset`."""

    __slots__ = ("_completed", "_entries", "_ongoing", "end_offset", "snapshot_offset")

    def __init__(self, end_offset: int = 0) -> None:
        self._entries: dict[int, ProducerEntry] = {}
        self.end_offset = end_offset
        self.snapshot_offset = -1  # where the last snapshot was taken or loaded
        self._ongoing: dict[int, int] = {}  # producer id -> first offset of its open transaction
        # First offset and marker's offset of transactions that ended above the high watermark.
        self._completed: list[tuple[int, int]] = []

    # Queries

    def find(self, producer_id: int) -> ProducerEntry | None:
        """Return the state of a producer; None for a producer without one in this log."""
        return self._entries.get(producer_id)

    def entries(self) -> Collection[ProducerEntry]:
        """Return the states of all producers."""
        return self._entries.values()

    def is_in_transaction(self, producer_id: int, epoch: int) -> bool:
        """True when the producer has written into the partition in its present transaction."""
        entry = self._entries.get(producer_id)
        return entry is not None and entry.txn_first_offset >= 0 and entry.epoch == epoch

    # Checks before an append

    def check_client_batch(self, header: BatchHeader) -> BatchMetadata | None:
        """Check a client's batch; return the earlier batch that it repeats, None if it is new.

        Raises KafkaError INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, or
        INVALID_TXN_STATE. An unknown producer may start with any sequence (KAFKA-5793).
        """
        entry = self._entries.get(header.producer_id)
        if entry is None:
            return None
        epoch, sequence = header.producer_epoch, header.base_sequence
        if epoch == entry.epoch:
            last = entry.last_sequence
            if sequence != last + 1 and not (last == _SEQUENCE_MAX and not sequence):
                duplicate = entry.duplicate_of(header)
                if duplicate is not None:
                    return duplicate
                raise KafkaError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"Out of order sequence number for producer {header.producer_id}: "
                    f"{sequence} (incoming seq. number), {last} (current end sequence number)",
                )
        else:
            self.check_epoch(header.producer_id, epoch)
            if sequence and entry.epoch != NO_EPOCH:
                raise KafkaError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"Invalid sequence number for new epoch of producer {header.producer_id}: "
                    f"{epoch} (request epoch), {sequence} (seq. number), {entry.epoch} "
                    "(current producer epoch)",
                )
        if entry.txn_first_offset >= 0 and not header.is_transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"Expected transactional write from producer {header.producer_id}",
            )
        return None

    def check_epoch(self, producer_id: int, epoch: int) -> None:
        """Raise INVALID_PRODUCER_EPOCH when the log has a newer epoch of the producer."""
        entry = self._entries.get(producer_id)
        if entry is not None and epoch < entry.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch of producer {producer_id} is {epoch}, which is smaller than the "
                f"last seen epoch {entry.epoch}",
            )

    def check_marker(self, header: BatchHeader, marker: TransactionMarker) -> None:
        """Check a coordinator's marker, or that of a promotion, which no coordinator fences.

        Raises KafkaError INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED.
        """
        entry = self._entries.get(header.producer_id)
        if entry is None:
            return
        self.check_epoch(header.producer_id, header.producer_epoch)
        if marker.coordinator_epoch == MIRROR_ENDED:
            return
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"Invalid coordinator epoch for producer {header.producer_id}: "
                f"{marker.coordinator_epoch} (zombie), {entry.coordinator_epoch} (current)",
            )

    # Appended batches

    def append(self, header: BatchHeader, base_offset: int) -> None:
        """Add a data batch of a producer."""
        producer_id = header.producer_id
        entry = self._entries.get(producer_id)
        if entry is None:
            entry = self._entries[producer_id] = ProducerEntry(producer_id)
        entry.add(header, base_offset)
        if header.is_transactional and entry.txn_first_offset < 0:
            entry.txn_first_offset = base_offset
            self._ongoing[producer_id] = base_offset

    def end_transaction(
        self, header: BatchHeader, base_offset: int, marker: TransactionMarker
    ) -> AbortedTxn | None:
        """Add a marker. Return the entry for the transaction index, None after a commit.

        A promotion's marker also removes the producer, whose id is another cluster's.
        """
        producer_id = header.producer_id
        entry = self._entries.get(producer_id)
        if entry is None:
            entry = self._entries[producer_id] = ProducerEntry(producer_id)
        entry.start_epoch(header.producer_epoch)
        first_offset = entry.txn_first_offset
        entry.txn_first_offset = -1
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = header.max_timestamp
        if marker.coordinator_epoch == MIRROR_ENDED:
            del self._entries[producer_id]
        if first_offset < 0:
            return None  # the transaction has no records in this partition
        self._ongoing.pop(producer_id, None)
        self._completed.append((first_offset, base_offset))
        if marker.is_commit:
            return None
        stable = min(self._ongoing.values(), default=base_offset + 1)
        return AbortedTxn(producer_id, first_offset, base_offset, stable)

    @property
    def has_transactions(self) -> bool:
        """True when a transaction is open, or ended above the high watermark."""
        return bool(self._ongoing or self._completed)

    def first_unstable_offset(self) -> int | None:
        """Return the first offset of all transactions that are open or whose end is uncommitted."""
        first = min(self._ongoing.values(), default=None)
        for completed, _ in self._completed:
            if first is None or completed < first:
                first = completed
        return first

    def high_watermark_advanced(self, high_watermark: int) -> None:
        """Remove ended transactions whose marker is below the high watermark."""
        if self._completed:
            self._completed = [each for each in self._completed if each[1] >= high_watermark]

    def advance_log_start(self, offset: int) -> None:
        """Remove ended transactions whose marker is below the log start offset."""
        self._completed = [each for each in self._completed if each[1] >= offset]

    def forget_idle(self) -> None:
        """Remove all producers without an open transaction."""
        self._entries = {
            producer_id: self._entries[producer_id]
            for producer_id in self._ongoing
            if producer_id in self._entries
        }

    def open_before(self, offset: int) -> list[ProducerEntry]:
        """Return the producers whose transactions are open and began below `offset`."""
        return [
            self._entries[producer_id]
            for producer_id, first in self._ongoing.items()
            if first < offset and producer_id in self._entries
        ]

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Remove producers without batches for that time and without a transaction.

        Return their number.
        """
        idle = [
            producer_id
            for producer_id, entry in self._entries.items()
            if entry.txn_first_offset < 0 and now_ms - entry.last_timestamp >= expiration_ms
        ]
        for producer_id in idle:
            del self._entries[producer_id]
        return len(idle)

    def restore_window(self, entry: ProducerEntry, headers: Iterable[BatchHeader]) -> None:
        """Add the batches that the snapshot does not have, from the log's headers in order."""
        entry.window_is_cut = False
        known = {batch.last_offset for batch in entry.batches}
        found = [
            BatchMetadata(
                header.base_sequence,
                header.last_sequence,
                header.last_offset,
                header.last_offset_delta,
                header.max_timestamp,
            )
            for header in headers
            if header.producer_id == entry.producer_id
            and header.producer_epoch == entry.epoch
            and not header.is_control
            and header.last_offset not in known
        ]
        merged = sorted([*found[-WINDOW:], *entry.batches], key=lambda batch: batch.last_offset)
        entry.batches = merged[-WINDOW:]

    # Snapshots

    def encode(self) -> bytes:
        """Return the content of a snapshot file (`ProducerSnapshot`, version 1)."""
        body = bytearray(_COUNT.pack(len(self._entries)))
        for entry in self._entries.values():
            last = entry.batches[-1] if entry.batches else None
            body += _ENTRY.pack(
                entry.producer_id,
                entry.epoch,
                entry.last_sequence,
                -1 if last is None else last.last_offset,
                0 if last is None else last.offset_delta,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.txn_first_offset,
            )
        return _SNAPSHOT_HEAD.pack(_SNAPSHOT_VERSION, crc32c(body)) + body

    def load(self, snapshot: bytes, offset: int) -> None:
        """Load a snapshot that was taken at `offset`. Raises SnapshotError if it is damaged."""
        entries = list(_decode(snapshot))
        self._entries = {entry.producer_id: entry for entry in entries}
        self._completed = []
        self._ongoing = {
            entry.producer_id: entry.txn_first_offset
            for entry in entries
            if entry.txn_first_offset >= 0
        }
        self.end_offset = self.snapshot_offset = offset


def _decode(snapshot: bytes) -> Iterator[ProducerEntry]:
    size = len(snapshot)
    if size < _SNAPSHOT_HEAD.size + _COUNT.size:
        raise SnapshotError(f"{size} bytes are too few for a snapshot")
    version, crc = _SNAPSHOT_HEAD.unpack_from(snapshot)
    if version != _SNAPSHOT_VERSION:
        raise SnapshotError(f"version {version} is unknown")
    body = snapshot[_SNAPSHOT_HEAD.size :]
    if crc32c(body) != crc:
        raise SnapshotError("its crc is wrong")
    (count,) = _COUNT.unpack_from(body)
    if len(body) != _COUNT.size + count * _ENTRY.size:
        raise SnapshotError(f"{len(body)} bytes do not match {count} producers")
    for fields in _ENTRY.iter_unpack(body[_COUNT.size :]):
        entry = ProducerEntry(fields[0])
        (_, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, first) = fields
        entry.epoch = epoch
        entry.last_sequence = last_sequence
        entry.last_timestamp = timestamp
        entry.coordinator_epoch = coordinator_epoch
        entry.txn_first_offset = first
        if last_offset >= 0:
            first_sequence = (last_sequence - delta) % (_SEQUENCE_MAX + 1)
            entry.batches.append(
                BatchMetadata(first_sequence, last_sequence, last_offset, delta, timestamp)
            )
            entry.window_is_cut = True
        yield entry
