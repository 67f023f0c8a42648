"""The errors that end a transactional producer, by request: it cannot abort and continue.

Sources: the handlers of `TransactionManager` in Kafka 4.3's Java client (`fatalError`), and its
`maybeTransitionToErrorState` for Produce. INVALID_TXN_STATE of Produce only ends the transaction
there; franz-go's client gives the producer up.
"""

from typing import Final

from barnabas.protocol.errors import ErrorCode

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
    "Produce": _FENCED - {ErrorCode.INVALID_PRODUCER_EPOCH},
    "TxnOffsetCommit": _FENCED,
    "EndTxn": _FENCED,
}
