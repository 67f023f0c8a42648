"""Batches and logs for the tests of the log."""

import struct
from collections.abc import Sequence
from pathlib import Path

from barnabas.log import FileCache, LogConfig, PartitionLog, Volume
from barnabas.protocol.batches.batch_building import build_batch
from barnabas.protocol.batches.batch_header import iter_batches
from barnabas.protocol.batches.compression import Codec
from barnabas.protocol.batches.record_decoding import Record, read_records
from barnabas.protocol.types import Uuid

TOPIC_ID = Uuid(b"\x07" * 16)
NOW_MS = 1_800_000_000_000


def batch(
    *values: bytes | None,
    timestamps: Sequence[int] = (),
    keys: Sequence[bytes | None] = (),
    codec: Codec = Codec.NONE,
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
) -> bytearray:
    """Return a batch as a client sends it; `producer` is its id, epoch and base sequence."""
    return build_batch(
        [
            Record(
                number,
                timestamps[number] if timestamps else NOW_MS,
                keys[number] if keys else None,
                value,
            )
            for number, value in enumerate(values)
        ],
        codec=codec,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        is_transactional=transactional,
    )


def marker(
    producer_id: int, epoch: int = 0, *, commit: bool, coordinator_epoch: int = 0, ms: int = NOW_MS
) -> bytearray:
    """Return the control batch that ends a transaction."""
    key = struct.pack(">hh", 0, int(commit))
    value = struct.pack(">hi", 0, coordinator_epoch)
    return build_batch(
        [Record(0, ms, key, value)],
        producer_id=producer_id,
        producer_epoch=epoch,
        is_transactional=True,
        is_control=True,
    )


def open_volume(path: Path, files_max: int = 100) -> Volume:
    volume = Volume(path, FileCache(files_max))
    volume.lock()
    return volume


def new_log(volume: Volume, config: LogConfig | None = None, topic: str = "t") -> PartitionLog:
    log = PartitionLog(volume, topic, 0, config or LogConfig())
    log.create(TOPIC_ID)
    volume.logs[topic, 0] = log
    return log


def reopen(log: PartitionLog, *, recover: bool, files_max: int = 100) -> PartitionLog:
    """Open the directory again with the offsets that its checkpoints would have."""
    volume = Volume(log.volume.path, FileCache(files_max))
    again = PartitionLog(volume, log.topic, log.partition, log.config)
    again.recovery_point = log.recovery_point
    volume.recovery_points[log.topic, log.partition] = log.recovery_point
    again.high_watermark = log.high_watermark
    if log.starts_inside_segment:
        again.log_start_offset = log.log_start_offset
    again.load(recover=recover)
    return again


def append(log: PartitionLog, *values: bytes | None, epoch: int = 0, **settings: object) -> int:
    """Append one batch, commit it, and return its first offset."""
    info = log.append_as_leader(batch(*values, **settings), leader_epoch=epoch, now_ms=NOW_MS)
    log.advance_high_watermark(log.log_end_offset)
    return info.first_offset


def append_marker(log: PartitionLog, producer_id: int, **settings: object) -> int:
    info = log.append_as_leader(
        marker(producer_id, **settings), leader_epoch=0, now_ms=NOW_MS, origin="coordinator"
    )
    return info.first_offset


def read_values(log: PartitionLog, offset: int | None = None) -> list[bytes | None]:
    """Return all record values from `offset` on, read by several fetches as a client does."""
    at = log.log_start_offset if offset is None else offset
    values: list[bytes | None] = []
    while at < log.log_end_offset:
        data = log.read(at, 300, upper_bound=log.log_end_offset).read()
        for position, header in iter_batches(data):
            values += [
                record.value
                for record in read_records(data, position, header)
                if record.offset >= at
            ]
            at = header.next_offset
    return values
