"""The offset at which a log stops to be a mirror.

The producer ids in mirrored batches were assigned by another cluster. This cluster assigns the same
numbers to other producers, whose sequences and epochs must not be compared with those. So the
producers of the mirror end with it, on every replica at the same offset: before the first batch of
the leader epoch that promoted the topic. The offset is in a file, because a replay of the log after
a kill must forget them at the same place. A transaction that is open there is kept until the
leader's marker aborts it.
"""

from typing import TYPE_CHECKING

from barnabas.log.checkpoints import MIRROR_END, encode_mirror_end
from barnabas.log.file_operations import replace_file

if TYPE_CHECKING:
    from barnabas.log.partition.partition_log import PartitionLog


def end_mirror(log: "PartitionLog", leader_epoch: int) -> None:
    """End the mirror when `leader_epoch` is the first of the log after it. Raises OSError.

    Called before the log takes over a new leader epoch.
    """
    if not log.epochs.latest < log.mirror_end_epoch <= leader_epoch:
        return
    content = encode_mirror_end(log.log_end_offset)
    replace_file(f"{log.directory}/{MIRROR_END}", content, sync=False)
    log.note_name_change()
    log.note_mirror_end(log.log_end_offset)
    log.producers.forget_idle()
