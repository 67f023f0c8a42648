"""Transactional producers, partitions, a coordinator that dies and a bad network, on one clock.

The producers do what clients do, of both versions: take an epoch, write unique values, commit or
abort, repeat what is not answered, give up when fenced; some crash, and some that are taken for
dead write on. Partitions admit first writes as the server does and hold real `ProducerState`s.
Requests, answers and markers are delayed and lost, and markers are written twice; appends of the
coordinator are refused, and it restarts from its log, or another node takes over while the deposed
one continues for a while. Checkers look at the partitions and at the producers' answers, never at
the shard's inside:

T1 what was acked as committed is read, what was acked as aborted never; T2 a read_committed
consumer sees whole transactions or nothing of them; T3 each batch is appended once and in order;
T4 a late request of a transaction changes none after it (it would break T1 or T2 of that one);
T5 nothing is appended below an epoch that was given out; T6 every transaction ends by its timeout,
and the last stable offset moves on.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import attrs

from barnabas.coordinator.groups.committed_offsets import Offsets
from barnabas.coordinator.groups.group_settings import GroupSettings
from barnabas.coordinator.transactions.pending_markers import MarkersAnswered, SendMarkers
from barnabas.coordinator.transactions.transaction_settings import TransactionSettings
from barnabas.coordinator.transactions.transaction_shard import TransactionShard
from barnabas.log.segment.producer_state import ProducerState
from barnabas.log.segment.segment_index import AbortedTxn
from barnabas.protocol.batches.batch_header import BatchHeader
from barnabas.protocol.batches.control_batches import TransactionMarker
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.records.group_records import OffsetCommitKey, OffsetCommitValue
from barnabas.server.coordinators.transactions.verification_guards import Guards
from barnabas.testing.simulation.rare_states import RareState, RareStates
from tests.coordinator.faulty_world import FaultyWorld, ViolationError
from tests.coordinator.groups.group_harness import fetch_request
from tests.coordinator.transactions.transaction_harness import Coordinator

PARTITIONS = 3
OFFSETS = PARTITIONS
"""The number of one more partition, which holds offsets instead of records."""
REQUEST_TIMEOUT_MS = 3_000
TRANSACTION_TIMEOUT_MS = 20_000
DEPOSED_MS_MAX = 10_000
TOPIC = "t"

_TRANSACTIONAL = 0x10
_CONTROL = 0x20

RETRIABLE = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}

Producer = tuple[int, int]


class Value(NamedTuple):
    """A written value: unique in the whole run."""

    client: int
    transaction: int
    number: int


def header(producer: Producer, sequence: int, offset: int, attributes: int) -> BatchHeader:
    return BatchHeader(
        base_offset=offset,
        batch_length=100,
        partition_leader_epoch=0,
        magic=2,
        crc=0,
        attributes=attributes,
        last_offset_delta=0,
        base_timestamp=0,
        max_timestamp=0,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        record_count=1,
    )


class Partition:
    """A log with the real state of its producers; all it holds is committed at once."""

    def __init__(self, checker: "Checker", number: int) -> None:
        self.checker = checker
        self.number = number
        self.state = ProducerState()
        self.entries: list[tuple[int, Value | None]] = []  # producer id, None for a marker
        self.aborted: list[AbortedTxn] = []

    def is_in_transaction(self, producer: Producer) -> bool:
        return self.state.is_in_transaction(*producer)

    def append(self, producer: Producer, sequence: int, value: Value) -> None:
        offset = len(self.entries)
        batch = header(producer, sequence, offset, _TRANSACTIONAL)
        if self.state.check_client_batch(batch) is not None:
            self.checker.rare.reached(RareState.DUPLICATE_APPEND_SUPPRESSED)
        else:
            self.checker.appended(self.number, producer, sequence)
            self.state.append(batch, offset)
            self.entries.append((producer[0], value))

    def mark(self, markers: SendMarkers, coordinator_epoch: int) -> None:
        producer = markers.producer_id, markers.producer_epoch
        entry = self.state.find(producer[0])
        if markers.transaction_version >= 2 and entry is not None:
            is_late = producer[1] == entry.epoch and entry.txn_first_offset >= 0
            if is_late or producer[1] < entry.epoch:
                raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, "late")
        offset = len(self.entries)
        batch = header(producer, -1, offset, _TRANSACTIONAL | _CONTROL)
        marker = TransactionMarker(markers.commit, coordinator_epoch)
        self.state.check_marker(batch, marker)
        aborted = self.state.end_transaction(batch, offset, marker)
        self.entries.append((producer[0], None))
        self.state.high_watermark_advanced(len(self.entries))
        if aborted is not None:
            self.aborted.append(aborted)

    @property
    def last_stable_offset(self) -> int:
        unstable = self.state.first_unstable_offset()
        return len(self.entries) if unstable is None else unstable

    def read_committed(self) -> list[Value]:
        """Read the log with the aborted list as Kafka's Fetcher does."""
        aborted = sorted(self.aborted, key=lambda each: each.first_offset)
        running: set[int] = set()
        values: list[Value] = []
        for offset, (producer_id, value) in enumerate(self.entries[: self.last_stable_offset]):
            while aborted and aborted[0].first_offset <= offset:
                running.add(aborted.pop(0).producer_id)
            if value is None:
                running.discard(producer_id)
            elif producer_id not in running:
                values.append(value)
        return values


