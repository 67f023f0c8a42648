"""A partition that this broker hosts: what the metadata say of it, and its leadership.

Only the methods here assign the fields; `partition` has what is done with the partition. While this
broker leads it, `leader_state` has the rules over its replicas.
"""

from abc import ABC, abstractmethod
from typing import Final

from barnabas.cluster.metadata.image import INTERNAL_TOPICS, PartitionImage
from barnabas.cluster.replication.leader_state import LeaderState
from barnabas.cluster.replication.mirror_state import (
    NOT_PROMOTED,
    MirrorState,
    mirror_state_of,
)
from barnabas.cluster.replication.partition_ports import PartitionHost, PartitionListener
from barnabas.config import TopicConfig
from barnabas.log import PartitionLog
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.types import Uuid

NEVER_FLUSH: Final = (1 << 63) - 1
"""The default of flush.messages: the operating system decides."""


class HostedPartition(ABC):
    """The state of a replica on this broker. The log is opened when it is first needed."""

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
        "mirror",
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
        self.mirror: MirrorState | None = None
        self.flush_messages = NEVER_FLUSH
        self.listeners: dict[PartitionListener, None] = {}
        self._alone = False
        self._log: PartitionLog | None = None
        self.host = host

    def __repr__(self) -> str:
        return f"<Partition {self.topic}-{self.partition} epoch {self.leader_epoch}>"

    @property
    def is_open(self) -> bool:
        """True when the log was opened; until then nothing was read or written."""
        return self._log is not None

    @property
    def leader(self) -> int:
        """The leader in the metadata image; -1: none."""
        return -1 if self.image is None else self.image.leader

    @property
    def is_in_isr(self) -> bool:
        """True when the metadata image has this replica in the ISR."""
        return self.image is not None and self.broker_id in self.image.isr

    @property
    def is_mirror(self) -> bool:
        """True when only a flow writes to the partition."""
        return self.mirror is not None and self.mirror.is_active

    @abstractmethod
    def notify(self) -> None:
        """Notify every listener."""

    @abstractmethod
    def settle_promotion(self) -> None:
        """As the leader of a promoted mirror, end what was open in it."""

    # The metadata

    def update(self, image: PartitionImage, config: TopicConfig) -> None:
        """Apply the metadata of the partition and its topic.

        An image that is older than an answer of the controller changes only the settings.
        """
        self._configure_mirror(config)  # before the leader epoch that it decides about
        if image.partition_epoch >= self.partition_epoch:
            self._follow_image(image)
        self._configure(config)
        if self._log is not None:
            self.settle_promotion()
            self.advance_high_watermark(self._log)
        self.notify()

    def _follow_image(self, image: PartitionImage) -> None:
        is_new_epoch = image.leader_epoch != self.leader_epoch
        is_new = is_new_epoch or image.partition_epoch > self.partition_epoch
        self.image = image
        self.leader_epoch = image.leader_epoch
        self.partition_epoch = image.partition_epoch
        self.is_leader = image.leader == self.broker_id
        if is_new_epoch and self.mirror is not None:
            self.mirror.is_settled = False
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

    def take_partition_epoch(self, epoch: int) -> None:
        """The controller answered in this partition epoch: older images change only settings."""
        self.partition_epoch = epoch

    def _configure(self, config: TopicConfig) -> None:
        image = self.image
        if image is not None:
            # min.insync.replicas above the number of replicas means all of them (effectiveMinIsr).
            self.min_insync_replicas = min(config.min_insync_replicas, len(image.replicas))
        self.flush_messages = config.flush_messages
        if self.leader_state is not None:
            self.leader_state.min_insync_replicas = self.min_insync_replicas
        self._set_alone()

    def _configure_mirror(self, config: TopicConfig) -> None:
        state = mirror_state_of(config, self.partition)
        if self.mirror is None or not self.mirror.is_same(state):
            self.mirror = state
        if self._log is not None:
            self._prepare_log(self._log)

    def _prepare_log(self, log: PartitionLog) -> None:
        """Set in the log which leader epochs are a mirror's, before it takes over an epoch."""
        log.note_mirror_epochs(NOT_PROMOTED if self.mirror is None else self.mirror.end_epoch)

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

    # The high watermark

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
