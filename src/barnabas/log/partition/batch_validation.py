"""Validate a batch before a leader or follower appends it (Kafka's `LogValidator`).

In the usual case only the header is checked. Records are decoded only when the header is not
enough: keys of a compacted topic, a lower bound of timestamps, another codec than the producer's.
That is a job of `barnabas.log.record_work`, which runs here for a small batch and in a helper
process for a larger one. Header fields that the records could contradict, such as the largest
timestamp, are trusted.
"""

from struct import error as StructError  # noqa: N812  ("error" alone is unclear here)
from typing import Literal

from barnabas.log.log_config import LONG_MAX, LogConfig
from barnabas.log.record_work import CompleteBatch, Outcomes, RecordsRefusedError, run_in_loop
from barnabas.protocol.batches.batch_header import BatchHeader, read_header, set_log_append_time
from barnabas.protocol.batches.batch_layout import (
    CHECKED_AT,
    CODEC_ID_MAX,
    CODEC_MASK,
    CONTROL,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    RECORD_SIZE_MIN,
)
from barnabas.protocol.batches.crc import crc32c
from barnabas.protocol.errors import ErrorCode, KafkaError

Origin = Literal["client", "coordinator", "raft"]
"""The source of a batch: only clients may not write control batches and need valid sequences."""

Writable = bytearray | memoryview


def check_batch(records: Writable, config: LogConfig, origin: Origin) -> BatchHeader:
    """Check the one batch in `records` by its header. Raises KafkaError with Kafka's code.

    The order is that of `UnifiedLog.analyzeAndValidateRecords` and `LogValidator.validateBatch`.
    """
    size = len(records)
    try:
        header = BatchHeader._make(HEADER.unpack_from(records, 0))
    except StructError:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"{size} bytes are too few for a batch"
        ) from None
    if header.batch_length + LOG_OVERHEAD != size or header.magic != MAGIC:
        raise _layout(header, size)
    is_client = origin == "client"
    if is_client and header.base_offset:
        raise RecordsRefusedError(
            ErrorCode.INVALID_RECORD,
            f"The baseOffset of the record batch should be 0, but it is {header.base_offset}",
        )
    if size > config.max_message_bytes and origin != "raft":
        raise _too_large(size, config)
    if crc32c(memoryview(records)[CHECKED_AT:]) != header.crc:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"Record is corrupt (stored crc = {header.crc})"
        )
    attributes = header.attributes
    if is_client:
        _check_client(header, config)
    codec = attributes & CODEC_MASK
    if codec > CODEC_ID_MAX:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Unknown compression type id: {codec}"
        )
    if attributes & LOG_APPEND_TIME and not (
        config.log_append_time or origin == "raft" or attributes & CONTROL
    ):
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP,
            "Producer should not set timestamp type to LogAppendTime",
        )
    return header


def _layout(header: BatchHeader, size: int) -> KafkaError:
    if header.magic in (0, 1):
        return RecordsRefusedError(
            ErrorCode.INVALID_RECORD, f"message format {header.magic} is not supported"
        )
    return KafkaError(
        ErrorCode.CORRUPT_MESSAGE,
        f"the batch has length {header.batch_length} and magic {header.magic}, and is not all of "
        f"the {size} bytes",
    )


def _too_large(size: int, config: LogConfig) -> KafkaError:
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"The record batch size is {size} bytes which exceeds the maximum configured value of "
        f"{config.max_message_bytes}",
    )


def _check_client(header: BatchHeader, config: LogConfig) -> None:
    count = header.record_count
    is_packed = header.attributes & CODEC_MASK
    room = config.unpacked_max if is_packed else header.batch_length + LOG_OVERHEAD - HEADER_SIZE
    if header.attributes & CONTROL:
        reason = "Clients are not allowed to write control records"
    elif count <= 0 or header.last_offset_delta + 1 != count:
        reason = (
            f"Inconsistency between number of offsets {header.last_offset_delta + 1} and number of "
            f"records {count}"
        )
    elif count > room // RECORD_SIZE_MIN:
        # It would use offsets without records, and soon more offsets than a segment can index.
        reason = f"{count} records do not fit into {room} bytes"
    elif header.producer_id >= 0 and header.base_sequence < 0:
        reason = f"Invalid sequence number {header.base_sequence} in record batch with producerId"
    else:
        return
    raise RecordsRefusedError(ErrorCode.INVALID_RECORD, reason)


