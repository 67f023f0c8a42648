"""Idempotent producers in the simulation: several batches in flight, sent until acknowledged.

C1   the first batch that is not acknowledged gets no error that the client takes as fatal
T3   each batch is in the log once, in the order of the sequences
LIVENESS  after a rest, every batch is acknowledged

An unclean election may end a producer: its leader may lack the batches that were acknowledged.
"""

from collections import deque
from functools import partial
from typing import Final

import attrs

from barnabas.cluster.metadata.image import PartitionImage, TopicImage
from barnabas.protocol.errors import ErrorCode, error_code
from barnabas.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from barnabas.protocol.messages.produce import ProduceResponse
from barnabas.protocol.types import Uuid
from barnabas.testing.batches import batch
from barnabas.testing.simulation.data_clients import (
    Acknowledged,
    SimClient,
    produce_request,
    produced,
)
from barnabas.testing.simulation.network import Failure
from barnabas.testing.simulation.partition_invariants import PartitionInvariants
from barnabas.testing.simulation.quorum_invariants import require
from barnabas.testing.simulation.sim_cluster import SimCluster
from barnabas.testing.simulation.sim_partition_log import SimPartitionLog

_IN_FLIGHT_MAX: Final = 5
"""The number of batches whose repetition a leader recognizes."""
_TIMEOUT_MS: Final = 10_000
_RETRY_MS: Final = 100


@attrs.define(slots=True, eq=False)
class _Batch:
    """A batch that is not acknowledged; `number` counts the batches of the producer."""

    number: int
    sequence: int
    records: int
    is_first: bool = False
    """True when all earlier batches were acknowledged before it was sent last."""


