"""One replica of a partition (Kafka's `Partition`).

The log is opened when it is first needed, so that a thousand partitions are created in no time
and ten thousand idle ones cost little. The high watermark of a leader is the lowest log end offset
of its in-sync replicas; alone in the set, it follows the log's end at once.
"""

import logging
from collections.abc import Callable
from typing import Final, Protocol

import attrs

from barnabas.cluster.metadata.image import INTERNAL_TOPICS, PartitionImage
from barnabas.cluster.replication import follower_log
from barnabas.config import TopicConfig
from barnabas.log import AppendInfo, Origin, PartitionLog
from barnabas.log.record_work import Outcomes
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.types import Uuid

logger = logging.getLogger(__name__)

Records = bytearray | memoryview

NEVER_FLUSH: Final = (1 << 63) - 1
"""The default of flush.messages: the operating system decides."""


class PartitionListener(Protocol):
    """A waiter for a partition: a parked fetch, a fetch session, a pending produce."""

    def partition_changed(self, partition: "Partition") -> None:
        """React to a change of log end, high watermark, log start or leadership; must return
        quickly.
        """
        ...


@attrs.define(slots=True)
class FollowerState:
    """The leader's view of a follower, from its fetches; offsets, and ms of the clock."""

    log_end_offset: int = -1
    log_start_offset: int = -1
    last_caught_up_ms: int = 0


class AppendResult:
    """An append by the leader, perhaps not yet committed."""

    __slots__ = ("info", "partition")

    def __init__(self, partition: "Partition", info: AppendInfo) -> None:
        self.partition = partition
        self.info = info

    @property
    def first_offset(self) -> int:
        """The offset of the first record appended."""
        return self.info.first_offset

    @property
    def last_offset(self) -> int:
        """The offset of the last record appended."""
        return self.info.last_offset


