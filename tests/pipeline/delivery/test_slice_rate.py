"""The largest rate of a source connector, with a clock of the test."""

from collections.abc import Sequence
from typing import Any

import pytest

from barnabas.pipeline.data.records import SourceRecord, source_record
from barnabas.pipeline.delivery.plan.worker_plan import TaskPlan
from barnabas.pipeline.delivery.rows.task_figures import Figures
from barnabas.pipeline.delivery.slices import slice_tasks, source_offsets
from barnabas.pipeline.delivery.slices.slice_tasks import SourceSession

STRING = "org.apache.kafka.connect.storage.StringConverter"
POLL_RECORDS = 10
SLICE_S = 2.0
TRANSACTION_S = 0.5


class Clock:
    """Time that passes in sleeps, and a little with each look at it."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        self.now += 0.001
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Producer:
    """Notes when records are written."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.written: list[tuple[float, int]] = []
        self._count = 0

    def begin(self) -> None:
        self._count = 0

    def produce(self, topic: str, *rest: Any) -> None:
        self._count += topic == "t"

    def poll(self) -> None:
        pass

    def commit(self) -> None:
        self.written.append((self._clock.now, self._count))


class EndlessTask:
    """A source that always has records."""

    def start(self, *arguments: Any) -> None:
        pass

    def poll(self) -> Sequence[SourceRecord]:
        record = source_record("t", "x", source_partition={}, source_offset={})
        return [record] * POLL_RECORDS

    def commit(self) -> None:
        pass


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(slice_tasks, "time", found)
    return found


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Producer:
    found = Producer(clock)
    monkeypatch.setattr(slice_tasks, "TransactionalProducer", lambda properties: found)
    monkeypatch.setattr(source_offsets, "read", lambda *arguments: {})
    monkeypatch.setattr(slice_tasks, "source_task_class", lambda name: EndlessTask)
    return found


def written_in_slices(rate: float, count: int) -> None:
    plan = TaskPlan(
        job="job",
        generation=1,
        kind="source",
        group_id="job",
        transactional_id="job",
        producer={},
        consumer={},
        properties={"key.converter": STRING, "value.converter": STRING},
        task_configs=({},),
        slice_ms=int(SLICE_S * 1000),
        records_max=100_000,
        records_per_second_max=rate,
    )
    session = SourceSession(plan, 0)
    for _ in range(count):
        session.run_slice(Figures())


@pytest.mark.parametrize("rate", [3.0, 20.0, 100.0, 1_000.0])
def test_source_with_a_largest_rate_keeps_it(clock: Clock, producer: Producer, rate: float) -> None:
    began = clock.now
    written_in_slices(rate, 20)
    burst = rate * TRANSACTION_S + POLL_RECORDS
    total = 0
    for at, count in producer.written:
        total += count
        assert count <= burst
        assert total <= rate * (at - began) + burst
    elapsed = clock.now - began
    assert total >= 0.8 * rate * elapsed - burst
