"""The batches in a response to a replica's Fetch of the metadata log."""

import attrs

from barnabas.cluster.quorum.metadata_snapshot import decode_control_record
from barnabas.cluster.quorum.raft_state import Entry
from barnabas.protocol.batches.batch_header import crc_matches, iter_batches
from barnabas.protocol.batches.record_decoding import read_records
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.control_records import LeaderChangeMessage


@attrs.frozen(slots=True)
class FetchedBatch:
    """A batch as the leader has it, and its records."""

    data: bytearray
    entry: Entry


def read_fetched(records: bytes, offset: int, epoch: int) -> list[FetchedBatch]:
    """Return the whole batches of a response to a fetch at `offset` in `epoch`.

    Raises ProtocolError when there is none, or when they do not follow each other from `offset`,
    are of a later epoch, or are damaged.
    """
    found: list[FetchedBatch] = []
    try:
        for position, header in iter_batches(records):
            if header.base_offset != offset:
                raise ProtocolError(f"a batch at offset {header.base_offset} follows {offset}")
            if header.partition_leader_epoch > epoch:
                raise ProtocolError(f"a batch of epoch {header.partition_leader_epoch} in {epoch}")
            if not crc_matches(records, position, header):
                raise ProtocolError(f"the crc of the batch at offset {offset} is wrong")
            data = bytearray(records[position : position + header.size])
            entry = _entry(data, header.base_offset)
            found.append(FetchedBatch(data, entry))
            offset = header.next_offset
    except ValueError as error:
        raise ProtocolError(str(error)) from error
    if not found:
        raise ProtocolError(f"no whole batch in {len(records)} bytes")
    return found


def _entry(data: bytearray, base_offset: int) -> Entry:
    ((_, header),) = iter_batches(data)
    records = read_records(data, 0, header)
    epoch, timestamp_ms = header.partition_leader_epoch, header.max_timestamp
    if header.is_control:
        messages = [decode_control_record(record) or _UNKNOWN for record in records]
        return Entry(base_offset, epoch, timestamp_ms, control=tuple(messages))
    values = tuple(record.value or b"" for record in records)
    return Entry(base_offset, epoch, timestamp_ms, records=values)


_UNKNOWN: Message = LeaderChangeMessage()
"""Stands for a control record of a type that has no effect here."""
