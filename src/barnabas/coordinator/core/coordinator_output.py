"""The result of a coordinator's operation: records to append and replies to send."""

from collections.abc import Callable, Hashable
from typing import Any, TypeAlias

import attrs

from barnabas.coordinator.core.coordinator_timers import Timers
from barnabas.coordinator.core.steps import Steps
from barnabas.protocol.errors import ErrorCode
from barnabas.security.principals import ANONYMOUS, Principal

# Identifies a waiting request for the shell; the core only returns it.
Token = Hashable


@attrs.frozen
class Caller:
    """The sender of a request: client id, host as Kafka records it ("/127.0.0.1"), api version.

    Its principal is what it may see.
    """

    client_id: str = ""
    client_host: str = "/127.0.0.1"
    version: int = 0
    principal: Principal = ANONYMOUS


@attrs.frozen
class Record:
    """One record for `__consumer_offsets`; a value of None is a tombstone."""

    key: Any
    value: Any
    version: int = 0


@attrs.frozen
class Reply:
    """A response for a waiting request; it goes out once all records before it are committed."""

    token: Token
    response: Any


def _empty() -> list[Any]:
    return []  # an Output is made for each request, and `list[Record]()` takes six times as long


@attrs.define
class Output:
    """The decision on one event.

    The shell appends `records` as one batch. Then it replays each of them, sends `replies` once
    they are committed, and calls `then(now_ms)`, which decides what follows from the new state.
    When the append is refused, nothing is replayed. Then `refused(error, now_ms)` decides, with the
    error translated by `append_error`, and replies that do not depend on the records still go out;
    without `refused`, each reply becomes that error. Records that are not `atomic` may be split
    over batches. `effects` are actions for the shell, defined by the kind of coordinator. Like
    replies they wait until the records are committed, and they are dropped when the append is
    refused.
    """

    records: list[Record] = attrs.Factory(_empty)
    replies: list[Reply] = attrs.Factory(_empty)
    effects: list[Any] = attrs.Factory(_empty)
    then: "Callable[[int], Decision] | None" = None
    refused: "Callable[[ErrorCode, int], Decision] | None" = None
    atomic: bool = True

    def reply(self, token: Token, response: object) -> None:
        """Add a response to the request of `token`."""
        self.replies.append(Reply(token, response))

    def absorb(self, other: "Output") -> "Output":
        """Take over another decision's replies, records and continuations; return itself.

        At most one of the two may have records: continuations belong to one append.
        """
        self.replies.extend(other.replies)
        self.effects.extend(other.effects)
        if other.records:
            self.records.extend(other.records)
            self.then, self.refused = other.then, other.refused
        return self


Decision: TypeAlias = Output | Steps[Output]
"""The result of an operation: its output, or steps to it when that may take long."""

DecisionTimers: TypeAlias = Timers[Callable[[int], Decision]]
"""The timers of a shard: a timer that is due decides like any other operation, given the time."""


_APPEND_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def append_error(error: ErrorCode) -> ErrorCode:
    """Return the error that a client gets when the coordinator's append failed.

    Kafka: CoordinatorOperationExceptionHelper.handleOperationException.
    """
    return _APPEND_ERRORS.get(error, error)
