"""What a log knows of the producers that write to it (Kafka's `ProducerStateManager`).

For each producer id: its epoch, its last five batches, by which a repeated batch is recognised,
and the transaction it has open. Everything follows from the batches in the log; snapshots only
spare reading it again. A snapshot holds the last batch alone, so after a restart the four before
it are looked up in the log at the first batch that does not continue the sequence.
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple

from barnabas.log.segment.segment_index import AbortedTxn
from barnabas.protocol.batches.batch_header import BatchHeader
from barnabas.protocol.batches.compression import Buffer
from barnabas.protocol.batches.control_batches import TransactionMarker, decode_marker
from barnabas.protocol.batches.crc import crc32c
from barnabas.protocol.batches.record_decoding import read_records
from barnabas.protocol.errors import ErrorCode, KafkaError

WINDOW: Final = 5
"""Batches of a producer that a repeated one is compared with."""

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
        """The offset of its first record."""
        return self.last_offset - self.offset_delta


class ProducerEntry:
    """One producer id."""

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
        # Came from a snapshot: batches before those in `batches` may be in the log.
        self.window_is_cut = False

    @property
    def last_offset(self) -> int:
        """The last offset it wrote, -1 if only markers are known."""
        return self.batches[-1].last_offset if self.batches else -1

    def start_epoch(self, epoch: int) -> None:
        """Forget the batches of an older epoch."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()
            self.last_sequence = _NO_SEQUENCE
            self.window_is_cut = False

    def add(self, header: BatchHeader, base_offset: int) -> None:
        """Take in a data batch that was appended at `base_offset`."""
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
        """The batch of the window that this one repeats."""
        if header.producer_epoch == self.epoch:
            first, last = header.base_sequence, header.last_sequence
            for batch in self.batches:
                if batch.first_sequence == first and batch.last_sequence == last:
                    return batch
        return None


def read_marker(batch: Buffer, header: BatchHeader) -> TransactionMarker | None:
    """What a control batch says of the end of a transaction; None if it is of another kind."""
    records = read_records(batch, 0, header)
    return decode_marker(records[0].key, records[0].value) if records else None


class ProducerState:
    """All producers of one log, up to `end_offset`."""

    __slots__ = ("_completed", "_ongoing", "end_offset", "producers", "snapshot_offset")

    def __init__(self, end_offset: int = 0) -> None:
        self.producers: dict[int, ProducerEntry] = {}
        self.end_offset = end_offset
        self.snapshot_offset = -1  # where the last snapshot was taken or loaded
        self._ongoing: dict[int, int] = {}  # producer id -> first offset of its open transaction
        # First offset and marker's offset of transactions that ended above the high watermark.
        self._completed: list[tuple[int, int]] = []

    # Checks before an append

    def check_client_batch(self, header: BatchHeader) -> BatchMetadata | None:
        """Judge a client's batch; the earlier one that it repeats, None if it is new.

        Raises KafkaError INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, or
        INVALID_TXN_STATE. An unknown producer may begin with any sequence (KAFKA-5793).
        """
        entry = self.producers.get(header.producer_id)
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
            self.check_epoch(entry, epoch)
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

    def check_epoch(self, entry: ProducerEntry, epoch: int) -> None:
        """Raise INVALID_PRODUCER_EPOCH when a newer epoch of the producer was seen."""
        if epoch < entry.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch of producer {entry.producer_id} is {epoch}, which is smaller than the "
                f"last seen epoch {entry.epoch}",
            )

    def check_marker(self, header: BatchHeader, marker: TransactionMarker) -> None:
        """Judge a coordinator's marker: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED."""
        entry = self.producers.get(header.producer_id)
        if entry is None:
            return
        self.check_epoch(entry, header.producer_epoch)
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"Invalid coordinator epoch for producer {header.producer_id}: "
                f"{marker.coordinator_epoch} (zombie), {entry.coordinator_epoch} (current)",
            )

    # What was appended

    def append(self, header: BatchHeader, base_offset: int) -> None:
        """Take in a data batch of a producer."""
        producer_id = header.producer_id
        entry = self.producers.get(producer_id)
        if entry is None:
            entry = self.producers[producer_id] = ProducerEntry(producer_id)
        entry.add(header, base_offset)
        if header.is_transactional and entry.txn_first_offset < 0:
            entry.txn_first_offset = base_offset
            self._ongoing[producer_id] = base_offset

    def end_transaction(
        self, header: BatchHeader, base_offset: int, marker: TransactionMarker
    ) -> AbortedTxn | None:
        """Take in a marker; what goes to the transaction index, None after a commit."""
        producer_id = header.producer_id
        entry = self.producers.get(producer_id)
        if entry is None:
            entry = self.producers[producer_id] = ProducerEntry(producer_id)
        entry.start_epoch(header.producer_epoch)
        first_offset = entry.txn_first_offset
        entry.txn_first_offset = -1
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = header.max_timestamp
        if first_offset < 0:
            return None  # the transaction wrote nothing here
        self._ongoing.pop(producer_id, None)
        self._completed.append((first_offset, base_offset))
        if marker.is_commit:
            return None
        stable = min(self._ongoing.values(), default=base_offset + 1)
        return AbortedTxn(producer_id, first_offset, base_offset, stable)

    @property
    def has_transactions(self) -> bool:
        """Whether any transaction is open or ended above the high watermark."""
        return bool(self._ongoing or self._completed)

    def first_unstable_offset(self) -> int | None:
        """The first offset of any transaction that is open, or whose end is not committed."""
        first = min(self._ongoing.values(), default=None)
        for completed, _ in self._completed:
            if first is None or completed < first:
                first = completed
        return first

    def high_watermark_advanced(self, high_watermark: int) -> None:
        """Ended transactions whose marker lies below it are settled."""
        if self._completed:
            self._completed = [each for each in self._completed if each[1] >= high_watermark]

    def advance_log_start(self, offset: int) -> None:
        """Transactions that ended below the log's start concern nobody."""
        self._completed = [each for each in self._completed if each[1] >= offset]

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers silent for that long, unless in a transaction; how many."""
        idle = [
            producer_id
            for producer_id, entry in self.producers.items()
            if entry.txn_first_offset < 0 and now_ms - entry.last_timestamp >= expiration_ms
        ]
        for producer_id in idle:
            del self.producers[producer_id]
        return len(idle)

    def restore_window(self, entry: ProducerEntry, headers: Iterable[BatchHeader]) -> None:
        """Fill up a window that a snapshot cut, from the log's headers in their order."""
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
        """A snapshot file's content (`ProducerSnapshot`, version 1)."""
        body = bytearray(_COUNT.pack(len(self.producers)))
        for entry in self.producers.values():
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
        """Begin with a snapshot that was taken at `offset`; SnapshotError if it is damaged."""
        entries = list(_decode(snapshot))
        self.producers = {entry.producer_id: entry for entry in entries}
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
        raise SnapshotError(f"{size} bytes are no snapshot")
    version, crc = _SNAPSHOT_HEAD.unpack_from(snapshot)
    if version != _SNAPSHOT_VERSION:
        raise SnapshotError(f"version {version} is unknown")
    body = snapshot[_SNAPSHOT_HEAD.size :]
    if crc32c(body) != crc:
        raise SnapshotError("the crc is wrong")
    (count,) = _COUNT.unpack_from(body)
    if len(body) != _COUNT.size + count * _ENTRY.size:
        raise SnapshotError(f"{len(body)} bytes do not hold {count} producers")
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