class OffsetsPartition(Partition):
    """A partition of `__consumer_offsets` with the real offsets; each client id is a group.

    Nothing checks sequences here: a commit that is repeated is written again.
    """

    def __init__(self, checker: "Checker", number: int) -> None:
        super().__init__(checker, number)
        self.offsets = Offsets(GroupSettings())

    def append(self, producer: Producer, sequence: int, value: Value) -> None:
        offset = len(self.entries)
        self.checker.appended(self.number, producer, -1)
        self.state.append(header(producer, -1, offset, _TRANSACTIONAL), offset)
        self.entries.append((producer[0], value))
        key = OffsetCommitKey(group=str(value.client), topic=TOPIC, partition=0)
        self.offsets.replay(key, OffsetCommitValue(offset=offset), offset, producer[0])

    def mark(self, markers: SendMarkers, coordinator_epoch: int) -> None:
        super().mark(markers, coordinator_epoch)
        self.offsets.end_transaction(markers.producer_id, commit=markers.commit)

    def check(self) -> None:
        """Compare each group's committed offset with the last one that a read_committed consumer
        sees.
        """
        last: dict[str, Value] = {}
        for value in self.read_committed():
            last[str(value.client)] = value
        for group_id, value in last.items():
            request = fetch_request(TOPIC, 0, group_id=group_id)
            fetched = self.offsets.fetch(request, require_stable=False)
            offset = fetched.topics[0].partitions[0].committed_offset
            if offset < 0 or self.entries[offset][1] != value:
                raise ViolationError(f"T1: group {group_id} is at {offset}, not {value}")


@attrs.define
class Outcome:
    """The outcome of a transaction as its client knows it."""

    written: set[Value] = attrs.Factory(set)
    asked_to_commit: bool = False
    acked: bool | None = None  # True: committed, False: aborted


