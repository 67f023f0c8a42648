"""Sequences of an idempotent producer in one partition, and what an answer means for a batch.

One batch of a partition is in flight at a time. A retry repeats the batch with its sequence, so the
broker recognizes what it has already appended. A batch that failed without a certain answer may be
in the log: its sequence cannot be used again, so the next batch starts a new epoch at sequence 0,
which the broker accepts for the partition (`maybeRequestEpochBump` of Java's producer).
"""

from enum import Enum
from typing import Final, NamedTuple

from barnabas.protocol.errors import ErrorCode

_SEQUENCE_COUNT: Final = 1 << 31
_EPOCH_MAX: Final = 0x7FFF

_LOST_STATE: Final = frozenset(
    (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)
)
_FENCED: Final = frozenset(
    (
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    )
)
_NEVER_APPENDED: Final = frozenset(
    (
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    )
)
"""Retriable errors that a leader answers before it appends."""


class BatchIdentity(NamedTuple):
    """Producer id, epoch and sequence: the broker recognizes a batch by them."""

    producer_id: int
    epoch: int
    base_sequence: int


class Verdict(Enum):
    """The meaning of an answer for its batch."""

    ACKED = "acked"
    RETRY = "retry"
    """Send the same batch again."""
    RETRY_NEW_EPOCH = "retry in a new epoch"
    """It was not appended; send the records again as the first batch of a new epoch."""
    RETRY_NEW_ID = "retry with a new producer id"
    """It was not appended; send the records again with another producer id."""
    REFUSED = "refused"
    """It was not appended and will not be."""
    UNKNOWN = "unknown"
    """It may be appended, and no retry can clear that up."""


class PartitionSequence:
    """The producer's identity in one partition."""

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self._next_sequence = 0

    @property
    def needs_new_id(self) -> bool:
        """True when no batch may be sent before `use_new_id`."""
        return self.producer_id < 0

    def identity(self) -> BatchIdentity:
        """Return the identity of the batch to send next, the same until it is settled."""
        return BatchIdentity(self.producer_id, self.epoch, self._next_sequence)

    def acked(self, record_count: int) -> None:
        """Advance behind an acknowledged batch."""
        self._next_sequence = (self._next_sequence + record_count) % _SEQUENCE_COUNT

    def start_epoch(self) -> None:
        """Begin a new epoch at sequence 0; at the last epoch a new id is needed."""
        self._next_sequence = 0
        if self.epoch < _EPOCH_MAX:
            self.epoch += 1
        else:
            self.drop_id()

    def drop_id(self) -> None:
        """Make the next batch wait for a new producer id."""
        self.producer_id = -1

    def use_new_id(self, producer_id: int, epoch: int) -> None:
        """Continue with an id that the broker gave just now."""
        self.producer_id, self.epoch, self._next_sequence = producer_id, epoch, 0


def decide(code: ErrorCode, *, maybe_appended: bool) -> Verdict:
    """Return the meaning of an answer; `maybe_appended` is about earlier attempts of the batch."""
    if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
        return Verdict.ACKED
    if code in _LOST_STATE:
        return Verdict.UNKNOWN if maybe_appended else Verdict.RETRY_NEW_EPOCH
    if code in _FENCED:
        return Verdict.UNKNOWN if maybe_appended else Verdict.RETRY_NEW_ID
    if code.retriable:
        return Verdict.RETRY
    if code is ErrorCode.UNKNOWN_SERVER_ERROR or maybe_appended:
        return Verdict.UNKNOWN
    return Verdict.REFUSED


def may_append(code: ErrorCode) -> bool:
    """True when a retriable error leaves open whether the batch is in the leader's log."""
    return code not in _NEVER_APPENDED
