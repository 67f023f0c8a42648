"""The states of a transactional id, and the meaning of EndTxn in each.

Kafka: TransactionState, and the table in TransactionCoordinator above `endTransaction`. Kafka's
PrepareEpochFence does not occur here: a fence is decided and written in one step, as PrepareAbort
with a bumped epoch, so nothing happens in between.
"""

from enum import Enum, IntEnum
from typing import Final

TV_0: Final = 0
TV_1: Final = 1
TV_2: Final = 2
"""`transaction.version`: 1 has flexible records, 2 bumps the epoch with each end (KIP-890)."""


class TransactionState(IntEnum):
    """The state of a transactional id; the records hold the value."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """The name that clients see."""
        return _LABELS[self]

    @property
    def is_prepared(self) -> bool:
        """True when the outcome is decided and markers are being written."""
        return self in (self.PREPARE_COMMIT, self.PREPARE_ABORT)

    @property
    def is_settled(self) -> bool:
        """True when no transaction is in progress."""
        return self in (self.EMPTY, self.COMPLETE_COMMIT, self.COMPLETE_ABORT)


EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT, DEAD, _ = (
    TransactionState
)

_LABELS: Final = {
    EMPTY: "Empty",
    ONGOING: "Ongoing",
    PREPARE_COMMIT: "PrepareCommit",
    PREPARE_ABORT: "PrepareAbort",
    COMPLETE_COMMIT: "CompleteCommit",
    COMPLETE_ABORT: "CompleteAbort",
    DEAD: "Dead",
    TransactionState.PREPARE_EPOCH_FENCE: "PrepareEpochFence",
}
STATES_BY_LABEL: Final = {label: state for state, label in _LABELS.items()}

# The states before each state; aborting without a transaction needs TV_2 (KAFKA-18575).
PREVIOUS: Final = {
    EMPTY: {EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT},
    ONGOING: {ONGOING, EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT},
    PREPARE_COMMIT: {ONGOING},
    PREPARE_ABORT: {ONGOING, EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT},
    COMPLETE_COMMIT: {PREPARE_COMMIT},
    COMPLETE_ABORT: {PREPARE_ABORT},
}


class Ending(Enum):
    """The effect of an EndTxn request."""

    END = "write the outcome"
    REPEAT = "answer as the first time"
    WAIT = "CONCURRENT_TRANSACTIONS"
    INVALID = "INVALID_TXN_STATE"
    FENCED = "PRODUCER_FENCED"


END, REPEAT, WAIT, INVALID, FENCED = Ending

COMMIT: Final = True
ABORT: Final = False

# (state, commits) -> ending, for a request with the producer id and the epoch of the log.
ENDINGS_V1: Final = {
    (EMPTY, COMMIT): INVALID,
    (EMPTY, ABORT): INVALID,
    (ONGOING, COMMIT): END,
    (ONGOING, ABORT): END,
    (PREPARE_COMMIT, COMMIT): WAIT,
    (PREPARE_COMMIT, ABORT): WAIT,
    (PREPARE_ABORT, COMMIT): WAIT,
    (PREPARE_ABORT, ABORT): WAIT,
    (COMPLETE_COMMIT, COMMIT): REPEAT,
    (COMPLETE_COMMIT, ABORT): INVALID,
    (COMPLETE_ABORT, COMMIT): INVALID,
    (COMPLETE_ABORT, ABORT): REPEAT,
}

# (state, commits, is a retry) -> ending. Each end bumps the epoch. A request with the epoch before
# the log's is therefore a repeated one, and one with the log's is new.
#
# In PrepareCommit and PrepareAbort every request waits before its producer id and epoch count:
# the producer may have the id already that replaces an exhausted one with the last marker.
ENDINGS_V2: Final = {
    (EMPTY, COMMIT, False): INVALID,
    (EMPTY, ABORT, False): END,
    (EMPTY, COMMIT, True): FENCED,
    (EMPTY, ABORT, True): FENCED,
    (ONGOING, COMMIT, False): END,
    (ONGOING, ABORT, False): END,
    (ONGOING, COMMIT, True): FENCED,
    (ONGOING, ABORT, True): FENCED,
    (COMPLETE_COMMIT, COMMIT, False): INVALID,
    (COMPLETE_COMMIT, ABORT, False): END,
    (COMPLETE_COMMIT, COMMIT, True): REPEAT,
    (COMPLETE_COMMIT, ABORT, True): INVALID,
    (COMPLETE_ABORT, COMMIT, False): INVALID,
    (COMPLETE_ABORT, ABORT, False): END,
    (COMPLETE_ABORT, COMMIT, True): INVALID,
    (COMPLETE_ABORT, ABORT, True): REPEAT,
}