@attrs.define
class Checker:
    """The guarantees that clients rely on."""

    outcomes: dict[tuple[int, int], Outcome] = attrs.Factory(dict)
    sequences: dict[tuple[int, int, int], int] = attrs.Factory(dict)
    given: dict[int, int] = attrs.Factory(dict)
    rare: RareStates = attrs.Factory(RareStates)

    def appended(self, partition: int, producer: Producer, sequence: int) -> None:
        producer_id, epoch = producer
        if epoch < self.given.get(producer_id, -1):
            raise ViolationError(f"T5: epoch {epoch} written, {self.given[producer_id]} given out")
        if partition == OFFSETS:
            return
        key = (partition, *producer)
        last = self.sequences.get(key, sequence - 1)
        if sequence != last + 1:
            raise ViolationError(f"T3: {sequence} after {last} of {producer} in {partition}")
        self.sequences[key] = sequence

    def gave(self, producer: Producer) -> None:
        self.given[producer[0]] = max(producer[1], self.given.get(producer[0], -1))

    def look(self, partitions: list[Partition]) -> None:
        """Check what holds at any time."""
        for partition in partitions:
            seen: set[Value] = set()
            for value in partition.read_committed():
                if value in seen and partition.number != OFFSETS:
                    raise ViolationError(f"T3: {value} twice in {partition.number}")
                seen.add(value)
                outcome = self.outcomes[value.client, value.transaction]
                if outcome.acked is False:
                    raise ViolationError(f"T1: {value} was aborted and is read")
                if not outcome.asked_to_commit:
                    raise ViolationError(f"T2: {value} of an open transaction is read")

    def settle(self, partitions: list[Partition]) -> None:
        """Check what holds when all faults are over."""
        for partition in partitions:
            if partition.last_stable_offset != len(partition.entries):
                raise ViolationError(f"T6: {partition.number} is stuck")
        read = {value for partition in partitions for value in partition.read_committed()}
        for name, outcome in self.outcomes.items():
            seen = {value for value in read if value[:2] == name}
            if outcome.acked and not outcome.written <= seen:
                raise ViolationError(f"T1: {name} was committed, missing {outcome.written - seen}")
            if seen and not outcome.written <= seen:
                raise ViolationError(f"T2: half of {name} is read")
        for partition in partitions:
            if isinstance(partition, OffsetsPartition):
                partition.check()


