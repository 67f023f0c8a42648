"""One record in flight for each partition: the gaps between acks, and a ledger of what was acked.

A reader compares the ledger with the partitions (`faults`).
"""

import itertools
import threading
import time
from collections.abc import Iterator
from typing import Self

import attrs
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from compat_tests.client_security import librdkafka

DELIVERY_TIMEOUT_MS = 120_000
_names = itertools.count(1)


@attrs.define
class Tally:
    """The records that `read_all` has read in this process."""

    records: int = 0
    bytes: int = 0


READ = Tally()


@attrs.define
class Ledger:
    """The values that were sent, and those that were acked."""

    sent: dict[str, int] = attrs.field(factory=dict)
    acked: dict[str, tuple[int, int]] = attrs.field(factory=dict)
    failed: dict[str, str] = attrs.field(factory=dict)


@attrs.frozen
class Ack:
    """An ack: when it came, how long the record was in flight, and its value."""

    at: float
    latency_s: float
    value: str


class Load:
    """One record in flight for each partition until `stop`, and the acks. Subclasses send.

    A subclass calls `begin` before it sends a value, and `acked` or `failed` after it, from any
    thread.
    """

    kind = ""

    def __init__(self, topic: str, partitions: int) -> None:
        self.topic = topic
        self.ledger = Ledger()
        self.acks: dict[int, list[Ack]] = {number: [] for number in range(partitions)}
        self.name = f"{self.kind or 'ping'}{next(_names)}"
        self._sequence = itertools.count()

    def start(self) -> None:
        """Begin to send, in the background."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stop sending, and wait for the outcome of what is in flight."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def begin(self, partition: int) -> str:
        """Return the next value of a partition; it counts as sent."""
        value = f"{self.name}-{partition}-{next(self._sequence)}"
        self.ledger.sent[value] = partition
        return value

    def acked(self, value: str, partition: int, offset: int, started: float) -> None:
        """Record the ack of a value that was sent at `started`."""
        now = time.monotonic()
        self.ledger.acked[value] = (partition, offset)
        self.acks[partition].append(Ack(now, now - started, value))

    def failed(self, value: str, error: object) -> None:
        """Record an error that the client surfaced."""
        self.ledger.failed[value] = str(error)

    def longest_gap(self, partition: int, since: float, until: float | None = None) -> float:
        """Return the longest time without an ack of a partition, from `since` on."""
        end = time.monotonic() if until is None else until
        times = [since, *(ack.at for ack in self.acks[partition] if since < ack.at < end), end]
        return max(later - earlier for earlier, later in itertools.pairwise(times))

    def longest_gaps(self, since: float) -> float:
        """Return the longest gap of all partitions from `since` on."""
        return max(self.longest_gap(number, since) for number in self.acks)

    def latencies(self, since: float = 0.0) -> list[float]:
        """Return the latencies of the acks after `since`, in ascending order."""
        return sorted(
            ack.latency_s for acks in self.acks.values() for ack in acks if ack.at > since
        )

    def wait_for_acks(self, since: float, timeout_s: float = 60) -> None:
        """Wait until each partition had an ack after `since`."""
        deadline = time.monotonic() + timeout_s
        while not all(acks and acks[-1].at > since for acks in self.acks.values()):
            if time.monotonic() > deadline:
                silent = [
                    each for each, acks in self.acks.items() if not acks or acks[-1].at < since
                ]
                raise TimeoutError(
                    f"{self.kind} partitions {silent}: no ack within {timeout_s} s; failed: "
                    f"{list(self.ledger.failed.items())[:3]}"
                )
            time.sleep(0.02)


class Pinger(Load):
    """An idempotent producer of librdkafka."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        *,
        interval_s: float = 0.0,
        config: dict[str, object] | None = None,
    ) -> None:
        super().__init__(topic, partitions)
        self._interval_s = interval_s
        self._due: list[tuple[float, int]] = []
        self._stopping = threading.Event()
        self._producer = Producer(
            {
                **librdkafka(bootstrap),
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 0,
                "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
                "log_level": 0,
                **(config or {}),
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        if not self._stopping.is_set():
            self._stopping.set()
            self._thread.join()
            self._producer.flush(DELIVERY_TIMEOUT_MS / 1000)

    def _run(self) -> None:
        for partition in self.acks:
            self._send(partition)
        while not self._stopping.is_set():
            self._producer.poll(0.005 if self._due else 0.05)
            now = time.monotonic()
            due = [partition for at, partition in self._due if at <= now]
            self._due = [each for each in self._due if each[0] > now]
            for partition in due:
                self._send(partition)

    def _send(self, partition: int) -> None:
        started = time.monotonic()
        value = self.begin(partition)

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self.acked(value, partition, message.offset(), started)
            else:
                self.failed(value, error)
            if self._stopping.is_set():
                return
            if self._interval_s:
                self._due.append((time.monotonic() + self._interval_s, partition))
            else:
                self._send(partition)

        self._producer.produce(
            self.topic, value.encode(), partition=partition, on_delivery=delivered
        )


def read_all(
    bootstrap: str, topic: str, partitions: int, config: dict[str, object] | None = None
) -> Iterator[tuple[int, int, str]]:
    """Yield partition, offset and value of each record of a topic."""
    consumer = Consumer(
        {
            **librdkafka(bootstrap),
            "group.id": "ladder-reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "log_level": 0,
            **(config or {}),
        }
    )
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        open_partitions = set(range(partitions))
        deadline = time.monotonic() + 120
        while open_partitions:
            assert time.monotonic() < deadline, f"partitions {open_partitions} were not read"
            for message in consumer.consume(1000, 1.0):
                error = message.error()
                if error is None:
                    value = message.value()
                    READ.records += 1
                    READ.bytes += len(value)
                    yield message.partition(), message.offset(), value.decode()
                elif error.code() == KafkaError._PARTITION_EOF:
                    open_partitions.discard(message.partition())
                elif not error.retriable():
                    raise KafkaException(error)
    finally:
        consumer.close()


def faults(
    bootstrap: str,
    topic: str,
    partitions: int,
    *ledgers: Ledger,
    config: dict[str, object] | None = None,
) -> list[str]:
    """Return what is wrong: acked records that are lost, moved, or stored twice."""
    found: dict[str, list[tuple[int, int]]] = {}
    for partition, offset, value in read_all(bootstrap, topic, partitions, config):
        found.setdefault(value, []).append((partition, offset))
    wrong: list[str] = []
    for ledger in ledgers:
        for value, place in ledger.acked.items():
            places = found.get(value, [])
            if not places:
                wrong.append(f"lost: {value} acked at {place}")
            elif place not in places and place[1] >= 0:
                wrong.append(f"moved: {value} acked at {place}, read at {places}")
        wrong += [
            f"twice: {value} at {found[value]}"
            for value in ledger.sent
            if len(found.get(value, ())) > 1
        ]
    return wrong
