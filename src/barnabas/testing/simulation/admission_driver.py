"""Verification of transactional first writes in the simulation (KIP-890), as `Admission`."""

from collections.abc import Callable
from typing import Final

import attrs

from barnabas.cluster.metadata.image import MetadataImage
from barnabas.coordinator.core.routing import partition_for
from barnabas.coordinator.transactions.transaction import TopicPartition
from barnabas.coordinator.transactions.transaction_state import TV_2
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.server.coordinators.internal_topics import TRANSACTION_TOPIC
from barnabas.server.coordinators.transactions.verification_guards import Guard, Guards
from barnabas.testing.simulation.coordinator_calls import (
    AddPartitions,
    CoordinatorCall,
    Outcome,
    Producer,
    VerifyPartitions,
)
from barnabas.testing.simulation.network import Failure, Network
from barnabas.testing.simulation.world import Process

_TIMEOUT_MS: Final = 5_000
_RETRY_MS: Final = 20
_RETRIES: Final = 5

Check = Callable[[], None]
"""Raises KafkaError unless the partition may be written to now."""


@attrs.define(slots=True, eq=False)
class _Admission:
    """One first write, from its verification to its append."""

    producer: Producer
    partition: TopicPartition
    adds: bool
    guard: Guard
    leader_epoch: int
    proceed: Callable[[Check], None]
    attempts: int = 0
    outcome: ErrorCode = ErrorCode.INVALID_TXN_STATE


class AdmissionDriver:
    """The verifications of one broker."""

    def __init__(
        self,
        process: Process,
        network: Network,
        image: Callable[[], MetadataImage],
        guards: Guards,
    ) -> None:
        self._process = process
        self._network = network
        self._image = image
        self._guards = guards

    def admit(
        self,
        producer: Producer,
        partition: TopicPartition,
        *,
        adds: bool,
        proceed: Callable[[Check], None],
    ) -> None:
        """Verify a partition, or add it, and then call `proceed`; the guard holds until it ends."""
        guard = self._guards.hold(*partition, producer.id)
        epoch = self._leader_epoch(partition)
        self._ask(_Admission(producer, partition, adds, guard, epoch, proceed))

    def _ask_again(self, admission: _Admission) -> None:
        """Repeat the request with a new guard: a broken one refuses every later attempt."""
        partition, producer = admission.partition, admission.producer
        self._guards.release(*partition, producer.id, admission.guard)
        admission.guard = self._guards.hold(*partition, producer.id)
        admission.leader_epoch = self._leader_epoch(partition)
        self._ask(admission)

    def _is_outdated(self, admission: _Admission) -> bool:
        epoch = self._leader_epoch(admission.partition)
        return admission.guard.is_broken or epoch != admission.leader_epoch

    def _leader_epoch(self, partition: TopicPartition) -> int:
        image = self._image().partition(*partition)
        return -1 if image is None else image.leader_epoch

    def _ask(self, admission: _Admission) -> None:
        producer, partitions = admission.producer, (admission.partition,)
        topic = self._image().topics_by_name.get(TRANSACTION_TOPIC)
        key = producer.transactional_id
        leader = -1
        if topic is not None:
            leader = topic.partitions[partition_for(key, len(topic.partitions))].leader
        if leader < 0:
            self._take(admission, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        request = VerifyPartitions(producer, partitions)
        if admission.adds:
            request = AddPartitions(producer, partitions, TV_2)

        def answered(outcome: Outcome) -> None:
            self._take(admission, outcome)

        def failed(_: Failure) -> None:
            self._take(admission, KafkaError(ErrorCode.NETWORK_EXCEPTION))

        self._network.ask(
            self._process,
            leader,
            "broker",
            CoordinatorCall(key, request),
            answered,
            failed,
            purpose="add-partitions",
            timeout_ms=_TIMEOUT_MS,
        )

    def _take(self, admission: _Admission, outcome: Outcome) -> None:
        code = _code(admission.partition, outcome)
        admission.attempts += 1
        is_early = admission.adds and code is ErrorCode.CONCURRENT_TRANSACTIONS
        is_outdated = code is ErrorCode.NONE and self._is_outdated(admission)
        if (is_early or is_outdated) and admission.attempts < _RETRIES:
            self._process.after_ms(_RETRY_MS, self._ask_again, admission)
            return
        if code is ErrorCode.PRODUCER_FENCED:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        admission.outcome = code
        try:
            admission.proceed(lambda: self._check(admission))
        finally:
            guard = admission.guard
            self._guards.release(*admission.partition, admission.producer.id, guard)

    def _check(self, admission: _Admission) -> None:
        if admission.outcome is not ErrorCode.NONE:
            raise KafkaError(admission.outcome, "the partition is not in the transaction")
        if self._is_outdated(admission):
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "the verification is out of date")


def _code(partition: TopicPartition, outcome: Outcome) -> ErrorCode:
    """Return the error of one partition in a coordinator's answer."""
    match outcome:
        case KafkaError():
            return outcome.code
        case ErrorCode():
            return outcome
        case _:
            return outcome[partition]