class Simulation(FaultyWorld):
    """One seed's run; `run` raises ViolationError."""

    LATE_MS_MAX = 9_000

    def __init__(self, seed: int, shard: type[TransactionShard] = TransactionShard) -> None:
        super().__init__(seed)
        self.checker = Checker()
        self.partitions = [Partition(self.checker, number) for number in range(PARTITIONS)]
        self.partitions.append(OffsetsPartition(self.checker, OFFSETS))
        self.guards = Guards()
        self.coordinator = Coordinator(
            TransactionSettings(), now_ms=0, send=self.send_markers, shard_type=shard
        )
        self.leaders = {self.coordinator.epoch: self.coordinator}
        self.clients: list[Client] = []

    # Network

    def carry(self, arrive: Callable[[], None], *, never_late: bool = False) -> bool:
        """Deliver a message later; return False when it is lost."""
        delay_ms = self.delay_ms()
        if delay_ms is None or (never_late and delay_ms > REQUEST_TIMEOUT_MS):
            return False
        self.at(delay_ms, arrive)
        return True

    def ask_coordinator(
        self,
        operate: Callable[[int], None],
        answer: Callable[[Any], None],
        *,
        never_late: bool = False,
    ) -> None:
        """Carry a request to the coordinator and its reply back."""
        self.sequence += 1
        token = self.sequence

        def arrive() -> None:
            self.waiting[token] = answer
            self.coordinator.now_ms = self.now_ms
            operate(token)
            self.deliver()

        self.carry(arrive, never_late=never_late)

    def deliver(self) -> None:
        replies, self.coordinator.replies = self.coordinator.replies, []
        for token, response in replies:
            answer = self.waiting.pop(token, None)
            if answer is not None:
                self.carry(lambda answer=answer, response=response: answer(response))

    def send_markers(self, markers: SendMarkers, epoch: int) -> None:
        """Each partition is led elsewhere."""
        for partition in sorted(markers.partitions):
            self.send_marker(markers, partition, epoch)

    def send_marker(self, markers: SendMarkers, partition: tuple[str, int], epoch: int) -> None:
        """Send one marker and return its outcome; without an answer in time it failed."""
        answered: list[ErrorCode] = []

        def arrive() -> None:
            code = ErrorCode.NONE
            self.guards.transaction_ended(*partition, markers.producer_id)
            try:
                self.partitions[partition[1]].mark(markers, epoch)
            except KafkaError as error:
                code = error.code
            self.carry(lambda: answer(code))

        def answer(code: ErrorCode) -> None:
            if not answered:
                answered.append(code)
                sender = self.leaders.get(epoch, self.coordinator)
                sender.now_ms = self.now_ms
                names = markers.transactional_id, markers.producer_id, markers.producer_epoch
                sender.markers_answered(MarkersAnswered(*names, {partition: code}), epoch)
                self.deliver()

        # A late marker of the first version may end another transaction: KAFKA-19446's reason.
        is_v2 = markers.transaction_version >= 2
        is_lost = not self.carry(arrive, never_late=not is_v2)
        if self.faulty and is_lost and self.random.random() < 0.3:
            self.at(500, self.depose)  # its marker is sent again after the next ones
        if self.faulty and is_v2 and self.random.random() < 0.1:
            self.carry(arrive)
        self.at(REQUEST_TIMEOUT_MS, lambda: answer(ErrorCode.REQUEST_TIMED_OUT))

    # Partitions' leaders

    def produce(
        self,
        client: "Client",
        number: int,
        sequence: int,
        value: Value,
        answer: Callable[[ErrorCode], None],
    ) -> None:
        """Admit a write as `server.transaction_admission` does, and append it."""
        partition, producer, is_v2 = self.partitions[number], client.producer, client.is_v2
        name = client.transactional_id

        def append() -> None:
            code = ErrorCode.NONE
            try:
                partition.append(producer, sequence, value)
            except KafkaError as error:
                code = error.code
            self.carry(lambda: answer(code))

        def arrive() -> None:
            if partition.is_in_transaction(producer):
                append()
                return
            guard = self.guards.hold(TOPIC, number, producer[0])
            done: list[bool] = []

            def admitted(response: Any) -> None:
                if done:
                    return
                done.append(True)
                is_broken = guard.is_broken
                self.guards.release(TOPIC, number, producer[0], guard)
                code = response[TOPIC, number] if isinstance(response, dict) else response
                if code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING):
                    code = ErrorCode.INVALID_PRODUCER_EPOCH
                if code is ErrorCode.NONE and is_broken:
                    code = ErrorCode.INVALID_TXN_STATE
                if (
                    code is ErrorCode.NONE
                    and is_v2
                    and sequence
                    and number != OFFSETS
                    and partition.state.find(producer[0]) is None
                ):
                    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
                if code is ErrorCode.NONE:
                    append()
                else:
                    self.carry(lambda: answer(code))

            where = [(TOPIC, number)]
            if is_v2:
                self.ask_coordinator(
                    lambda token: self.coordinator.add(name, producer, where, token, 2), admitted
                )
            else:
                self.ask_coordinator(
                    lambda token: self.coordinator.verify(name, producer, where, token), admitted
                )
            self.at(2 * REQUEST_TIMEOUT_MS, lambda: admitted(ErrorCode.NOT_ENOUGH_REPLICAS))

        self.carry(arrive)

    # Running

    def fault(self) -> None:
        self.checker.look(self.partitions)
        if not self.faulty:
            return
        draw = self.random.random()
        client = self.random.choice([each for each in self.clients if each.is_up] or self.clients)
        if draw < 0.2:
            client.is_up = False
            self.replace(client)
        elif draw < 0.4:
            self.replace(client)  # fenced as dead, it continues
        elif draw < 0.6:
            self.coordinator.now_ms = self.now_ms
            self.coordinator.restart()
            self.leaders[self.coordinator.epoch] = self.coordinator
            self.deliver()
        elif draw < 0.7:
            self.depose()
        else:
            self.coordinator.refuse_next = self.random.choice(
                [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER]
            )
        self.at(self.random.randrange(1_000, 8_000), self.fault)

    def depose(self) -> None:
        """Another node takes over; the deposed coordinator does not know it for some seconds."""
        deposed = self.coordinator
        deposed.now_ms = self.now_ms
        self.coordinator = self.leaders[deposed.epoch + 1] = deposed.depose()
        self.deliver()
        until_ms = self.now_ms + self.random.randrange(DEPOSED_MS_MAX)

        def continue_deposed() -> None:
            deposed.now_ms = self.now_ms
            deposed.settle()
            deposed.replies.clear()
            if self.now_ms < until_ms:
                self.at(200, continue_deposed)
            else:
                self.leaders.pop(deposed.epoch, None)

        continue_deposed()

    def replace(self, client: "Client") -> None:
        """Start a producer with the same transactional id."""
        self.start(client.transactional_id, self.random.randrange(0, 3_000))

    def start(self, transactional_id: str, delay_ms: int) -> None:
        is_v2 = self.random.random() < 0.7
        client = Client(self, len(self.clients), transactional_id, is_v2=is_v2)
        self.clients.append(client)
        self.at(delay_ms, client.init)

    def run(self) -> None:
        for name in ("a", "b"):
            self.start(name, self.random.randrange(0, 1_000))
        self.at(2_000, self.fault)
        self.run_until(60_000)
        # All faults end, and no client begins anything new.
        self.faulty = False
        self.coordinator.refuse_next = None
        for client in self.clients:
            client.is_up = client.is_up and self.random.random() < 0.5
            client.may_begin = False
        self.run_until(self.now_ms + 10_000 + 2 * TRANSACTION_TIMEOUT_MS)
        self.checker.look(self.partitions)
        self.checker.settle(self.partitions)


