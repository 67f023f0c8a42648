"""One replica of a partition (Kafka's `Partition`): writing, following, the ISR, deleting.

The log is opened when it is first needed, so that a thousand partitions are created in no time
and ten thousand idle ones cost little. A change of the ISR is proposed to the controller, and takes
effect with its answer or with the metadata, whichever is newer (by the partition epoch).
"""

import logging

from barnabas.cluster.replication import follower_log
from barnabas.cluster.replication.follower_progress import FetchTime
from barnabas.cluster.replication.hosted_partition import NEVER_FLUSH, HostedPartition
from barnabas.cluster.replication.isr_manager import IsrProposal, PartitionAnswer
from barnabas.cluster.replication.isr_state import IsrState
from barnabas.cluster.replication.leader_state import NO_EPOCH, IsrOutcome, LeaderState
from barnabas.log import AppendInfo, Origin, PartitionLog
from barnabas.log.record_work import Outcomes
from barnabas.protocol.batches.control_batches import (
    MIRROR_ENDED,
    TransactionMarker,
    marker_batch,
)
from barnabas.protocol.errors import ErrorCode, KafkaError, error_code

logger = logging.getLogger(__name__)

Records = bytearray | memoryview


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


class Partition(HostedPartition):
    """A replica on this broker. `listeners` are notified of every change, in the order of
    their registration."""

    __slots__ = ()

    @property
    def log(self) -> PartitionLog:
        """The log; raises KafkaError KAFKA_STORAGE_ERROR when it cannot be opened."""
        return self._log or self._opened()

    @property
    def high_watermark(self) -> int:
        """The offset below which every in-sync replica has the records."""
        return self.log.high_watermark

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
            if log is not None:
                self._prepare_log(log)
            if log is not None and state is not None:
                self._start_epoch(log, state)
                self.settle_promotion()
                self.advance_high_watermark(log)
        return log

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

    def append_mirrored(self, records: Records, *, required_acks: int, now_ms: int) -> AppendInfo:
        """Append batches of a flow as the leader and notify the listeners.

        Raises KafkaError: as `append`, and the errors of `PartitionLog.append_as_mirror`.
        """
        if not self.is_leader:
            self.check_leader()
        if required_acks == -1 and not self._alone:
            self._check_insync()
        log = self._log or self._opened()
        info = log.append_as_mirror(records, leader_epoch=self.leader_epoch, now_ms=now_ms)
        if not info.duplicate:
            self._note_append(log)
        return info

    def _note_append(self, log: PartitionLog) -> None:
        if self._alone:
            log.advance_high_watermark(log.log_end_offset)
        else:
            self.advance_high_watermark(log)
        if self.listeners:
            self.notify()

    def settle_promotion(self) -> None:
        """As the leader of a promoted mirror, abort the transactions that were open in it.

        Their producers belong to the other cluster, so no coordinator here will end them. A failure
        of the disk is logged; it is tried again before the next append, and with the retention.
        """
        mirror, log = self.mirror, self._log
        if mirror is None or mirror.is_settled or log is None or not self.is_leader:
            return
        if not 0 <= mirror.promoted_epoch <= self.leader_epoch:
            return
        now_ms = self.host.clock.wall_ms()
        ending = TransactionMarker(is_commit=False, coordinator_epoch=MIRROR_ENDED)
        try:
            open_transactions = log.open_transactions_of_mirror(self.leader_epoch)
            for producer_id, epoch in open_transactions:
                batch = marker_batch(ending, producer_id, epoch, now_ms)
                log.append_as_leader(
                    batch, leader_epoch=self.leader_epoch, now_ms=now_ms, origin="coordinator"
                )
        except KafkaError as error:
            logger.error("cannot end a mirror partition=%r error=%s", self, error)
            return
        mirror.is_settled = True
        if open_transactions:
            logger.info(
                "aborted transactions of a promoted mirror partition=%s-%d flow=%s count=%d",
                self.topic,
                self.partition,
                mirror.flow,
                len(open_transactions),
            )
            self._note_append(log)

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
            self._propose(state, state.isr.expanded(replica))
        if (has_moved and self.advance_high_watermark(log)) or has_deleted:
            self.notify()

    @property
    def low_watermark(self) -> int:
        """The lowest log start offset of the live replicas; as the leader."""
        state = self.leader_state
        start = self.log.log_start_offset
        return start if state is None else state.low_watermark(start)

    # The in-sync replicas

    def check_isr(self) -> None:
        """Remove lagging followers from the ISR; call it every replica.lag.time.max.ms/2."""
        state = self.leader_state
        if state is not None and state.followers:
            lagging = state.lagging(self.log.log_end_offset, self.host.clock.monotonic_ms())
            if lagging:
                self._propose(state, state.isr.shrunk(lagging))
        # It may wait for a replica outside the ISR that has stopped fetching.
        self.commit_more()

    def _propose(self, state: LeaderState, isr: IsrState) -> None:
        """Make `isr` the pending state and send it to the controller."""
        state.begin_change(isr)
        self._write_proposal(state)
        self.host.propose_isr(
            IsrProposal(
                leader=self,
                state=isr,
                leader_epoch=self.leader_epoch,
                partition_epoch=self.partition_epoch,
                isr=isr.proposed or (),
                broker_epochs=state.broker_epochs,
            )
        )

    def _write_proposal(self, state: LeaderState) -> None:
        """Log the pending change, unless this broker has many of them just now."""
        if not self.host.isr_lines.take(self.host.clock.monotonic_ms()):
            return
        isr, log = state.isr, self.log
        logger.info(
            "%s ISR partition=%s-%d from=%s to=%s high_watermark=%d end=%d follower_ends=%s",
            "expanding" if isr.is_expanding else "shrinking",
            self.topic,
            self.partition,
            list(isr.committed),
            list(isr.proposed or ()),
            log.high_watermark,
            log.log_end_offset,
            {replica: progress.log_end_offset for replica, progress in state.followers.items()},
        )

    def _write_refusal(self, proposal: IsrProposal, answer: PartitionAnswer) -> None:
        if self.host.isr_lines.take(self.host.clock.monotonic_ms()):
            logger.info(
                "the controller refused an ISR partition=%s-%d isr=%s error=%s",
                self.topic,
                self.partition,
                list(proposal.isr),
                error_code(answer.error_code).name,
            )

    def commit_more(self) -> None:
        """Raise the high watermark after a change of the replicas that it waits for."""
        if self._log is not None and self.advance_high_watermark(self._log):
            self.notify()

    def is_proposed(self, proposal: IsrProposal) -> bool:
        """True while the proposal is still the pending change (`IsrLeader`)."""
        return self.leader_state is not None and self.leader_state.isr is proposal.state

    def on_isr_answer(self, proposal: IsrProposal, answer: PartitionAnswer) -> bool:
        """Take the controller's answer; return True when the proposal must be sent again."""
        state = self.leader_state
        if state is None or state.isr is not proposal.state:
            return False
        is_newest = (
            answer.leader_epoch == self.leader_epoch
            and answer.partition_epoch >= self.partition_epoch
        )
        outcome = state.take_answer(answer, is_newest=is_newest)
        if answer.error_code:
            self._write_refusal(proposal, answer)
        if outcome is IsrOutcome.EXPANDED:
            self.take_partition_epoch(answer.partition_epoch)
            self.host.isr_changed(expanded=True)
            self.advance_high_watermark(self.log)
            self.notify()  # the session of a removed follower notes its fetches from now on
        elif outcome is IsrOutcome.UNDONE:
            self.commit_more()
        return outcome is IsrOutcome.UNKNOWN

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

    def delete_records(self, before_offset: int, *, by_flow: bool = False) -> int:
        """Delete the records below `before_offset` (-1: the high watermark); return that offset.

        The flow of a mirror may delete under every policy, and beyond the log end: the log is then
        empty and starts at that offset. Raises KafkaError POLICY_VIOLATION without the delete
        policy, and OFFSET_OUT_OF_RANGE below 0 or above the high watermark.
        """
        self.check_leader()
        log = self.log
        if by_flow and before_offset > log.log_end_offset:
            self._restart_at(log, before_offset)
            return before_offset
        if not log.config.is_deleted and not by_flow:
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

    def _restart_at(self, log: PartitionLog, offset: int) -> None:
        logger.info(
            "a mirror's log starts again partition=%s-%d offset=%d end=%d",
            self.topic,
            self.partition,
            offset,
            log.log_end_offset,
        )
        log.truncate_fully_and_start_at(offset)
        if self.leader_state is not None:
            self._start_epoch(log, self.leader_state)
        self.notify()

    def apply_retention(self, now_ms: int) -> int:
        """Delete segments by the topic's retention; return their number."""
        log = self._found(create=False)
        if log is None:
            return 0
        self.settle_promotion()
        start = log.log_start_offset
        count = log.apply_retention(now_ms)
        if log.log_start_offset != start:
            self.notify()
        return count
