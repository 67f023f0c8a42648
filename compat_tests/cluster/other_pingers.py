"""Producers of other clients with one record in flight for each partition: Java's, kafka-python's
and aiokafka's. All are idempotent, with the client's own defaults otherwise.
"""

import asyncio
import queue
import subprocess
import threading
import time
from collections.abc import Callable

from aiokafka import AIOKafkaProducer
from kafka import KafkaProducer

from compat_tests import client_security, jars
from compat_tests.cluster.pinger import Load, Pinger

_END_S = 150.0
"""More than a client's delivery timeout, so that `stop` sees an outcome of each record."""


class KafkaPythonPinger(Load):
    """A producer of kafka-python."""

    kind = "kafka-python"

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, *, interval_s: float = 0.0
    ) -> None:
        super().__init__(topic, partitions)
        self._interval_s = interval_s
        self._producer = KafkaProducer(**client_security.kafka_python(bootstrap))
        self._due: queue.Queue[int] = queue.Queue()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        for partition in self.acks:
            self._due.put(partition)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._producer.flush(_END_S)
        self._producer.close(10)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                partition = self._due.get(timeout=0.1)
            except queue.Empty:
                continue
            time.sleep(self._interval_s / len(self.acks))
            self._send(partition)

    def _send(self, partition: int) -> None:
        started = time.monotonic()
        value = self.begin(partition)

        def delivered(metadata) -> None:
            self.acked(value, partition, metadata.offset, started)
            self._due.put(partition)

        def failed(error: BaseException) -> None:
            self.failed(value, repr(error))
            self._due.put(partition)

        future = self._producer.send(self.topic, value.encode(), partition=partition)
        future.add_callback(delivered).add_errback(failed)


class AiokafkaPinger(Load):
    """A producer of aiokafka."""

    kind = "aiokafka"

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, *, interval_s: float = 0.0
    ) -> None:
        super().__init__(topic, partitions)
        self._bootstrap = bootstrap
        self._interval_s = interval_s
        self._is_stopping = False
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_stopping = True
        self._thread.join(_END_S)

    async def _main(self) -> None:
        async with AIOKafkaProducer(
            **client_security.aiokafka(self._bootstrap), acks="all", enable_idempotence=True
        ) as producer:
            await asyncio.gather(*(self._send(producer, number) for number in self.acks))

    async def _send(self, producer: AIOKafkaProducer, partition: int) -> None:
        while not self._is_stopping:
            started = time.monotonic()
            value = self.begin(partition)
            try:
                sent = await producer.send_and_wait(self.topic, value.encode(), partition=partition)
            except Exception as error:
                self.failed(value, repr(error))
            else:
                self.acked(value, partition, sent.offset, started)
            await asyncio.sleep(self._interval_s)


class JavaPinger(Load):
    """Java's producer, in its own process, which reports each outcome on a line."""

    kind = "java"

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, *, interval_s: float = 0.0
    ) -> None:
        super().__init__(topic, partitions)
        program = jars.ROOT / "compat_tests" / "java" / "Pinger.java"
        options = [*jars.TOOL_OPTIONS, *jars.archive_options(), *jars.LOG_OPTIONS]
        options += ["-cp", jars.classpath()]
        properties = client_security.java(bootstrap)
        arguments = [topic, str(partitions), self.name, str(int(interval_s * 1000))]
        arguments += [f"{name}={value}" for name, value in properties.items()]
        self._command = ["java", *options, str(program), *arguments]
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._started: dict[str, float] = {}

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._thread.start()

    def stop(self) -> None:
        """Close its standard input: the program waits for its last outcomes and ends."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(_END_S)
        finally:
            process.kill()
            self._thread.join()
        unknown = set(self.ledger.sent) - set(self.ledger.acked) - set(self.ledger.failed)
        assert not unknown, f"Java's producer ended without the outcome of {sorted(unknown)[:3]}"

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        with self._process.stdout:
            for line in self._process.stdout:
                what, partition, value, *rest = line.rstrip("\n").split(" ", 3)
                if what == "sent":
                    self.ledger.sent[value] = int(partition)
                    self._started[value] = time.monotonic()
                elif what == "acked":
                    started = self._started.pop(value)
                    self.acked(value, int(partition), int(rest[0]), started)
                else:
                    self.failed(value, rest[0])


PINGERS: dict[str, Callable[..., Load]] = {
    "librdkafka": Pinger,
    "kafka-python": KafkaPythonPinger,
    "aiokafka": AiokafkaPinger,
    **({} if jars.missing() else {"java": JavaPinger}),
}
"""The kinds of producers; each takes bootstrap, topic, partitions and `interval_s`."""
