"""Snapshot files and control records of the quorum's log: encode and decode.

A `.checkpoint` is a sequence of record batches: a control batch with the header (and with dynamic
voters, the kraft.version and the voters), batches of metadata records, and a control batch with the
footer. Its offsets start at 0 and have no meaning; its name says which records it replaces. Source:
Kafka's `RecordsSnapshotWriter` and `Snapshots`.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from barnabas.cluster.metadata.feature_levels import METADATA_VERSION_LATEST
from barnabas.cluster.metadata.record_versions import encode_at
from barnabas.cluster.metadata.stepwise import Steps, run_through
from barnabas.cluster.quorum.voters import VoterSet
from barnabas.protocol.batches.batch_building import build_batch
from barnabas.protocol.batches.batch_header import crc_matches, iter_batches
from barnabas.protocol.batches.control_batches import ControlType, control_key, control_type
from barnabas.protocol.batches.record_decoding import Record, read_records
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from barnabas.protocol.records.metadata_records import decode_metadata_record

BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"
RECORDS_PER_BATCH_MAX = 1024
RECORDS_PER_STEP = 50
"""Records that are decoded, or replayed, before the caller's loop may serve others."""

_CONTROL_TYPES: dict[type[Message], ControlType] = {
    LeaderChangeMessage: ControlType.LEADER_CHANGE,
    SnapshotHeaderRecord: ControlType.SNAPSHOT_HEADER,
    SnapshotFooterRecord: ControlType.SNAPSHOT_FOOTER,
    KRaftVersionRecord: ControlType.KRAFT_VERSION,
    VotersRecord: ControlType.KRAFT_VOTERS,
}
_CONTROL_MESSAGES: dict[int, type[Message]] = {
    number: kind for kind, number in _CONTROL_TYPES.items()
}
_FILE_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


@attrs.frozen(slots=True, order=True)
class SnapshotId:
    """The end offset of a snapshot, and the epoch of the last record before it."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        """The name of the file, as Kafka names it."""
        return f"{self.end_offset:020d}-{self.epoch:010d}.checkpoint"

    @classmethod
    def parse(cls, file_name: str) -> "SnapshotId | None":
        """Return the id in the name of a file, or None when it is not a snapshot."""
        match = _FILE_NAME.fullmatch(file_name)
        return cls(int(match[1]), int(match[2])) if match else None


@attrs.define(slots=True)
class Snapshot:
    """The content of a snapshot. With static voters, `voters` is None and `kraft_version` 0."""

    records: list[Message] = attrs.field(factory=list[Message])
    kraft_version: int = 0
    voters: VoterSet | None = None
    last_timestamp_ms: int = 0


def control_record(message: Message, offset: int, timestamp_ms: int) -> Record:
    """Return a control record: the key has its type, the value is the message."""
    key = control_key(_CONTROL_TYPES[type(message)])
    return Record(offset=offset, timestamp=timestamp_ms, key=key, value=message.encode(0))


def decode_control_record(record: Record) -> Message | None:
    """Return the message of a control record, or None for types that the quorum does not use.

    Raises ProtocolError on a malformed record.
    """
    type_id, value = control_type(record.key), record.value
    if type_id is None or value is None or len(value) < 2:
        raise ProtocolError("a control record has no type")
    kind = _CONTROL_MESSAGES.get(type_id)
    if kind is None:
        return None
    # The message's version is its own first field.
    version = int.from_bytes(value[:2], "big")
    return kind.decode(value, version)


def metadata_batch(
    messages: Iterable[Message],
    base_offset: int,
    epoch: int,
    timestamp_ms: int,
    metadata_version: int = METADATA_VERSION_LATEST,
) -> bytearray:
    """Return one batch of metadata records."""
    records = [
        Record(base_offset + delta, timestamp_ms, None, encode_at(message, metadata_version))
        for delta, message in enumerate(messages)
    ]
    return build_batch(records, base_offset=base_offset, leader_epoch=epoch)


def control_batch(
    messages: Iterable[Message], base_offset: int, epoch: int, timestamp_ms: int
) -> bytearray:
    """Return one batch of control records."""
    records = [
        control_record(message, base_offset + delta, timestamp_ms)
        for delta, message in enumerate(messages)
    ]
    return build_batch(records, base_offset=base_offset, leader_epoch=epoch, is_control=True)


def encode_snapshot(
    snapshot: Snapshot,
    now_ms: int,
    *,
    epoch: int = 0,
    metadata_version: int = METADATA_VERSION_LATEST,
) -> Iterator[bytes | bytearray]:
    """Yield the content of the file, batch by batch."""
    header = SnapshotHeaderRecord(last_contained_log_timestamp=snapshot.last_timestamp_ms)
    opening: list[Message] = [header]
    if snapshot.kraft_version > 0 and snapshot.voters is not None:
        opening += [
            KRaftVersionRecord(kraft_version=snapshot.kraft_version),
            snapshot.voters.record(),
        ]
    yield control_batch(opening, 0, epoch, now_ms)
    offset = len(opening)
    for start in range(0, len(snapshot.records), RECORDS_PER_BATCH_MAX):
        messages = snapshot.records[start : start + RECORDS_PER_BATCH_MAX]
        yield metadata_batch(messages, offset, epoch, now_ms, metadata_version)
        offset += len(messages)
    yield control_batch([SnapshotFooterRecord()], offset, epoch, now_ms)


def decode_snapshot(content: bytes) -> Snapshot:
    """Read the content of a file.

    Raises ProtocolError when it is damaged or has no footer.
    """
    return run_through(snapshot_decoding(content))


def snapshot_decoding(content: bytes) -> Steps[Snapshot]:
    """Read the content of a file in steps; see `decode_snapshot`."""
    try:
        return (yield from _decoding(content))
    except ValueError as error:
        raise ProtocolError(str(error)) from error


def _decoding(content: bytes) -> Steps[Snapshot]:
    snapshot = Snapshot()
    complete = False
    for position, header in iter_batches(content):
        if not crc_matches(content, position, header):
            raise ProtocolError(f"the crc of the batch at position {position} is wrong")
        for number, record in enumerate(read_records(content, position, header)):
            if not number % RECORDS_PER_STEP:
                yield
            if not header.is_control:
                snapshot.records.append(decode_metadata_record(record.value or b""))
                continue
            message = decode_control_record(record)
            complete = complete or isinstance(message, SnapshotFooterRecord)
            _take_control(snapshot, message)
    if not complete:
        raise ProtocolError("the snapshot ends before its footer")
    return snapshot


def _take_control(snapshot: Snapshot, message: Any) -> None:
    if isinstance(message, SnapshotHeaderRecord):
        snapshot.last_timestamp_ms = message.last_contained_log_timestamp
    elif isinstance(message, KRaftVersionRecord):
        snapshot.kraft_version = message.kraft_version
    elif isinstance(message, VotersRecord):
        snapshot.voters = VoterSet.from_record(message)
