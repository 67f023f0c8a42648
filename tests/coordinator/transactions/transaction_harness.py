"""A transaction shard with a log, a clock and an in-memory append, as the server's shell has it."""

from collections.abc import Callable
from typing import Any

import attrs

from barnabas.coordinator.core.coordinator_output import Decision, Output, append_error
from barnabas.coordinator.transactions.pending_markers import MarkersAnswered, SendMarkers
from barnabas.coordinator.transactions.producer_initialization import ProducerIdNeededError
from barnabas.coordinator.transactions.transaction_settings import TransactionSettings
from barnabas.coordinator.transactions.transaction_shard import (
    TransactionShard,
)
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.records.coordinator_framing import (
    encode_coordinator_key,
    encode_coordinator_value,
)
from barnabas.protocol.records.transaction_records import decode_transaction_record
from tests.coordinator.groups.group_harness import decided


@attrs.define
class Coordinator:
    """One shard as long as it leads; `restart` gives its log to a new one, in a later epoch.

    Markers to be sent go to `send`, with the coordinator's epoch. A deposed coordinator that does
    not know it continues with its timers and its markers, but its appends are refused.
    """

    settings: TransactionSettings = attrs.Factory(TransactionSettings)
    now_ms: int = 1_000_000
    transaction_version: int = 2
    send: Callable[[SendMarkers, int], None] = lambda _markers, _epoch: None
    appended: Callable[[Any], None] = lambda _record: None
    log: list[tuple[bytes, bytes | None]] = attrs.Factory(list)
    replies: list[tuple[Any, Any]] = attrs.Factory(list)
    refuse_next: ErrorCode | None = None
    epoch: int = 0
    is_deposed: bool = False
    producer_ids: int = 0
    shard_type: type[TransactionShard] = TransactionShard
    shard: TransactionShard = attrs.field(init=False)
    due: list[SendMarkers] = attrs.Factory(list)

    def __attrs_post_init__(self) -> None:
        self.shard = self._fresh_shard()
        self.shard.loaded(self.now_ms)

    def _fresh_shard(self) -> TransactionShard:
        return self.shard_type(self.settings, lambda: self.transaction_version)

    def do(self, operation: Callable[[int | None], Output], token: Any) -> None:
        """Run an operation that takes a new producer id if it asks for one."""
        try:
            try:
                output = operation(None)
            except ProducerIdNeededError:
                self.producer_ids += 1
                output = operation(self.producer_ids)
        except KafkaError as error:
            self.replies.append((token, error.code))
        else:
            self.carry_out(output)
        self.settle()

    def init(
        self,
        transactional_id: str,
        token: Any,
        *,
        owner: tuple[int, int] = (-1, -1),
        timeout_ms: int = 60_000,
    ) -> None:
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=owner[0],
            producer_epoch=owner[1],
        )
        self.do(
            lambda fresh: self.shard.init_producer_id(request, fresh, self.now_ms, token), token
        )

    def add(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        partitions: list[tuple[str, int]],
        token: Any,
        version: int = 0,
    ) -> None:
        self.do(
            lambda _: self.shard.add_partitions(
                transactional_id, *producer, partitions, version, self.now_ms, token
            ),
            token,
        )

    def verify(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        partitions: list[tuple[str, int]],
        token: Any,
    ) -> None:
        self.do(
            lambda _: self.shard.verify_partitions(transactional_id, *producer, partitions, token),
            token,
        )

    def end(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        *,
        commit: bool,
        token: Any,
        version: int = 0,
    ) -> None:
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=commit,
        )
        self.do(
            lambda fresh: self.shard.end_transaction(request, version, fresh, self.now_ms, token),
            token,
        )

    def markers_answered(self, answered: MarkersAnswered, epoch: int) -> None:
        """The outcome of markers that were sent in `epoch`; a later leader does not get it."""
        if epoch == self.epoch:
            self.carry_out(self.shard.markers_answered(answered, self.now_ms))
            self.settle()

    def carry_out(self, decision: Decision) -> None:
        following: Decision | None = decision
        while following is not None:
            following = self._carry_out(decided(following))
        due, self.due = self.due, []
        for markers in due:
            self.send(markers, self.epoch)

    def _carry_out(self, output: Output) -> Decision | None:
        refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER if self.is_deposed else self.refuse_next
        if output.records and refusal is not None:
            error, self.refuse_next = append_error(refusal), None
            if output.refused is not None:
                return output.refused(error, self.now_ms)
            self.replies += [(reply.token, error) for reply in output.replies]
            return None
        for record in output.records:
            key = encode_coordinator_key(record.key)
            value = None
            if record.value is not None:
                value = encode_coordinator_value(record.value, record.version)
            self.log.append((key, value))
            self.shard.replay(record.key, record.value)
            self.appended(record)
        self.replies += [(reply.token, reply.response) for reply in output.replies]
        self.due += output.effects
        return None if output.then is None else output.then(self.now_ms)

    def settle(self) -> None:
        """Run the timers that are due."""
        while (output := self.shard.tick(self.now_ms)) is not None:
            self.carry_out(output)

    def advance(self, duration_ms: int) -> None:
        """Let time pass, stopping at every timer on the way."""
        end_ms = self.now_ms + duration_ms
        while (wakeup_ms := self.shard.next_wakeup()) is not None and wakeup_ms <= end_ms:
            self.now_ms = max(self.now_ms, wakeup_ms)
            self.settle()
        self.now_ms = end_ms

    def depose(self) -> "Coordinator":
        """Another node leads in the next epoch; return its coordinator."""
        successor = attrs.evolve(
            self, log=list(self.log), replies=[], due=[], refuse_next=None, is_deposed=False
        )
        self.is_deposed = True
        successor.restart()
        return successor

    def restart(self) -> None:
        """A new leader: only what the log says is left."""
        self.epoch += 1
        self.shard = self._fresh_shard()
        for key, value in self.log:
            self.shard.replay(*decode_transaction_record(key, value))
        self.shard.loaded(self.now_ms)
        self.settle()
