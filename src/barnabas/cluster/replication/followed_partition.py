"""One partition of a fetcher: its replica, and where its fetches are.

A partition is in one of these states:

    FETCHING        part of the next Fetch
    OUT_OF_RANGE    its offset is not in the leader's log: ListOffsets asks for the leader's offsets
    DELAYED         an error; FETCHING again after `replica.fetch.backoff.ms`
    THROTTLED       the quota of throttled replication is exceeded
    FAILED          until the leader epoch changes
"""

from enum import Enum, auto
from typing import Final, Protocol

from barnabas.cluster.replication import follower_log
from barnabas.cluster.replication.follower_session import Key
from barnabas.cluster.replication.log_like import LogLike
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.types import Uuid

NOT_SENT: Final = (-1, -1)


class FollowedReplica(Protocol):
    """A replica of this broker, as its fetcher sees it; `Partition` fits."""

    @property
    def topic(self) -> str:
        """The topic's name."""
        ...

    @property
    def topic_id(self) -> Uuid:
        """The topic's id."""
        ...

    @property
    def partition(self) -> int:
        """The partition's number."""
        ...

    @property
    def log(self) -> LogLike:
        """The log; raises KafkaError KAFKA_STORAGE_ERROR when it cannot be opened."""
        ...

    @property
    def is_in_isr(self) -> bool:
        """True when the metadata here have this replica in the ISR."""
        ...

    def follower_append(self, batches: follower_log.Batches, leader_epoch: int, now_ms: int) -> int:
        """Append the leader's batches; return the new log end offset. Raises KafkaError."""
        ...

    def truncate_to(self, offset: int) -> None:
        """Remove the records from `offset` on."""
        ...

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove all records; the next one gets `offset`."""
        ...

    def follow_high_watermark(self, leader_high_watermark: int) -> None:
        """Raise the high watermark to the leader's, at most to the log end."""
        ...

    def follow_log_start(self, leader_log_start: int) -> None:
        """Raise the log start to the leader's, at most to the high watermark."""
        ...


class FetchState(Enum):
    """The state of a partition in its fetcher; see the module."""

    FETCHING = auto()
    OUT_OF_RANGE = auto()
    DELAYED = auto()
    THROTTLED = auto()
    FAILED = auto()


class FollowedPartition:
    """One partition of a fetcher."""

    __slots__ = (
        "fetch_offset",
        "key",
        "lag",
        "last_fetched_epoch",
        "leader_end",
        "leader_epoch",
        "log_start_offset",
        "replica",
        "retries",
        "retry_ms",
        "sent",
        "state",
    )

    def __init__(self, key: Key, replica: FollowedReplica, leader_epoch: int) -> None:
        self.key = key
        self.replica = replica
        self.leader_epoch = leader_epoch
        self.fetch_offset = 0
        self.last_fetched_epoch = -1
        self.log_start_offset = 0
        self.lag: int | None = None  # records behind the leader's high watermark, once known
        self.leader_end: int | None = None  # the first answer of two, while OUT_OF_RANGE
        self.sent = NOT_SENT  # offset and epoch that the leader has for it
        self.retry_ms = 0
        self.retries = 0
        self.state = FetchState.FAILED

    def __str__(self) -> str:
        replica = self.replica
        return f"{replica.topic}-{replica.partition}"

    @property
    def is_in_sync(self) -> bool:
        """True when the last response left nothing to fetch below the leader's high watermark.

        Before the first response of a leader epoch, the ISR of the metadata counts: acks=all waits
        for its members.
        """
        return self.replica.is_in_isr if self.lag is None else self.lag == 0

    def read_log(self) -> None:
        """Set what the next fetch asks from what the log has."""
        log = self.replica.log
        self.fetch_offset = follower_log.initial_fetch_offset(log)
        self.last_fetched_epoch = log.latest_epoch
        self.log_start_offset = log.log_start_offset

    def request(self, max_bytes: int) -> FetchRequest.FetchPartition:
        """Return this partition's part of a Fetch request."""
        self.sent = (self.fetch_offset, self.leader_epoch)
        return FetchRequest.FetchPartition(
            partition=self.key[1],
            current_leader_epoch=self.leader_epoch,
            fetch_offset=self.fetch_offset,
            last_fetched_epoch=self.last_fetched_epoch,
            log_start_offset=self.log_start_offset,
            partition_max_bytes=max_bytes,
        )