class Partition:
    """A replica on this broker. `listeners` are notified of every change, in no order."""

    __slots__ = (
        "_alone",
        "_log",
        "_open_log",
        "broker_id",
        "deleted",
        "flush_messages",
        "followers",
        "image",
        "is_internal",
        "is_leader",
        "leader_epoch",
        "leader_epoch_start_offset",
        "listeners",
        "min_insync_replicas",
        "partition",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        topic_id: Uuid,
        broker_id: int,
        open_log: Callable[["Partition", bool], PartitionLog | None],
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.broker_id = broker_id
        self.image: PartitionImage | None = None
        self.is_internal = topic in INTERNAL_TOPICS
        self.is_leader = False
        self.deleted = False
        self.leader_epoch = -1
        self.leader_epoch_start_offset = 0
        self.min_insync_replicas = 1
        self.flush_messages = NEVER_FLUSH
        self.followers: dict[int, FollowerState] = {}
        self.listeners: set[PartitionListener] = set()
        self._alone = True
        self._log: PartitionLog | None = None
        self._open_log = open_log

    def __repr__(self) -> str:
        return f"<Partition {self.topic}-{self.partition} epoch {self.leader_epoch}>"

    @property
    def log(self) -> PartitionLog:
        """The log; raises KafkaError KAFKA_STORAGE_ERROR when it cannot be opened."""
        return self._log or self._opened()

    @property
    def high_watermark(self) -> int:
        """The offset below which every in-sync replica has the records."""
        return self.log.high_watermark

    @property
    def leader(self) -> int:
        """The leader in the metadata image; -1: none."""
        return -1 if self.image is None else self.image.leader

    def _opened(self) -> PartitionLog:
        log = self._found(create=True)
        if log is None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self!r} has no log")
        return log

    def _found(self, *, create: bool) -> PartitionLog | None:
        log = self._log
        if log is None:
            log = self._log = self._open_log(self, create)
            if log is not None and self.is_leader:
                self._start_epoch(log)
        return log

    # Leadership

    def update(self, image: PartitionImage, config: TopicConfig) -> None:
        """Apply the metadata of the partition and its topic."""
        is_leader = image.leader == self.broker_id
        new_epoch = image.leader_epoch != self.leader_epoch
        self.image = image
        self.is_leader = is_leader
        self.leader_epoch = image.leader_epoch
        # min.insync.replicas above the number of replicas means all of them (effectiveMinIsr).
        self.min_insync_replicas = min(config.min_insync_replicas, len(image.replicas))
        self.flush_messages = config.flush_messages
        self._alone = image.isr == (self.broker_id,) and self.min_insync_replicas <= 1
        if not is_leader:
            self.followers.clear()
        elif new_epoch:
            self._start_followers(image)
            if self._log is not None:
                self._start_epoch(self._log)
        else:
            self._start_followers(image, keep=True)
        if is_leader and self._log is not None:
            self._advance()
        self.notify()

    def _start_followers(self, image: PartitionImage, *, keep: bool = False) -> None:
        known = self.followers if keep else {}
        self.followers = {
            replica: known.get(replica) or FollowerState()
            for replica in image.replicas
            if replica != self.broker_id
        }

    def _start_epoch(self, log: PartitionLog) -> None:
        """Record where this leader's epoch begins, before the first append in it (KIP-101)."""
        self.leader_epoch_start_offset = log.log_end_offset
        log.start_leader_epoch(self.leader_epoch, log.log_end_offset)
        self._advance()

    def remove(self) -> None:
        """Release a replica that this broker no longer has; notify the listeners."""
        self.deleted = True
        self.is_leader = False
        self.notify()

    def check_leader(self, current_leader_epoch: int = -1) -> None:
        """Raise KafkaError unless this broker leads it, in the client's epoch (-1: any).

        FENCED_LEADER_EPOCH for an older epoch, UNKNOWN_LEADER_EPOCH for a newer one (KIP-320),
        NOT_LEADER_OR_FOLLOWER otherwise.
        """
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            raise self._epoch_error(current_leader_epoch)
        if not self.is_leader:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"{self.topic}-{self.partition} is led by broker {self.leader}",
            )

    def _epoch_error(self, epoch: int) -> KafkaError:
        if epoch < self.leader_epoch:
            return KafkaError(
                ErrorCode.FENCED_LEADER_EPOCH,
                f"{self.topic}-{self.partition} is in epoch {self.leader_epoch}, not {epoch}",
            )
        return KafkaError(
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            f"{self.topic}-{self.partition} is in epoch {self.leader_epoch}, {epoch} is unknown",
        )

    # Writing

    def append(
        self,
        records: Records,
        *,
        required_acks: int,
        origin: Origin,
        now_ms: int,
        done: Outcomes | None = None,
    ) -> AppendInfo:
        """Append one batch as the leader and notify the listeners.

        Raises KafkaError: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS (acks=all with fewer in-sync
        replicas than min.insync.replicas), and the errors of the log; RecordWorkNeeded for work
        that is not in `done` (see `PartitionLog.append_as_leader`).
        """
        if not self.is_leader:
            self.check_leader()
        if required_acks == -1 and not self._alone:
            self._check_insync()
        log = self._log or self._opened()
        info = log.append_as_leader(
            records, leader_epoch=self.leader_epoch, now_ms=now_ms, origin=origin, done=done
        )
        if not info.duplicate:
            if self._alone:
                log.advance_high_watermark(info.last_offset + 1)
            else:
                self._advance()
            if self.listeners:
                self.notify()
        return info

    def _check_insync(self) -> None:
        image = self.image
        if image is not None and len(image.isr) < self.min_insync_replicas:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"The size of the current ISR {list(image.isr)} is insufficient to satisfy the "
                f"min.isr requirement of {self.min_insync_replicas} for partition "
                f"{self.topic}-{self.partition}",
            )

    def acks_outcome(self, last_offset: int) -> ErrorCode | None:
        """Return the outcome of acks=all for records up to `last_offset`; None while it is open.

        As `Partition.checkEnoughReplicasReachOffset`.
        """
        if not self.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.log.high_watermark <= last_offset:
            return None
        image = self.image
        if image is not None and len(image.isr) < self.min_insync_replicas:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def follower_fetched(
        self, replica: int, fetch_offset: int, log_start_offset: int, now_ms: int
    ) -> None:
        """Note a follower's fetch: it has all records below `fetch_offset`.

        Raises KafkaError NOT_LEADER_OR_FOLLOWER when the broker is not a replica.
        """
        state = self.followers.get(replica)
        if state is None:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {replica} is not a replica of {self.topic}-{self.partition}",
            )
        state.log_end_offset = fetch_offset
        state.log_start_offset = log_start_offset
        if fetch_offset >= self.log.log_end_offset:
            state.last_caught_up_ms = now_ms
        if self._advance():
            self.notify()

    def _advance(self) -> bool:
        """Raise the high watermark to the lowest log end of the in-sync replicas; return True when
        it rose.

        It does not advance below min.insync.replicas (KIP-966).
        """
        image, log = self.image, self._log
        if image is None or log is None or len(image.isr) < self.min_insync_replicas:
            return False
        offset = log.log_end_offset
        for replica in image.isr:
            if replica != self.broker_id:
                state = self.followers.get(replica)
                offset = min(offset, -1 if state is None else state.log_end_offset)
        if offset <= log.high_watermark:
            return False
        log.advance_high_watermark(offset)
        return True

    def notify(self) -> None:
        """Notify every listener; each may remove itself meanwhile."""
        for listener in tuple(self.listeners):
            listener.partition_changed(self)

    @property
    def flush_due(self) -> bool:
        """True when flush.messages requires a flush now."""
        if self.flush_messages == NEVER_FLUSH:
            return False
        log = self.log
        return log.log_end_offset - log.recovery_point >= self.flush_messages

    # Following

    def follower_append(self, batches: follower_log.Batches, leader_epoch: int, now_ms: int) -> int:
        """Append what the leader of `leader_epoch` answered; return the new log end offset.

        Raises KafkaError FENCED_LEADER_EPOCH when this replica does not follow that leader any
        longer, and the errors of `follower_log.append`.
        """
        if self.is_leader or leader_epoch != self.leader_epoch:
            raise KafkaError(
                ErrorCode.FENCED_LEADER_EPOCH, f"{self!r} does not follow epoch {leader_epoch}"
            )
        log = self.log
        follower_log.append(log, batches, leader_epoch=leader_epoch, now_ms=now_ms)
        return log.log_end_offset

    def truncate_to(self, offset: int) -> None:
        """Remove the records from `offset` on, which the leader does not have."""
        log = self.log
        if offset < log.high_watermark:
            logger.warning(
                "truncating below the high watermark topic=%s partition=%d offset=%d"
                " high_watermark=%d",
                self.topic,
                self.partition,
                offset,
                log.high_watermark,
            )
        log.truncate_to(offset)
        self.notify()

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove all records; the next one gets `offset`, where the leader's log starts."""
        self.log.truncate_fully_and_start_at(offset)
        self.notify()

    def follow_high_watermark(self, leader_high_watermark: int) -> None:
        """Raise the high watermark to the leader's, at most to the log end."""
        if follower_log.follow_high_watermark(self.log, leader_high_watermark):
            self.notify()

    def follow_log_start(self, leader_log_start: int) -> None:
        """Raise the log start to the leader's, at most to the high watermark."""
        if follower_log.follow_log_start(self.log, leader_log_start):
            self.notify()

    # Offsets

    def fetchable_end(self, isolation_level: int, *, follower: bool = False) -> int:
        """Return the end of what a reader sees; isolation level 1 is READ_COMMITTED."""
        log = self._log or self._opened()
        if follower:
            return log.log_end_offset
        return log.last_stable_offset if isolation_level == 1 else log.high_watermark

    @property
    def offsets_available(self) -> bool:
        """False right after an election, until what is committed reaches the epoch's start."""
        return self.leader_epoch_start_offset <= self.log.high_watermark

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the last epoch up to `epoch` and its end offset; (-1, -1) if it is unknown."""
        log = self.log
        if epoch == self.leader_epoch:
            return epoch, log.log_end_offset
        return log.end_offset_for_epoch(epoch)

    def delete_records(self, before_offset: int) -> int:
        """Move the log start to `before_offset` (-1: the high watermark); return the new log start.

        Raises KafkaError POLICY_VIOLATION without the delete policy, and OFFSET_OUT_OF_RANGE below
        0 or above the high watermark.
        """
        self.check_leader()
        log = self.log
        if not log.config.is_deleted:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"Records of partition {self.topic}-{self.partition} can not be deleted due to "
                "the configured policy",
            )
        offset = log.high_watermark if before_offset == -1 else before_offset
        if not 0 <= offset <= log.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{offset} is not within 0 and the high watermark {log.high_watermark} of "
                f"{self.topic}-{self.partition}",
            )
        if offset > log.log_start_offset:
            log.advance_log_start(offset)
            self.notify()
        return log.log_start_offset

    def apply_retention(self, now_ms: int) -> int:
        """Delete segments by the topic's retention; return their number."""
        log = self._found(create=False)
        if log is None:
            return 0
        start = log.log_start_offset
        count = log.apply_retention(now_ms)
        if log.log_start_offset != start:
            self.notify()
        return count
