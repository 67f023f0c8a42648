"""All transactional ids of one partition of `__transaction_state`.

Kafka: TransactionCoordinator and TransactionStateManager. Records take effect when they are
replayed, right after the append; replies and markers go out once they are committed. Where Kafka
answers CONCURRENT_TRANSACTIONS during an append, the next request is decided on the new state here,
and its reply waits for the commit.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Any

import attrs

from barnabas.coordinator.core.coordinator_output import Decision, DecisionTimers, Output, Token
from barnabas.coordinator.core.coordinator_timers import Timers
from barnabas.coordinator.transactions.pending_markers import (
    MarkersAnswered,
    Outstanding,
    markers_of,
)
from barnabas.coordinator.transactions.producer_initialization import (
    checked_id,
    given,
    next_epoch,
)
from barnabas.coordinator.transactions.transaction import (
    NO_PRODUCER_ID,
    TopicPartition,
    Transaction,
)
from barnabas.coordinator.transactions.transaction_listing import Filters, described, listed
from barnabas.coordinator.transactions.transaction_log_records import (
    read_transaction,
    tombstone,
    transaction_record,
)
from barnabas.coordinator.transactions.transaction_settings import TransactionSettings
from barnabas.coordinator.transactions.transaction_state import (
    DEAD,
    END,
    ONGOING,
    REPEAT,
    TV_2,
)
from barnabas.coordinator.transactions.transaction_validation import (
    check_current,
    check_owner,
    concurrent,
    decide_ending,
    ended,
    refusal,
    retry_later,
    unmapped,
)
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.describe_transactions import DescribeTransactionsResponse
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from barnabas.protocol.messages.list_transactions import ListTransactionsResponse
from barnabas.protocol.records.transaction_records import TransactionLogKey

logger = logging.getLogger(__name__)


class TransactionShard:
    """Decides on requests about the transactional ids of one partition, and replays its records.

    Operations return an `Output` whose reply for `token` is a response; a refusal is raised as
    KafkaError. `transaction_version` returns the finalized feature level. Times are wall-clock ms.
    """

    def __init__(
        self, settings: TransactionSettings, transaction_version: Callable[[], int]
    ) -> None:
        self._settings = settings
        self._transaction_version = transaction_version
        self._timers: DecisionTimers = Timers()
        self._transactions: dict[str, Transaction] = {}
        # Not in the log: markers without an answer, and each `Transaction.last_producer_epoch`.
        self._outstanding: dict[str, Outstanding] = {}

    # InitProducerId

    def init_producer_id(
        self,
        request: InitProducerIdRequest,
        fresh_producer_id: int | None,
        now_ms: int,
        token: Token,
    ) -> Output:
        """Start a producer, or resume one after an error; a running transaction is aborted first.

        Raises ProducerIdNeededError when a new id is needed; KafkaError INVALID_REQUEST,
        INVALID_TRANSACTION_TIMEOUT, CONCURRENT_TRANSACTIONS, PRODUCER_FENCED.
        """
        transactional_id = checked_id(request, self._settings.max_timeout_ms)
        timeout_ms = request.transaction_timeout_ms
        present = self._transactions.get(transactional_id)
        if present is None:
            present = Transaction(transactional_id, given(fresh_producer_id), timeout_ms)
        if present.state.is_prepared:  # first: the client may have the producer id that comes next
            raise concurrent(transactional_id)
        owner: tuple[int, int] | None = None
        if request.producer_id != NO_PRODUCER_ID:
            owner = request.producer_id, request.producer_epoch
            check_owner(present, *owner)
        if present.state is ONGOING:
            version, following_id = self._transaction_version(), NO_PRODUCER_ID
            if version >= TV_2 and present.is_exhausted:
                following_id = given(fresh_producer_id)
            out = self._end(present.fenced(version, now_ms, next_producer_id=following_id))
            out.reply(token, retry_later())
            return out
        expected_epoch = None if owner is None else owner[1]
        following = next_epoch(present, timeout_ms, expected_epoch, fresh_producer_id, now_ms)
        logger.info(
            "initialized transactional_id=%s producer_id=%d epoch=%d",
            transactional_id,
            following.producer_id,
            following.producer_epoch,
        )
        out = self._write(following)
        out.reply(
            token,
            InitProducerIdResponse(
                producer_id=following.producer_id, producer_epoch=following.producer_epoch
            ),
        )
        return out

    # Partitions

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        client_version: int,
        now_ms: int,
        token: Token,
    ) -> Output:
        """Add partitions to the transaction, which begins with the first; the reply is NONE.

        Raises KafkaError INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, and
        CONCURRENT_TRANSACTIONS while the previous transaction is being ended.
        """
        present = self._of(transactional_id)
        if present.state.is_prepared:  # first: the client may have the producer id that comes next
            raise concurrent(transactional_id)
        check_current(present, producer_id, producer_epoch)
        added = frozenset(partitions)
        out = Output()
        if present.state is not ONGOING or not added <= present.partitions:
            out = self._write(present.with_partitions(added, client_version, now_ms))
        out.reply(token, ErrorCode.NONE)
        return out

    def verify_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        token: Token,
    ) -> Output:
        """Reply for each partition: NONE in the transaction, else TRANSACTION_ABORTABLE (KIP-890).

        Raises the errors of `add_partitions`, but those of the producer id and epoch come first.
        """
        present = self._of(transactional_id)
        check_current(present, producer_id, producer_epoch)
        if present.state.is_prepared:
            raise concurrent(transactional_id)
        out = Output()
        out.reply(
            token,
            {
                partition: ErrorCode.NONE
                if partition in present.partitions
                else ErrorCode.TRANSACTION_ABORTABLE
                for partition in partitions
            },
        )
        return out

    def _of(self, transactional_id: str) -> Transaction:
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        present = self._transactions.get(transactional_id)
        if present is None:
            raise unmapped(transactional_id, NO_PRODUCER_ID)
        return present

    # Ending

    def end_transaction(
        self,
        request: EndTxnRequest,
        client_version: int,
        fresh_producer_id: int | None,
        now_ms: int,
        token: Token,
    ) -> Output:
        """Commit or abort; the reply is an EndTxnResponse once the outcome is written.

        In the second version the reply has the producer id and epoch of the next transaction, and a
        repeated request gets the same one. Raises ProducerIdNeededError when the producer id's
        epochs are used up; KafkaError INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED,
        INVALID_TXN_STATE, CONCURRENT_TRANSACTIONS.
        """
        present = self._of(request.transactional_id)
        is_v2 = client_version >= TV_2
        ending = decide_ending(present, request, is_v2=is_v2)
        if ending is REPEAT:
            out = Output()
            out.reply(token, ended(present, is_v2=is_v2))
            return out
        if ending is not END:
            raise refusal(present, ending)
        next_producer_id = NO_PRODUCER_ID
        if is_v2 and present.is_exhausted:
            next_producer_id = given(fresh_producer_id)
        prepared = present.ending(
            commit=request.committed,
            client_version=client_version,
            next_producer_id=next_producer_id,
            now_ms=now_ms,
        )
        out = self._end(prepared)
        out.reply(token, ended(prepared.completed(now_ms), is_v2=is_v2))
        return out

    def _end(self, prepared: Transaction) -> Output:
        """Write the outcome; the markers follow when it is committed."""
        out = self._write(prepared)
        if not prepared.partitions:
            return _then(out, lambda now_ms: self._complete(prepared.transactional_id, now_ms))
        out.effects.append(markers_of(prepared))
        return out

    def _abort_overdue(self, transactional_id: str, now_ms: int) -> Output:
        """Abort a transaction that timed out, and fence its producer."""
        present = self._transactions[transactional_id]
        logger.info("aborting transaction that timed out transactional_id=%s", transactional_id)
        out = self._end(present.fenced(self._transaction_version(), now_ms))

        def refused(_error: ErrorCode, now_ms: int) -> Output:
            again_ms = now_ms + self._settings.abort_interval_ms
            self._schedule_timeout(transactional_id, again_ms)
            return Output()

        out.refused = refused
        return out

    # Markers

    def markers_answered(self, answered: MarkersAnswered, now_ms: int) -> Output:
        """Take the outcomes of markers; with the last one the transaction is complete."""
        transactional_id = answered.transactional_id
        outstanding = self._outstanding.get(transactional_id)
        asked = answered.producer_id, answered.producer_epoch
        if outstanding is None or asked != (outstanding.producer_id, outstanding.producer_epoch):
            return Output()
        if outstanding.take(answered):
            logger.warning("another coordinator took over transactional_id=%s", transactional_id)
            del self._outstanding[transactional_id]
            return Output()
        if not outstanding.partitions:
            return self._complete(transactional_id, now_ms)
        if outstanding.failed:
            self._timers.schedule(
                ("markers", transactional_id),
                now_ms + self._settings.marker_delay_ms(outstanding.attempts),
                lambda _now_ms: self._send_again(transactional_id),
            )
        return Output()

    def _send_again(self, transactional_id: str) -> Output:
        out = Output()
        outstanding = self._outstanding.get(transactional_id)
        if outstanding is not None and outstanding.failed:
            failed, outstanding.failed = frozenset(outstanding.failed), set()
            outstanding.attempts += 1
            out.effects.append(markers_of(self._transactions[transactional_id], failed))
        return out

    def _complete(self, transactional_id: str, now_ms: int) -> Output:
        """Write the completion; no request waits for it, so it is retried without limit."""
        prepared = self._transactions.get(transactional_id)
        if prepared is None or not prepared.state.is_prepared:
            return Output()
        out = self._write(prepared.completed(now_ms))

        def refused(_error: ErrorCode, now_ms: int) -> Output:
            self._timers.schedule(
                ("complete", transactional_id),
                now_ms + self._settings.marker_retry_ms,
                lambda now_ms: self._complete(transactional_id, now_ms),
            )
            return Output()

        out.refused = refused
        return out

    def _write(self, following: Transaction) -> Output:
        """Write a transition, and keep what the log does not hold of it."""

        def remember(_now_ms: int) -> Output:
            self._transactions[following.transactional_id] = following
            return Output()

        record = transaction_record(following, self._transaction_version())
        return Output(records=[record], then=remember)

    # Administration

    def describe(self, transactional_id: str, token: Token) -> Output:
        """Return one transactional id. Raises TRANSACTIONAL_ID_NOT_FOUND."""
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        present = self._transactions.get(transactional_id)
        if present is None:
            raise KafkaError(
                ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
                f"transactional id {transactional_id} is unknown",
            )
        outstanding = self._outstanding.get(transactional_id)
        if outstanding is not None:  # only the partitions whose marker is missing
            present = attrs.evolve(present, partitions=frozenset(outstanding.partitions))
        state: DescribeTransactionsResponse.TransactionState = described(present)
        out = Output()
        out.reply(token, state)
        return out

    def list_transactions(self, filters: Filters, now_ms: int, token: Token) -> Output:
        """Return each transactional id that passes the filters."""
        states: list[ListTransactionsResponse.TransactionState] = [
            listed(each) for each in self._transactions.values() if filters.passes(each, now_ms)
        ]
        out = Output()
        out.reply(token, states)
        return out

    # Time

    def next_wakeup(self) -> int | None:
        """Return when `tick` has something to do next, in milliseconds."""
        return self._timers.next_wakeup()

    def tick(self, now_ms: int) -> Decision | None:
        """Run one timer that is due; None when there is none. Call it until it returns None."""
        action = self._timers.pop_due(now_ms)
        return None if action is None else action(now_ms)

    def _schedule_timeout(self, transactional_id: str, deadline_ms: int) -> None:
        self._timers.schedule(
            ("timeout", transactional_id),
            deadline_ms,
            lambda now_ms: self._abort_overdue(transactional_id, now_ms),
        )

    def _expire(self, now_ms: int) -> Output:
        """Remove transactional ids that were not used for long."""
        oldest_ms = now_ms - self._settings.expiration_ms
        records = [
            tombstone(each.transactional_id)
            for each in self._transactions.values()
            if each.state.is_settled and each.last_update_ms <= oldest_ms
        ]
        self._schedule_expiry(now_ms)
        if records:
            logger.info("removing expired transactional ids count=%d", len(records))
        return Output(records=records, atomic=False)

    def _schedule_expiry(self, now_ms: int) -> None:
        interval_ms = self._settings.expiration_interval_ms
        self._timers.schedule(("expiry",), now_ms + interval_ms, self._expire)

    # Replay

    def replay(self, key: Any, value: Any) -> None:
        """Apply one record, after its append or from the log."""
        if not isinstance(key, TransactionLogKey):
            return
        transactional_id = key.transactional_id
        if value is None:
            self._transactions.pop(transactional_id, None)
            self._timers.cancel(("timeout", transactional_id))
            return
        transaction = read_transaction(transactional_id, value)
        if transaction.state is DEAD:
            self._transactions.pop(transactional_id, None)
            return
        self._transactions[transactional_id] = transaction
        if transaction.state is ONGOING:
            self._schedule_timeout(transactional_id, transaction.start_ms + transaction.timeout_ms)
        else:
            self._timers.cancel(("timeout", transactional_id))
        if transaction.state.is_prepared:
            self._outstanding[transactional_id] = Outstanding(
                transaction.producer_id, transaction.producer_epoch, set(transaction.partitions)
            )
        else:
            self._outstanding.pop(transactional_id, None)

    def loaded(self, now_ms: int) -> None:
        """Begin to serve after replay: resume transactions whose outcome is decided."""
        for transaction in self._transactions.values():
            if transaction.state.is_prepared:
                transactional_id = transaction.transactional_id
                self._timers.schedule(
                    ("markers", transactional_id),
                    now_ms,
                    lambda now_ms, again=transactional_id: self._resume(again, now_ms),
                )
        self._schedule_expiry(now_ms)

    def _resume(self, transactional_id: str, now_ms: int) -> Output:
        prepared = self._transactions[transactional_id]
        if not prepared.partitions:
            return self._complete(transactional_id, now_ms)
        return Output(effects=[markers_of(prepared)])

    def unload(self, now_ms: int) -> Output:
        """End serving; no request waits in the shard."""
        return Output()


def _then(out: Output, following: Callable[[int], Output]) -> Output:
    """Append a continuation to the one of the output."""
    first = out.then

    def both(now_ms: int) -> Output:
        if first is not None:
            first(now_ms)
        return following(now_ms)

    out.then = both
    return out
