"""One record in flight for each partition: the gaps between acks, and a ledger of what was acked.

The ledger is written to a local file: each value before it is sent and after it is acked. A reader
compares it with the partitions (`faults`), and the replicas' files with each other.
"""

import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import attrs
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

DELIVERY_TIMEOUT_MS = 120_000
_names = itertools.count(1)


@attrs.define
class Ledger:
    """The values that were sent, and those that were acked."""

    sent: dict[str, int] = attrs.field(factory=dict)
    acked: dict[str, tuple[int, int]] = attrs.field(factory=dict)
    failed: dict[str, str] = attrs.field(factory=dict)
    file: IO[str] | None = None

    def begin(self, value: str, partition: int) -> None:
        self.sent[value] = partition
        self._write(f"sent {partition} {value}")

    def end(self, value: str, partition: int, offset: int) -> None:
        self.acked[value] = (partition, offset)
        self._write(f"acked {partition} {offset} {value}")

    def fail(self, value: str, error: str) -> None:
        self.failed[value] = error
        self._write(f"failed {value} {error}")

    def _write(self, line: str) -> None:
        if self.file is not None:
            self.file.write(line + "\n")
            self.file.flush()


@attrs.frozen
class Ack:
    """An ack: when it came, and how long the record was in flight."""

    at: float
    latency_s: float


class Pinger:
    """Keeps one record in flight for each partition until `stop`."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        *,
        ledger_file: Path | None = None,
        interval_s: float = 0.0,
        config: dict[str, object] | None = None,
    ) -> None:
        self.topic = topic
        self.ledger = Ledger(file=ledger_file.open("w") if ledger_file else None)
        self.acks: dict[int, list[Ack]] = {number: [] for number in range(partitions)}
        self._name = f"ping{next(_names)}"
        self._sequence = itertools.count()
        self._interval_s = interval_s
        self._due: list[tuple[float, int]] = []
        self._stopping = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 0,
                "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
                "log_level": 0,
                **(config or {}),
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Pinger":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop sending, and wait for the acks of what is in flight."""
        if not self._stopping.is_set():
            self._stopping.set()
            self._thread.join()
            self._producer.flush(DELIVERY_TIMEOUT_MS / 1000)
            if self.ledger.file is not None:
                self.ledger.file.close()

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
        value = f"{self._name}-{partition}-{next(self._sequence)}"
        started = time.monotonic()

        def delivered(error: KafkaError | None, message: Message) -> None:
            now = time.monotonic()
            if error is None:
                self.ledger.end(value, partition, message.offset())
                self.acks[partition].append(Ack(now, now - started))
            else:
                self.ledger.fail(value, str(error))
            if self._stopping.is_set():
                return
            if self._interval_s:
                self._due.append((now + self._interval_s, partition))
            else:
                self._send(partition)

        self.ledger.begin(value, partition)
        self._producer.produce(
            self.topic, value.encode(), partition=partition, on_delivery=delivered
        )

    def longest_gap(self, partition: int, since: float, until: float | None = None) -> float:
        """Return the longest time without an ack of a partition, from `since` on."""
        end = time.monotonic() if until is None else until
        times = [since, *(ack.at for ack in self.acks[partition] if since < ack.at < end), end]
        return max(later - earlier for earlier, later in itertools.pairwise(times))

    def latencies(self) -> list[float]:
        """Return the latencies of all acks, in ascending order."""
        return sorted(ack.latency_s for acks in self.acks.values() for ack in acks)

    def wait_for_acks(self, since: float, timeout_s: float = 60) -> None:
        """Wait until each partition had an ack after `since`."""
        deadline = time.monotonic() + timeout_s
        while not all(acks and acks[-1].at > since for acks in self.acks.values()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"no ack within {timeout_s} s: {self.ledger.failed}")
            time.sleep(0.02)


def read_all(bootstrap: str, topic: str, partitions: int) -> Iterator[tuple[int, int, str]]:
    """Yield partition, offset and value of each record of a topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "ladder-reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "log_level": 0,
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
                    yield message.partition(), message.offset(), message.value().decode()
                elif error.code() == KafkaError._PARTITION_EOF:
                    open_partitions.discard(message.partition())
                elif not error.retriable():
                    raise KafkaException(error)
    finally:
        consumer.close()


def faults(bootstrap: str, topic: str, partitions: int, *ledgers: Ledger) -> list[str]:
    """Return what is wrong: acked records that are lost, moved, or stored twice."""
    found: dict[str, list[tuple[int, int]]] = {}
    for partition, offset, value in read_all(bootstrap, topic, partitions):
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


def differing_replicas(directories: list[Path], topic: str, partitions: int) -> list[str]:
    """Return the partitions whose log files differ below the shortest replica's end.

    The nodes must have stopped.
    """
    wrong: list[str] = []
    for number in range(partitions):
        logs = [_log_bytes(directory / f"{topic}-{number}") for directory in directories]
        length = min(map(len, logs))
        if any(log[:length] != logs[0][:length] for log in logs):
            wrong.append(f"{topic}-{number} differs: lengths {[len(log) for log in logs]}")
    return wrong


def _log_bytes(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))
