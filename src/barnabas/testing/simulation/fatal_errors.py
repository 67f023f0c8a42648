"""Errors that clients do not survive: those of transactional producers, and those of all clients.

Sources: the handlers of `TransactionManager` in Kafka 4.3's Java client (`fatalError`), and its
`maybeTransitionToErrorState` for Produce. INVALID_TXN_STATE of Produce only ends the transaction
there; franz-go's client gives the producer up.
"""

from collections.abc import Iterator
from typing import Any, Final, cast

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages_base import Struct

_CODES: Final = ("error_code", "partition_error_code")

_FENCED: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
    }
)

FATAL_ERRORS: Final = {
    "AddPartitionsToTxn": _FENCED,
    "AddOffsetsToTxn": _FENCED,
    "Produce": _FENCED - {ErrorCode.INVALID_PRODUCER_EPOCH},
    "TxnOffsetCommit": _FENCED,
    "EndTxn": _FENCED,
}
"""The errors that end a transactional producer, by request: it cannot abort and continue."""

UNEXPLAINED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.ILLEGAL_SASL_STATE,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
"""The errors that no fault explains to a client whose requests are right."""


def error_codes(answer: Struct) -> Iterator[int]:
    """Yield the error codes of a response, with those of its parts."""
    for name in answer.FIELDS:
        value: Any = getattr(answer, name)
        if name in _CODES:
            yield value
        elif isinstance(value, list):
            for part in cast("list[Any]", value):
                if isinstance(part, Struct):
                    yield from error_codes(part)
