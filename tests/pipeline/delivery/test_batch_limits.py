"""The size and the distance of a forward job's batches."""

import attrs
import pytest

from barnabas.pipeline.delivery.driver.kafka_queries import batch_limits
from barnabas.pipeline.delivery.plan.job_plan import JobKind, JobPlan

PLAN = JobPlan("j", 1, JobKind.COPY, "b", "g", "t", topics=("a",))


def test_job_without_a_rate_has_its_own_limits() -> None:
    assert batch_limits(PLAN) == (500_000, 100)
    assert batch_limits(attrs.evolve(PLAN, trigger_ms=0)) == (500_000, 0)


@pytest.mark.parametrize("rate", [1, 3, 10, 999, 1_000, 50_000, 10_000_000])
@pytest.mark.parametrize("trigger_ms", [0, 100, 1_000])
def test_batches_do_not_exceed_the_largest_rate(rate: int, trigger_ms: int) -> None:
    plan = attrs.evolve(PLAN, records_per_second_max=rate, trigger_ms=trigger_ms)
    records, distance_ms = batch_limits(plan)
    assert 1 <= records <= 500_000
    assert distance_ms >= trigger_ms
    assert records * 1000 / distance_ms <= rate
