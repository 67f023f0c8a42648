"""A partition's replicas as its leader sees them: the ISR, and what the replicas have committed.

Pure rules over offsets and times; the leader's log is an argument of each call. Times are in ms of
a monotonic clock.
"""

from collections.abc import Iterable
from typing import Protocol

from barnabas.cluster.metadata.image import BrokerImage
from barnabas.cluster.replication.follower_progress import UNKNOWN, FollowerProgress
from barnabas.cluster.replication.isr_state import IsrState
from barnabas.protocol.errors import ErrorCode

NO_EPOCH = -1


class BrokerRegistry(Protocol):
    """The brokers in the metadata that this leader has."""

    @property
    def replica_lag_time_max_ms(self) -> int:
        """replica.lag.time.max.ms: how long a member of the ISR may lag."""
        ...

    def registered_broker(self, broker: int) -> BrokerImage | None:
        """Return a broker of the metadata; None for an unknown one."""
        ...


class LeaderState:
    """The replicas of a partition and their progress, as its leader sees them.

    `epoch_start_offset` is where the leader's log ended when its epoch started.
    """

    __slots__ = (
        "_brokers",
        "_replica",
        "epoch_start_offset",
        "followers",
        "isr",
        "min_insync_replicas",
    )

    def __init__(self, replica: int, brokers: BrokerRegistry) -> None:
        self._replica = replica
        self._brokers = brokers
        self.epoch_start_offset = 0
        self.followers: dict[int, FollowerProgress] = {}
        self.isr = IsrState.of(())
        self.min_insync_replicas = 1

    # The metadata

    def assign(self, replicas: Iterable[int], isr: tuple[int, ...]) -> None:
        """Take the replicas and the ISR of the metadata; known followers keep their progress."""
        known = self.followers
        self.followers = {
            replica: known.get(replica) or FollowerProgress()
            for replica in replicas
            if replica != self._replica
        }
        self.isr = IsrState.of(isr)

    def start_epoch(self, log_end_offset: int, now_ms: int) -> None:
        """A new epoch starts: members of the ISR get the full lag time to fetch."""
        for replica, progress in self.followers.items():
            in_isr = replica in self.isr.committed
            progress.start_epoch(log_end_offset, now_ms, in_isr=in_isr)

    @property
    def is_under_min_isr(self) -> bool:
        """True when the ISR is too small to commit anything."""
        return len(self.isr.committed) < self.min_insync_replicas

    # Followers

    def check_broker_epoch(self, replica: int, broker_epoch: int) -> bool:
        """True unless the fetch comes from an earlier start of the broker (KIP-903)."""
        if broker_epoch == NO_EPOCH:
            return True
        broker = self._brokers.registered_broker(replica)
        return broker is None or broker.fenced or broker.epoch <= broker_epoch

    def may_join(self, replica: int, high_watermark: int) -> bool:
        """True when a follower outside the ISR has everything that is committed.

        It must also have reached the start of the leader's epoch: what is committed below that is
        not known before (KAFKA-7128).
        """
        if self.isr.is_pending or replica in self.isr.committed:
            return False
        progress = self.followers[replica]
        end = progress.log_end_offset
        is_in_sync = end >= high_watermark and end >= self.epoch_start_offset
        return is_in_sync and self._is_eligible(replica, progress)

    def joinable(self, high_watermark: int, log_end_offset: int, now_ms: int) -> int | None:
        """Return a follower that may join the ISR although it did not fetch just now.

        It may have fetched before the metadata had it as unfenced, or while another change of the
        ISR was pending; a follower of an idle partition does not fetch that again.
        """
        if self.isr.is_pending or len(self.isr.committed) > len(self.followers):
            return None
        lag_ms = self._brokers.replica_lag_time_max_ms
        for replica, progress in self.followers.items():
            is_alive = progress.is_caught_up(log_end_offset, now_ms, lag_ms)
            if is_alive and self.may_join(replica, high_watermark):
                return replica
        return None

    def lagging(self, log_end_offset: int, now_ms: int) -> list[int]:
        """Return the members of the ISR that are behind for longer than the lag time.

        Empty while a change of the ISR is pending.
        """
        if self.isr.is_pending:
            return []
        lag_ms = self._brokers.replica_lag_time_max_ms
        followers = self.followers
        return [
            replica
            for replica in self.isr.committed
            if (progress := followers.get(replica)) is not None
            and not progress.is_caught_up(log_end_offset, now_ms, lag_ms)
        ]

    def _is_eligible(self, replica: int, progress: FollowerProgress) -> bool:
        """True when the controller would accept the replica, as far as is known here."""
        epoch = progress.broker_epoch
        broker = self._brokers.registered_broker(replica)
        if epoch is None or broker is None or not broker.is_active:
            return False
        return epoch in (NO_EPOCH, broker.epoch)

    # The high watermark

    def high_watermark(self, log_end_offset: int, now_ms: int) -> int:
        """Return the offset below which the replicas that count have all records; -1 for unknown.

        All of the maximal ISR counts, and a caught-up replica that is about to join it: otherwise,
        under constant writes, the high watermark would always be ahead of that replica. Below
        min.insync.replicas nothing is committed (KIP-966).
        """
        if self.is_under_min_isr:
            return UNKNOWN
        maximal = self.isr.maximal
        end = log_end_offset
        for replica, progress in self.followers.items():
            if progress.log_end_offset < end and (
                replica in maximal or self._is_joining(replica, progress, log_end_offset, now_ms)
            ):
                end = progress.log_end_offset
        return end

    def _is_joining(
        self, replica: int, progress: FollowerProgress, log_end_offset: int, now_ms: int
    ) -> bool:
        lag_ms = self._brokers.replica_lag_time_max_ms
        return progress.is_caught_up(log_end_offset, now_ms, lag_ms) and self._is_eligible(
            replica, progress
        )

    def acks_outcome(self, high_watermark: int, last_offset: int) -> ErrorCode | None:
        """Return the outcome of acks=all for records up to `last_offset`; None while it is open.

        As `Partition.checkEnoughReplicasReachOffset`.
        """
        if high_watermark <= last_offset:
            return None
        if len(self.isr.maximal) < self.min_insync_replicas:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def low_watermark(self, log_start_offset: int) -> int:
        """Return the lowest log start offset of the leader and the followers that are alive."""
        low = log_start_offset
        for replica, progress in self.followers.items():
            if progress.log_start_offset < low:
                broker = self._brokers.registered_broker(replica)
                if broker is not None and not broker.fenced:
                    low = progress.log_start_offset
        return low
