"""The rows of quotas: how near a throttled client comes to its bound, and what others notice."""

import threading
import time
from contextlib import suppress
from statistics import median, quantiles
from typing import Self

from confluent_kafka import KafkaError, Message, Producer

from bench.rows import Bench, Figure
from bench.security.servers import SecuredServer
from compat_tests import wire
from compat_tests.client_quotas import OK, PRODUCER, Parts, alter, produce_request

_THROTTLED = "throttled"
_BOUND = 2_000_000
_VALUE = b"x" * 10_000
_OFFERED = 1.5
"""The records that wait to be sent, in times of the bound."""
_TICK_S = 0.01
_WINDOWS_S = 11
"""The windows of a quota: what was sent in one of them counts until they have passed."""
_PERIODS = 3
_PAUSE_S = 0.002


def throttled(server: SecuredServer, scale: float) -> list[Figure]:
    """Measure a producer that sends what its quota lets through, and another client beside it."""
    bootstrap = server.server.bootstrap
    bench = Bench(server.server, scale, server.plain)
    periods = max(round(_PERIODS * scale), 1)
    topic = bench.topic()
    _ack_p99_ms(bootstrap, topic, 1)
    alone_ms = [_ack_p99_ms(bootstrap, topic, _WINDOWS_S) for _ in range(periods)]
    entity: Parts = (("client-id", _THROTTLED),)
    assert alter(bootstrap, (entity, ((PRODUCER, float(_BOUND)),)))[entity] == OK
    with _ThrottledProducer(bootstrap, bench.topic()) as producer:
        time.sleep(2 * _WINDOWS_S)
        acked, began = producer.acked_bytes, time.monotonic()
        beside_ms = [_ack_p99_ms(bootstrap, topic, _WINDOWS_S) for _ in range(periods)]
        rate = (producer.acked_bytes - acked) / (time.monotonic() - began)
    assert alter(bootstrap, (entity, ((PRODUCER, None),)))[entity] == OK
    times = median(beside_ms) / median(alone_ms)
    return [
        Figure("throttled producer, off its bound", "%", "less", abs(rate / _BOUND - 1) * 100),
        Figure("ack p99, alone", "ms", "less", median(alone_ms)),
        Figure("ack p99 beside a throttled producer, of that alone", "x", "less", times),
    ]


def _ack_p99_ms(bootstrap: str, topic: str, seconds: float) -> float:
    """Return the time of which 99 % of acks need less, one record in flight."""
    request = produce_request(topic, 100)
    times: list[float] = []
    until = time.monotonic() + seconds
    with wire.Connection(bootstrap) as connection:
        while (began := time.monotonic()) < until:
            connection.call(request, 9)
            times.append(time.monotonic() - began)
            time.sleep(_PAUSE_S)
    return quantiles(times, n=100)[98] * 1000


class _ThrottledProducer:
    """A producer of librdkafka that has more records to send than its quota, in a thread.

    It offers them at a steady rate and drops what it cannot send soon, so that it sends no bursts.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.acked_bytes = 0
        self._topic = topic
        self._stopping = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": _THROTTLED,
                "queue.buffering.max.messages": 30,
                "linger.ms": 0,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._producer.purge()
        self._producer.flush(10)

    def _run(self) -> None:
        each_s = len(_VALUE) / (_BOUND * _OFFERED)
        due = time.monotonic()
        while not self._stopping.wait(_TICK_S):
            self._producer.poll(0)
            while due < time.monotonic():
                due += each_s
                with suppress(BufferError):
                    self._producer.produce(self._topic, _VALUE, on_delivery=self._delivered)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acked_bytes += len(message)
