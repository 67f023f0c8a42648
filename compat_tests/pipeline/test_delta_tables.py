"""A Delta table that SparkSink writes: `make compat-delta`, as it takes minutes on a busy host."""

import os
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from compat_tests import spark as setup
from compat_tests.pipeline import test_spark_connectors as connectors
from compat_tests.pipeline.conftest import SharedJvm
from compat_tests.pipeline.test_spark_connectors import CONVERTERS, numbers, produce, rows, wait_for

pytestmark = [
    setup.needed,
    pytest.mark.skipif("BARNABAS_DELTA" not in os.environ, reason="run `make compat-delta`"),
    pytest.mark.timeout(900),
]

sink = connectors.sink
start = connectors.start


@pytest.fixture(scope="module")
def engine(shared_jvm: SharedJvm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from barnabas.pipeline.spark.engine import Engine
    from barnabas.pipeline.spark.session import SessionSettings

    shared_jvm.stop()  # the libraries of the formats need another JVM
    work = tmp_path_factory.mktemp("engine")
    running = Engine(
        SessionSettings(work, master="local[2]", is_short_lived=True, formats=("delta",))
    )
    running.start()
    yield running
    running.stop()


def test_delta_table_holds_each_record_once_through_a_restart(engine, sink, start) -> None:
    plan = sink(CONVERTERS, spark__format="delta", partition__by="city")
    produce(plan, rows(0, 100))
    job = start(plan)
    wait_for(plan, job, 100)
    job.stop()
    connectors.lose_commit(plan)
    produce(plan, rows(100, 150))
    again = start(attrs.evolve(plan, generation=2))
    wait_for(plan, again, 150)
    again.stop()
    assert numbers(engine, plan) == list(range(150))
