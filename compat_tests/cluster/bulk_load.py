"""Records of 100 bytes in batches: as fast as a client can, or at a steady rate."""

import itertools
import time

from confluent_kafka import KafkaError, Message, Producer

from compat_tests.client_security import librdkafka
from compat_tests.cluster.background_load import BackgroundLoad

VALUE = b"x" * 100
_STEP = 1000
_TICK_S = 0.005


class BulkProducer:
    """A producer, idempotent with acks=all; `failures` are the errors of records."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        acks: str = "all",
        batch_bytes: int = 1_000_000,
        first: int = 0,
    ) -> None:
        self.failures: list[str] = []
        self._topic = topic
        self._partitions = itertools.cycle(range(first, partitions))
        self._producer = Producer(
            {
                **librdkafka(bootstrap),
                "acks": acks,
                "enable.idempotence": acks == "all",
                "linger.ms": 5,
                "batch.size": batch_bytes,
                "queue.buffering.max.messages": 200_000,
                "delivery.timeout.ms": 120_000,
                "log_level": 0,
            }
        )

    def send(self, count: int, value: bytes = VALUE) -> None:
        """Send records to the partitions in turn; wait while the client's queue is full."""
        for _ in range(count):
            while True:
                try:
                    self._producer.produce(
                        self._topic,
                        value,
                        partition=next(self._partitions),
                        on_delivery=self._delivered,
                    )
                    break
                except BufferError:
                    self._producer.poll(0.01)
        self._producer.poll(0)

    def send_for(self, seconds: float) -> float:
        """Send as fast as possible for some seconds; return the acked records per second."""
        count, started = 0, time.monotonic()
        while time.monotonic() - started < seconds:
            self.send(_STEP)
            count += _STEP
        self.flush()
        return count / (time.monotonic() - started)

    def flush(self) -> None:
        """Wait for the outcome of all records. Raises AssertionError when one failed."""
        assert self._producer.flush(120) == 0
        assert not self.failures, self.failures[:3]

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self.failures.append(str(error))


class SteadyLoad(BackgroundLoad):
    """A producer that keeps a rate of records, in the background."""

    def __init__(self, producer: BulkProducer, records_per_s: float) -> None:
        self._producer = producer
        self._records_per_s = records_per_s
        super().__init__()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._producer.flush()

    def _run(self) -> None:
        while not self._stopping.wait(_TICK_S):
            self._producer.send(int(self._records_per_s * _TICK_S))
