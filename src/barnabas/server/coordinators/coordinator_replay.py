"""Replaying the log of a coordinator partition when this node begins to lead it."""

import logging
from abc import abstractmethod
from typing import Protocol

from barnabas.coordinator.core.steps import Steps
from barnabas.log import PartitionLog
from barnabas.protocol.batches.batch_header import BatchHeader, CorruptBatch, iter_batches
from barnabas.protocol.batches.record_decoding import Record, read_records
from barnabas.protocol.errors import ErrorCode, KafkaError, ProtocolError
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.coordinator_framing import UnknownRecordTypeError

logger = logging.getLogger(__name__)

# The number of records after which other tasks run.
_RECORDS_IN_A_SLICE = 500
_READ_BYTES = 1 << 20

DecodedRecord = tuple[Message, Message | None]


class RecordReceiver(Protocol):
    """Takes the records of a log in their order."""

    @abstractmethod
    def decode(self, key: bytes, value: bytes | None) -> DecodedRecord:
        """Decode a record. Raises UnknownRecordTypeError for a type of a newer server."""

    @abstractmethod
    def replay(
        self, key: Message, value: Message | None, *, record_offset: int, producer_id: int
    ) -> None:
        """Apply a record; `producer_id` is -1 outside transactions."""

    @abstractmethod
    def replay_control(self, record: Record, header: BatchHeader) -> None:
        """Apply a control record."""


def replay_log(log: PartitionLog, receiver: RecordReceiver) -> Steps[int]:
    """Replay a whole log in slices; return the offset of its end.

    Raises KafkaError CORRUPT_MESSAGE when a batch cannot be read.
    """
    offset = log.log_start_offset
    in_slice = 0
    while offset < log.log_end_offset:
        data = log.read(offset, _READ_BYTES, upper_bound=log.log_end_offset).read()
        reached = offset
        for position, header in iter_batches(data):
            reached = header.next_offset
            try:
                records = read_records(data, position, header)
                _replay_batch(log, receiver, records, header, offset)
            except (CorruptBatch, ProtocolError) as error:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
            in_slice += len(records)
            if in_slice >= _RECORDS_IN_A_SLICE:
                in_slice = 0
                yield
        if reached == offset:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"no complete batch at offset {offset}")
        offset = reached
    return offset


def _replay_batch(
    log: PartitionLog,
    receiver: RecordReceiver,
    records: list[Record],
    header: BatchHeader,
    first_offset: int,
) -> None:
    producer_id = header.producer_id if header.is_transactional else -1
    for record in records:
        if record.offset < first_offset or record.key is None:
            continue
        if header.is_control:
            receiver.replay_control(record, header)
            continue
        try:
            key, value = receiver.decode(record.key, record.value)
        except UnknownRecordTypeError as error:
            logger.warning(
                "ignoring record topic=%s partition=%d offset=%d: %s",
                log.topic,
                log.partition,
                record.offset,
                error,
            )
            continue
        receiver.replay(key, value, record_offset=record.offset, producer_id=producer_id)
