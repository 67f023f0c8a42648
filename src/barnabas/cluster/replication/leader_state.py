"""A partition's replicas as its leader sees them: the ISR, and what the replicas have committed.

Pure rules over offsets and times; the leader's log is an argument of each call. Times are in ms of
a monotonic clock.
"""

from enum import Enum
from typing import Final, Protocol

from barnabas.cluster.metadata.image import BrokerImage, PartitionImage
from barnabas.cluster.replication.follower_progress import UNKNOWN, FetchTime, FollowerProgress
from barnabas.cluster.replication.isr_manager import PartitionAnswer
from barnabas.cluster.replication.isr_state import IsrState
from barnabas.protocol.errors import ErrorCode

NO_EPOCH = -1

# Errors that prove that the controller did not apply a proposal.
_NOT_APPLIED: Final = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
# Errors after which only the metadata show whether an earlier copy of it was applied.
_MAYBE_APPLIED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)


class IsrOutcome(Enum):
    """The effect of the controller's answer on a proposed ISR."""

    EXPANDED = "the larger ISR is in force"
    OPEN = "the metadata will show the ISR"
    UNDONE = "the change was not applied"
    UNKNOWN = "the proposal must be sent again"


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

    `epoch_start_offset` is where the leader's log ended when its epoch started. `image` has the
    directories of the replicas.
    """

    __slots__ = (
        "_brokers",
        "_replica",
        "epoch_start_offset",
        "followers",
        "image",
        "isr",
        "min_insync_replicas",
    )

    def __init__(self, replica: int, brokers: BrokerRegistry, image: PartitionImage) -> None:
        self._replica = replica
        self._brokers = brokers
        self.image = image
        self.epoch_start_offset = 0
        self.followers: dict[int, FollowerProgress] = {}
        self.isr = IsrState.of(())
        self.min_insync_replicas = 1

    # The metadata

    def assign(self) -> None:
        """Take the replicas and the ISR of `image`; known followers keep their progress."""
        known = self.followers
        self.followers = {
            replica: known.get(replica) or FollowerProgress()
            for replica in self.image.replicas
            if replica != self._replica
        }
        self.isr = IsrState.of(self.image.isr)

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

    def known_epoch(self, replica: int, broker_epoch: int) -> int:
        """Return the broker epoch of a fetch: the registered one when the fetch has none.

        So the fetches of an earlier start of the broker do not count for the next one.
        """
        if broker_epoch != NO_EPOCH:
            return broker_epoch
        broker = self._brokers.registered_broker(replica)
        return NO_EPOCH if broker is None else broker.epoch

    def is_out_of_sync(self, replica: int) -> bool:
        """True for a follower outside the committed ISR.

        Each of its fetches must be noted then, as one of them lets it join the ISR.
        """
        return replica in self.followers and replica not in self.isr.committed

    def stop_counting_fetches(self, time: FetchTime, at_ms: int) -> None:
        """The follower's session with this time last fetched the partition at `at_ms`."""
        for progress in self.followers.values():
            progress.freeze(time, at_ms)

    def hold_back(self, replica: int) -> None:
        """A throttle gives a follower outside the ISR no records for now."""
        self.followers[replica].is_fetching = False

    def may_join(self, replica: int, high_watermark: int) -> bool:
        """True when a follower outside the ISR, which fetched just now, has all that is committed.

        It must also have reached the start of the leader's epoch: what is committed below that is
        not known before (KAFKA-7128). An earlier fetch proves nothing: the replica may have been
        removed from the ISR since, because its log was lost.
        """
        if self.isr.is_pending or replica in self.isr.committed:
            return False
        progress = self.followers[replica]
        end = progress.log_end_offset
        is_in_sync = end >= high_watermark and end >= self.epoch_start_offset
        return is_in_sync and self._is_eligible(replica, progress)

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

    # Changes of the ISR

    @property
    def broker_epochs(self) -> dict[int, int]:
        """The epoch of each follower that fetched with one (KIP-903)."""
        return {
            replica: progress.broker_epoch
            for replica, progress in self.followers.items()
            if progress.broker_epoch is not None
        }

    def begin_change(self, isr: IsrState) -> None:
        """Make `isr`, which has a proposal, the pending state."""
        self.isr = isr

    def take_answer(self, answer: PartitionAnswer, *, is_newest: bool) -> IsrOutcome:
        """Take the controller's answer to the pending proposal.

        `is_newest` is False when the metadata have a newer state of the partition. Of two changes,
        only a larger ISR counts with its answer. A smaller one counts when the metadata have it:
        the answer may arrive before an increase of min.insync.replicas with which the controller
        keeps the removed replica eligible to lead, and this leader would commit what that replica
        does not have. After an error that may follow an applied change, the proposal stays pending
        until the metadata arrive: rolling it back could drop a replica from the maximal ISR that is
        in the ISR.
        """
        code = answer.error_code
        if code == ErrorCode.NONE:
            if not self.isr.is_expanding or not is_newest:
                return IsrOutcome.OPEN
            self.isr = IsrState.of(tuple(answer.isr))
            return IsrOutcome.EXPANDED
        if code in _NOT_APPLIED:
            self.isr = self.isr.rolled_back()
            return IsrOutcome.UNDONE
        return IsrOutcome.OPEN if code in _MAYBE_APPLIED else IsrOutcome.UNKNOWN

    def _is_eligible(self, replica: int, progress: FollowerProgress) -> bool:
        """True when the replica is online in the broker that fetched it, which may join ISRs.

        As far as the metadata here show it.
        """
        broker = self._brokers.registered_broker(replica)
        return (
            broker is not None
            and broker.is_active
            and progress.broker_epoch == broker.epoch
            and broker.has_online(self.image.directory(replica))
        )

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
        """True for a caught-up replica that will join the ISR with one of its next fetches.

        A throttled replica does not fetch. Kafka waits for it too, for up to
        replica.lag.time.max.ms.
        """
        lag_ms = self._brokers.replica_lag_time_max_ms
        return (
            progress.is_fetching
            and progress.is_caught_up(log_end_offset, now_ms, lag_ms)
            and self._is_eligible(replica, progress)
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
