"""One replica of a partition (Kafka's `Partition`).

The log is opened when it is first needed, so that a thousand partitions are created in no time
and ten thousand idle ones cost little. While this broker leads the partition, `leader_state` has
the rules over its replicas; a change of the ISR is proposed to the controller, and takes effect
with its answer or with the metadata, whichever is newer (by the partition epoch).
"""

import logging
from typing import Final

from barnabas.cluster.metadata.image import INTERNAL_TOPICS, PartitionImage
from barnabas.cluster.replication import follower_log, isr_proposals
from barnabas.cluster.replication.follower_progress import FetchTime
from barnabas.cluster.replication.isr_manager import IsrProposal, PartitionAnswer
from barnabas.cluster.replication.leader_state import NO_EPOCH, LeaderState
from barnabas.cluster.replication.partition_ports import PartitionHost, PartitionListener
from barnabas.config import TopicConfig
from barnabas.log import AppendInfo, Origin, PartitionLog
from barnabas.log.record_work import Outcomes
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.types import Uuid

logger = logging.getLogger(__name__)

Records = bytearray | memoryview

NEVER_FLUSH: Final = (1 << 63) - 1
"""The default of flush.messages: the operating system decides."""


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
    """A replica on this broker. `listeners` are notified of every change, in the order of
    their registration."""

    __slots__ = (
        "_alone",
        "_log",
        "broker_id",
        "deleted",
        "flush_messages",
        "host",
        "image",
        "is_internal",
        "is_leader",
        "leader_epoch",
        "leader_state",
        "listeners",
        "min_insync_replicas",
        "partition",
        "partition_epoch",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, partition: int, topic_id: Uuid, host: PartitionHost) -> None:
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.broker_id = host.broker_id
        self.image: PartitionImage | None = None
        self.is_internal = topic in INTERNAL_TOPICS
        self.is_leader = False
        self.deleted = False
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.leader_state: LeaderState | None = None
        self.min_insync_replicas = 1
        self.flush_messages = NEVER_FLUSH
        self.listeners: dict[PartitionListener, None] = {}
        self._alone = False
        self._log: PartitionLog | None = None
        self.host = host

    def __repr__(self) -> str:
        return f"<Partition {self.topic}-{self.partition} epoch {self.leader_epoch}>"

    @property
    def log(self) -> PartitionLog:
        """The log; raises KafkaError KAFKA_STORAGE_ERROR when it cannot be opened."""
        return self._log or self._opened()

    @property
    def is_open(self) -> bool:
        """True when the log was opened; until then nothing was read or written."""
        return self._log is not None

    @property
    def high_watermark(self) -> int:
        """The offset below which every in-sync replica has the records."""
        return self.log.high_watermark

    @property
    def leader(self) -> int:
        """The leader in the metadata image; -1: none."""
        return -1 if self.image is None else self.image.leader

    @property
    def is_in_isr(self) -> bool:
        """True when the metadata image has this replica in the ISR."""
        return self.image is not None and self.broker_id in self.image.isr

    def _opened(self) -> PartitionLog:
        log = self._found(create=True)
        if log is None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self!r} has no log")
        return log

    def _found(self, *, create: bool) -> PartitionLog | None:
        log = self._log
        if log is None:
            log = self._log = self.host.open_log(self, create)
            state = self.leader_state
            if log is not None and state is not None:
                self._start_epoch(log, state)
                self.advance_high_watermark(log)
        return log

    # Leadership

    def update(self, image: PartitionImage, config: TopicConfig) -> None:
        """Apply the metadata of the partition and its topic.

        An image that is older than an answer of the controller changes only the settings.
        """
        if image.partition_epoch >= self.partition_epoch:
            self._follow_image(image)
        self._configure(config)
        if self._log is not None:
            self.advance_high_watermark(self._log)
        self.notify()

    def _follow_image(self, image: PartitionImage) -> None:
        is_new_epoch = image.leader_epoch != self.leader_epoch
        is_new = is_new_epoch or image.partition_epoch > self.partition_epoch
        self.image = image
        self.leader_epoch = image.leader_epoch
        self.partition_epoch = image.partition_epoch
        self.is_leader = image.leader == self.broker_id
        if not self.is_leader:
            self.leader_state = None
            return
        state = self.leader_state
        if state is None:
            state = self.leader_state = LeaderState(self.broker_id, self.host, image)
            is_new = is_new_epoch = True
        state.image = image
        if is_new:
            pending = state.isr
            if pending.proposed is not None and set(pending.proposed) == set(image.isr):
                self.host.isr_changed(expanded=pending.is_expanding)
            state.assign()
        if is_new_epoch:
            log = self._log
            end = -1 if log is None else log.log_end_offset
            state.start_epoch(end, self.host.clock.monotonic_ms())
            if log is not None:
                self._start_epoch(log, state)

    def _configure(self, config: TopicConfig) -> None:
        image = self.image
        if image is not None:
            # min.insync.replicas above the number of replicas means all of them (effectiveMinIsr).
            self.min_insync_replicas = min(config.min_insync_replicas, len(image.replicas))
        self.flush_messages = config.flush_messages
        if self.leader_state is not None:
            self.leader_state.min_insync_replicas = self.min_insync_replicas
        self._set_alone()

    def _set_alone(self) -> None:
        """Note whether this broker has the only replica: then nothing waits for a follower."""
        state = self.leader_state
        self._alone = (
            state is not None and not state.followers and state.isr.committed == (self.broker_id,)
        )

    def _start_epoch(self, log: PartitionLog, state: LeaderState) -> None:
        """Record where this leader's epoch begins, before the first append in it (KIP-101)."""
        state.epoch_start_offset = log.log_end_offset
        log.start_leader_epoch(self.leader_epoch, log.log_end_offset)

    def remove(self) -> None:
        """Release a replica that this broker no longer has; notify the listeners."""
        self.deleted = True
        self.is_leader = False
        self.leader_state = None
        self.notify()

    def check_leader(self, current_leader_epoch: int = -1) -> None:
        """Raise KafkaError unless this broker leads it, in the client's epoch (-1: any).

        FENCED_LEADER_EPOCH for an older epoch, UNKNOWN_LEADER_EPOCH for a newer one (KIP-320),
        NOT_LEADER_OR_FOLLOWER otherwise.
        """
        self.check_epoch(current_leader_epoch)
        if not self.is_leader:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"{self.topic}-{self.partition} is led by broker {self.leader}",
            )

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Raise KafkaError unless the client's leader epoch is the one here (-1: any)."""
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            raise self._epoch_error(current_leader_epoch)

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
                self.advance_high_watermark(log)
            if self.listeners:
                self.notify()
        return info

    def _check_insync(self) -> None:
        state = self.leader_state
        if state is not None and state.is_under_min_isr:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"The size of the current ISR {list(state.isr.committed)} is insufficient to "
                "satisfy the "
                f"min.isr requirement of {self.min_insync_replicas} for partition "
                f"{self.topic}-{self.partition}",
            )

    def acks_outcome(self, last_offset: int) -> ErrorCode | None:
        """Return the outcome of acks=all for records up to `last_offset`; None while it is open.

        As `Partition.checkEnoughReplicasReachOffset`.
        """
        state = self.leader_state
        if state is None or not self.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return state.acks_outcome(self.log.high_watermark, last_offset)

    # Followers

    def check_follower(self, replica: int, *, with_epoch: bool) -> None:
        """Raise KafkaError unless the broker is a replica.

        UNKNOWN_LEADER_EPOCH to a fetch in this leader epoch: the follower may have a newer
        assignment, and retries. NOT_LEADER_OR_FOLLOWER to a fetch without an epoch.
        """
        state = self.leader_state
        if state is None or replica not in state.followers:
            code = (
                ErrorCode.UNKNOWN_LEADER_EPOCH if with_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER
            )
            raise KafkaError(
                code, f"broker {replica} is not a replica of {self.topic}-{self.partition}"
            )

    def follower_fetched(
        self,
        replica: int,
        fetch_offset: int,
        log_start_offset: int,
        broker_epoch: int = NO_EPOCH,
        time: FetchTime | None = None,
    ) -> None:
        """Note a follower's successful fetch: it has all records below `fetch_offset`.

        Only a fetch within this log that does not diverge from it proves that. `time` is the one of
        its session, if it has a session. Raises KafkaError NOT_LEADER_OR_FOLLOWER when the broker
        is not a replica, or was started again since.
        """
        self.check_follower(replica, with_epoch=False)
        state, log = self.leader_state, self.log
        if state is None:
            return
        if not state.check_broker_epoch(replica, broker_epoch):
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {replica} has a newer epoch than {broker_epoch}",
            )
        progress = state.followers[replica]
        has_moved = progress.log_end_offset != fetch_offset
        has_deleted = progress.log_start_offset != log_start_offset
        if time is None:
            time = FetchTime(self.host.clock.monotonic_ms())
        epoch = state.known_epoch(replica, broker_epoch)
        progress.fetched(fetch_offset, log_start_offset, epoch, log.log_end_offset, time)
        if state.may_join(replica, log.high_watermark):
            isr_proposals.propose(self, state, state.isr.expanded(replica))
        if (has_moved and self.advance_high_watermark(log)) or has_deleted:
            self.notify()

    @property
    def low_watermark(self) -> int:
        """The lowest log start offset of the live replicas; as the leader."""
        state = self.leader_state
        start = self.log.log_start_offset
        return start if state is None else state.low_watermark(start)

    def advance_high_watermark(self, log: PartitionLog) -> bool:
        """Raise the high watermark to what the replicas have committed; return True if it rose."""
        state = self.leader_state
        if state is None:
            return False
        offset = state.high_watermark(log.log_end_offset, self.host.clock.monotonic_ms())
        if offset <= log.high_watermark:
            return False
        log.advance_high_watermark(offset)
        return True

    # The in-sync replicas

    def check_isr(self) -> None:
        """Remove lagging followers from the ISR; call it every replica.lag.time.max.ms/2."""
        isr_proposals.shrink(self)
        # It may wait for a replica outside the ISR that has stopped fetching.
        self.commit_more()

    def commit_more(self) -> None:
        """Raise the high watermark after a change of the replicas that it waits for."""
        if self._log is not None and self.advance_high_watermark(self._log):
            self.notify()

    def is_proposed(self, proposal: IsrProposal) -> bool:
        """True while the proposal is still the pending change (`IsrLeader`)."""
        return self.leader_state is not None and self.leader_state.isr is proposal.state

    def on_isr_answer(self, proposal: IsrProposal, answer: PartitionAnswer) -> bool:
        """Take the controller's answer; return True when the proposal must be sent again."""
        return isr_proposals.answered(self, proposal, answer)

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
        state, log = self.leader_state, self.log  # opening the log sets where the epoch starts
        return state is None or state.epoch_start_offset <= log.high_watermark

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the last epoch up to `epoch` and its end offset; (-1, -1) if it is unknown."""
        log = self.log
        if epoch == self.leader_epoch:
            return epoch, log.log_end_offset
        return log.end_offset_for_epoch(epoch)

    def delete_records(self, before_offset: int) -> int:
        """Delete the records below `before_offset` (-1: the high watermark); return that offset.

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
        return offset

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