class IdempotentProducer(SimClient):
    """A producer of one partition, as `enable.idempotence=true` makes one.

    After an error it waits for the answers to all of its requests, and sends again, in their
    order, the batches that are not acknowledged.
    """

    def __init__(
        self,
        cluster: SimCluster,
        number: int,
        place: tuple[str, int],
        invariants: PartitionInvariants,
        pause_ms: int,
    ) -> None:
        super().__init__(cluster, number)
        self.acknowledged: list[Acknowledged] = []
        self.place = place
        self.ids: list[int] = []
        """The producer ids that it was given; a second one after an unclean election."""
        self._topic, self._partition = place
        self._number = number
        self._invariants = invariants
        self._pause_ms = pause_ms
        self._pending: deque[_Batch] = deque()
        self._in_flight = 0
        self._has_failed = False
        self._needs_id = False
        self._count = 0
        self._sequence = 0
        self._leader_epoch = -1

    def start(self) -> None:
        """Begin to produce."""
        self.process.after_ms(self.process.world.random.randrange(1_000), self._ask_for_an_id)

    # The producer id

    def _ask_for_an_id(self) -> None:
        """Send InitProducerId to random brokers, until one gives an id."""
        brokers = [node_id for node_id, node in self.cluster.nodes.items() if node.is_broker]

        def again() -> None:
            self.process.after_ms(_RETRY_MS, self._ask_for_an_id)

        def answered(response: InitProducerIdResponse) -> None:
            code = error_code(response.error_code)
            if code is ErrorCode.NONE:
                self.ids.append(response.producer_id)
                self._next()
                return
            require(code.retriable, "C1", f"InitProducerId answers {code.name}")
            again()

        def failed(_: Failure) -> None:
            again()

        self.cluster.requests.ask(
            self.process,
            self.process.world.random.choice(brokers),
            "broker",
            InitProducerIdRequest(transactional_id=None),
            answered,
            failed,
            timeout_ms=_TIMEOUT_MS,
        )

    # Batches

    def _next(self) -> None:
        """Send a new batch, or again those of a failure; continue after a pause."""
        if self._needs_id and not self._in_flight:
            self._needs_id = False
            self._number_again()
            self._ask_for_an_id()
            return
        if self._has_failed:
            if not self._in_flight:
                self._send(list(self._pending))
        elif not self.is_stopped and self._may_begin:
            self._count += 1
            added = _Batch(self._count, self._sequence, self.process.world.random.randrange(1, 4))
            self._sequence += added.records
            self._pending.append(added)
            self._send([added])
        if self._pending or not self.is_stopped:
            self.process.after_ms(self._pause_ms, self._next)

    def _number_again(self) -> None:
        """Use the first sequences of another producer id for the batches."""
        self._sequence = 0
        for each in self._pending:
            each.sequence = self._sequence
            self._sequence += each.records

    @property
    def _may_begin(self) -> bool:
        return not self._pending or self._count - self._pending[0].number + 1 < _IN_FLIGHT_MAX

    def _send(self, batches: list[_Batch]) -> None:
        """Send batches to the leader; without one they have failed."""
        image = self.image()
        topic = None if image is None else image.topics_by_name.get(self._topic)
        found = None if topic is None else topic.partitions.get(self._partition)
        self._has_failed = True
        if topic is None or found is None or not self._is_current(found):
            return
        self._has_failed = False
        self._leader_epoch = found.leader_epoch
        for each in batches:
            each.is_first = self._pending[0] is each
            self._in_flight += 1
            self._send_one(topic, found.leader, each)

    def _is_current(self, found: PartitionImage) -> bool:
        """True when a partition has a leader, and in no earlier epoch than the client knows."""
        return found.leader >= 0 and found.leader_epoch >= self._leader_epoch

    def _send_one(self, topic: TopicImage, leader: int, sent: _Batch) -> None:
        data = self._bytes(sent)
        self.cluster.requests.ask(
            self.process,
            leader,
            "broker",
            produce_request(topic, self._partition, data),
            partial(self._answered, topic.id, sent, data),
            self._failed,
            timeout_ms=_TIMEOUT_MS,
        )

    def _bytes(self, sent: _Batch) -> bytes:
        values = (
            f"{self._number}-{sent.number}-{record}".encode() for record in range(sent.records)
        )
        return bytes(batch(*values, producer=(self.ids[-1], 0, sent.sequence)))

    def _failed(self, _: Failure) -> None:
        self._in_flight -= 1
        self._has_failed = True

    def _answered(
        self, topic_id: Uuid, sent: _Batch, data: bytes, response: ProduceResponse
    ) -> None:
        self._in_flight -= 1
        outcome = produced(response)
        code = error_code(outcome.error_code)
        if code is not ErrorCode.NONE:
            self._has_failed = True
            self._check(topic_id, sent, code)
            return
        self._pending.remove(sent)
        offset = outcome.base_offset
        epoch = self._invariants.epoch_of(topic_id, self._partition, offset, data)
        self.acknowledged.append(Acknowledged(*self.place, offset, epoch, data))

    # Checks

    def is_passing(self, code: ErrorCode) -> bool:
        """True for an error that is not retriable, and that a leader answers only for a while."""
        del code
        return False

    def _check(self, topic_id: Uuid, sent: _Batch, code: ErrorCode) -> None:
        """Check C1 for an error; a batch behind one that has failed may be out of order."""
        is_behind = code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not sent.is_first
        if code.retriable or is_behind or self.is_passing(code):
            return
        what = f"{self._topic}-{self._partition} answers {code.name} to sequence {sent.sequence}"
        require(self._invariants.has_losses(topic_id, self._partition), "C1", what)
        self._needs_id = True

    def check_end(
        self, log: SimPartitionLog | None, *, is_whole: bool, start_offset: int = 0
    ) -> None:
        """Check T3 in the leader's log, after a rest, if no record of it was lost or deleted.

        `start_offset` is the end of another cluster's records, with producer ids of that cluster.
        """
        left = [each.sequence for each in self._pending]
        place = f"{self._topic}-{self._partition}"
        require(not left, "LIVENESS", f"{place} has not acknowledged the sequences {left}")
        if not is_whole:
            return
        batches = [] if log is None else log.batches
        found = [
            (header.base_sequence, header.record_count)
            for header, _ in batches
            if header.producer_id in self.ids and header.base_offset >= start_offset
        ]
        following = 0
        for sequence, records in found:
            require(sequence == following, "T3", f"{place} has {sequence} after {following - 1}")
            following += records
        require(following == self._sequence, "T3", f"{place} ends with {following - 1}")
