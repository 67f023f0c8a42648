"""Start new segments, and write the small files beside them (Kafka's `UnifiedLog.roll`).

A roll writes a producer snapshot, named by the first offset of the new segment.
"""

import random
from typing import TYPE_CHECKING

from barnabas.log.checkpoints import LEADER_EPOCHS, encode_epochs
from barnabas.log.file_operations import replace_file
from barnabas.log.partition.segment_removal import remove_now
from barnabas.log.segment.log_segment import Segment, file_name

if TYPE_CHECKING:
    from barnabas.log.partition.partition_log import PartitionLog


def roll(log: "PartitionLog", base_offset: int, now_ms: int) -> Segment:
    """Finish the active segment and start one at `base_offset`. Raises OSError."""
    active = log.segments[-1]
    if active.size:
        active.finish()
    else:  # the first batch of a follower may have an offset far above an empty segment
        remove_now(log.directory, log.replace_segments(len(log.segments) - 1, 1, []))
    take_producer_snapshot(log, base_offset)
    log.volume.rolled.add(log)
    return new_segment(log, base_offset, now_ms)


def new_segment(log: "PartitionLog", base_offset: int, now_ms: int) -> Segment:
    """Start a segment after the others. Raises OSError."""
    config = log.config
    segment = Segment(log.directory, base_offset, log.volume.files)
    segment.created_ms = now_ms
    jitter_ms = min(config.segment_jitter_ms, config.segment_ms)
    if jitter_ms:
        # Random jitter spreads the rolls of many logs over time; nothing else depends on it.
        segment.roll_jitter_ms = random.randrange(jitter_ms)
    segment.create(config.segment_bytes if config.preallocate else 0)
    log.add_segment(segment)
    return segment


def take_producer_snapshot(log: "PartitionLog", offset: int) -> None:
    """Write the producer state at `offset` to a snapshot file. Raises OSError."""
    path = f"{log.directory}/{file_name(offset, '.snapshot')}"
    replace_file(path, log.producers.encode(), sync=False)
    log.producers.snapshot_offset = offset


def write_epochs(log: "PartitionLog") -> None:
    """Write the leader epochs if they changed. Raises OSError."""
    if log.epochs.is_dirty:
        path = f"{log.directory}/{LEADER_EPOCHS}"
        replace_file(path, encode_epochs(log.epochs.entries), sync=False)
        log.epochs.is_dirty = False
        log.note_name_change()