def needs_records(header: BatchHeader, config: LogConfig, now_ms: int, origin: Origin) -> bool:
    """True when the header is not enough and the records must be examined."""
    if header.attributes & CONTROL:
        return False
    return (
        config.is_compacted
        or config.validate_records
        or config.log_append_time
        or (config.codec is not None and config.codec != header.attributes & CODEC_MASK)
        or config.timestamp_before_max_ms != LONG_MAX
        or (_is_ahead(header, config, now_ms) and origin == "client")
    )


def _is_ahead(header: BatchHeader, config: LogConfig, now_ms: int) -> bool:
    """True when the header's largest timestamp is later than the topic accepts.

    The records then show which of them are too late.
    """
    return header.max_timestamp > now_ms + config.timestamp_after_max_ms


def complete_batch(
    records: Writable,
    header: BatchHeader,
    config: LogConfig,
    now_ms: int,
    origin: Origin,
    done: Outcomes | None,
) -> tuple[Writable, BatchHeader]:
    """Examine the records and return the batch in the form to append.

    A batch in the topic's codec is changed in place; for another codec it is built again. Outcomes
    in `done` are used. Raises RecordWorkNeeded for a batch that is too large for the loop, unless
    `done` is None, when time does not matter. Raises KafkaError.
    """
    job = _record_job(header, config, now_ms, origin)
    if job is not None:
        if done is None or origin != "client":
            made = job.run(records)
        elif job in done:
            made = done[job]
        else:
            made = run_in_loop(job, records, header)
        if isinstance(made, bytearray):
            records, header = made, read_header(made)
    if config.log_append_time:
        set_log_append_time(records, 0, now_ms)
        header = read_header(records)
    return records, header


def _record_job(
    header: BatchHeader, config: LogConfig, now_ms: int, origin: Origin
) -> CompleteBatch | None:
    """Return the job that checks or rebuilds the batch; None when only the header changes."""
    codec = config.codec if config.codec != header.codec_id else None
    before_ms = None if config.log_append_time else config.timestamp_before_max_ms
    is_checked = origin == "client" and (
        config.is_compacted
        or config.validate_records
        or codec is not None
        or (before_ms is not None and (before_ms != LONG_MAX or _is_ahead(header, config, now_ms)))
    )
    if not is_checked and codec is None:
        return None
    return CompleteBatch(
        is_checked=is_checked,
        is_compacted=config.is_compacted,
        timestamp_before_max_ms=before_ms,
        timestamp_after_max_ms=config.timestamp_after_max_ms,
        now_ms=now_ms,
        codec=codec,
        codec_level=None if codec is None else config.codec_level,
        max_message_bytes=config.max_message_bytes,
        unpacked_max=config.unpacked_max,
    )


def check_size(size: int, config: LogConfig) -> None:
    """Check the size of a batch. Raises MESSAGE_TOO_LARGE and RECORD_LIST_TOO_LARGE."""
    if size > config.max_message_bytes:
        raise _too_large(size, config)
    if size > config.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"a batch of {size} bytes is larger than a segment of {config.segment_bytes}",
        )


def check_follower_batch(records: Writable | bytes, position: int, header: BatchHeader) -> None:
    """Check a batch that the leader sent. Raises CORRUPT_MESSAGE if it is cut off or damaged."""
    size = header.size
    if header.magic != MAGIC or size < HEADER_SIZE or position + size > len(records):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"no complete batch at position {position}")
    with memoryview(records)[position + CHECKED_AT : position + size] as checked:
        if crc32c(checked) != header.crc:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"Record is corrupt (stored crc = {header.crc})"
            )
