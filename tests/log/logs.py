"""Logs for the tests of the log; `barnabas.testing.batches` has the batches."""

from pathlib import Path

from barnabas.log import FileCache, LogConfig, PartitionLog, Volume
from barnabas.protocol.batches.batch_header import iter_batches
from barnabas.protocol.batches.record_decoding import read_records
from barnabas.protocol.types import Uuid
from barnabas.testing.batches import NOW_MS, batch, marker

TOPIC_ID = Uuid(b"\x07" * 16)


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