class Client:
    """One instance of a transactional producer; it has one request in progress at a time."""

    def __init__(
        self, world: Simulation, number: int, transactional_id: str, *, is_v2: bool
    ) -> None:
        self.world = world
        self.number = number
        self.transactional_id = transactional_id
        self.is_v2 = is_v2
        self.is_up = True
        self.may_begin = True
        self.step = 0
        self.producer: Producer = (-1, -1)
        self.sequences: dict[int, int] = {}
        self.transaction = 0
        self.added: set[int] = set()
        self.must_bump = False

    @property
    def outcome(self) -> Outcome:
        return self.world.checker.outcomes.setdefault((self.number, self.transaction), Outcome())

    def ask(
        self,
        send: Callable[[Callable[[Any], None]], None],
        answer: Callable[[Any], None],
        timed_out: Callable[[], None],
    ) -> None:
        """An answer counts if nothing has moved on since."""
        self.step += 1
        step = self.step

        def is_current() -> bool:
            return self.is_up and self.step == step

        send(lambda response: answer(response) if is_current() else None)
        self.world.at(REQUEST_TIMEOUT_MS, lambda: timed_out() if is_current() else None)

    def later(self, action: Callable[[], None], delay_ms: int = 100) -> None:
        self.step += 1
        step = self.step
        self.world.at(delay_ms, lambda: action() if self.is_up and self.step == step else None)

    # Epochs

    def init(self) -> None:
        """Take an epoch; as the owner of one, the next."""
        if not self.is_up:
            return
        coordinator, owner = self.world.coordinator, self.producer

        def operate(token: int) -> None:
            coordinator.init(
                self.transactional_id, token, owner=owner, timeout_ms=TRANSACTION_TIMEOUT_MS
            )

        self.ask(
            lambda answer: self.world.ask_coordinator(operate, answer), self.initialized, self.init
        )

    def initialized(self, response: Any) -> None:
        error = code(response)
        if error in RETRIABLE:
            self.later(self.init)
        elif error:
            self.is_up = False
        else:
            self.producer = response.producer_id, response.producer_epoch
            self.world.checker.gave(self.producer)
            self.sequences = {}
            self.must_bump = False
            self.begin()

    # One transaction

    def begin(self) -> None:
        if not self.may_begin:
            self.is_up = False
            return
        self.transaction += 1
        self.added = set()
        self.values = [
            (Value(self.number, self.transaction, i), self.world.random.randrange(PARTITIONS))
            for i in range(self.world.random.randrange(1, 5))
        ]
        if self.world.random.random() < 0.5:
            self.values.append((Value(self.number, self.transaction, len(self.values)), OFFSETS))
        self.write()

    def write(self) -> None:
        """Write the next value; in the first version its partition is added before."""
        random = self.world.random
        if not self.values:
            if random.random() < 0.05:
                self.later(self.end, TRANSACTION_TIMEOUT_MS + 2_000)  # too slow
            else:
                self.commits = random.random() < 0.7
                self.end()
            return
        value, partition = self.values[0]
        self.outcome.asked_to_commit = False
        if not self.is_v2 and partition not in self.added:
            coordinator, producer = self.world.coordinator, self.producer
            self.ask(
                lambda answer: self.world.ask_coordinator(
                    lambda token: coordinator.add(
                        self.transactional_id, producer, [(TOPIC, partition)], token
                    ),
                    answer,
                ),
                lambda response: self.partition_added(partition, response),
                self.write,
            )
            return
        sequence = self.sequences.get(partition, 0)
        self.added.add(partition)
        self.ask(
            lambda answer: self.world.produce(self, partition, sequence, value, answer),
            lambda error: self.written(value, partition, error),
            self.write_timed_out,
        )

    def partition_added(self, partition: int, response: Any) -> None:
        error = code(response)
        if error in RETRIABLE:
            self.later(self.write)
        elif error:
            self.is_up = False
        else:
            self.added.add(partition)
            self.write()

    def write_timed_out(self) -> None:
        """Repeat the write, or give up: then its outcome is unknown.

        In the first version a late commit of offsets may end up in the transaction after it.
        """
        of_offsets = self.values[0][1] == OFFSETS and not self.is_v2
        if self.world.random.random() < 0.7 and not of_offsets:
            self.write()
        else:
            self.must_bump = True
            self.commits = False
            self.end()

    def written(self, value: Value, partition: int, error: ErrorCode) -> None:
        if error in RETRIABLE:
            self.later(self.write)
        elif error:
            self.must_bump = True
            self.commits = False
            self.end()
        else:
            self.outcome.written.add(value)
            self.sequences[partition] = self.sequences.get(partition, 0) + 1
            self.values.pop(0)
            self.write()

    commits = True

    def end(self) -> None:
        if not self.added:
            self.later(self.begin)
            return
        commit, producer, coordinator = self.commits, self.producer, self.world.coordinator
        self.outcome.asked_to_commit = commit
        version = 2 if self.is_v2 else 0

        def operate(token: int) -> None:
            coordinator.end(
                self.transactional_id, producer, commit=commit, token=token, version=version
            )

        # A late EndTxn of the first version may end another transaction: KIP-890's reason.
        self.ask(
            lambda answer: self.world.ask_coordinator(operate, answer, never_late=not self.is_v2),
            self.ended,
            self.end,
        )

    def ended(self, response: Any) -> None:
        error = code(response)
        if error in RETRIABLE:
            self.later(self.end)
            return
        if error:
            self.is_up = False
            return
        self.outcome.acked = self.commits
        if self.is_v2:
            self.producer = response.producer_id, response.producer_epoch
            self.sequences = {}
            self.begin()
        elif self.must_bump:
            self.init()
        else:
            self.begin()


def code(response: Any) -> ErrorCode:
    return response if isinstance(response, ErrorCode) else ErrorCode(response.error_code)
