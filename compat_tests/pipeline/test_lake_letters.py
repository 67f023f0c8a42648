"""The dead letters of a lake sink that is created again: same name, another path."""

from pathlib import Path

import attrs
import pytest
from confluent_kafka import Consumer, TopicPartition

from barnabas.pipeline.delivery.plan.job_plan import JobPlan
from compat_tests import spark as setup
from compat_tests.pipeline import test_lake_conversions as conversions
from compat_tests.pipeline import test_spark_connectors as connectors
from compat_tests.pipeline.test_lake_conversions import delivered, killed_at, produce_batch
from compat_tests.pipeline.test_spark_connectors import wait_for

pytestmark = [setup.needed, pytest.mark.timeout(600)]

sink = connectors.sink
start = connectors.start
lake = conversions.lake
ROWS = [0, 1, 2, 3, 4, 6, 7, 8, 9]


def recreated(plan: JobPlan, generation: int, path: Path, letters: str) -> JobPlan:
    """Return the plan of a connector with the same name, another path and other letters."""
    other = {"path": str(path), "errors.deadletterqueue.topic.name": letters}
    return attrs.evolve(plan, generation=generation, properties={**plan.properties, **other})


def test_lake_recreated_with_another_path_writes_the_letters_of_its_records(
    engine, lake, start, topics, tmp_path: Path
) -> None:
    """It continues behind the group's offsets, and here a user has set these back."""
    produce_batch(lake, 0)
    job = start(lake)
    wait_for(lake, job, 10)
    job.stop()
    other = recreated(lake, 2, tmp_path / "other", topics.create("letters"))
    produce_batch(lake, 10)
    job = start(other)
    wait_for(lake, job, 20)
    job.stop()
    assert delivered(engine, other) == ([number + 10 for number in ROWS], [15])
    # The first job has left the position 6 for letters, the second one 16.
    third = recreated(lake, 3, tmp_path / "third", topics.create("letters"))
    group = Consumer({"bootstrap.servers": lake.bootstrap, "group.id": lake.group_id})
    group.commit(offsets=[TopicPartition(lake.topics[0], 0, 0)], asynchronous=False)
    group.close()
    job = start(third)
    wait_for(lake, job, 20)
    job.stop()
    assert delivered(engine, third) == ([*ROWS, *(number + 10 for number in ROWS)], [5, 15])


def test_lake_recreated_while_a_batch_is_not_complete_writes_its_letters(
    engine, lake, start, topics, tmp_path: Path
) -> None:
    produce_batch(lake, 0)
    killed_at("committed", lake, tmp_path)
    other = recreated(lake, 2, tmp_path / "other", topics.create("letters"))
    job = start(other)
    wait_for(lake, job, 10)
    job.stop()
    assert delivered(engine, other) == (ROWS, [5])
