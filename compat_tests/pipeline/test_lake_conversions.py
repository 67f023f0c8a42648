"""A lake sink whose conversions change while a batch is half done: its driver was killed in it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from barnabas.pipeline.delivery.plan.job_plan import JobPlan
from barnabas.pipeline.delivery.plan.task_failures import JobStartError
from compat_tests import spark as setup
from compat_tests.pipeline import test_spark_connectors as connectors
from compat_tests.pipeline.conftest import eventually
from compat_tests.pipeline.killed_job import DriverProcess, read_committed, wait_until
from compat_tests.pipeline.test_spark_connectors import COLUMNS, PLAIN, produce, wait_for

pytestmark = [
    setup.needed,
    pytest.mark.timeout(600),
]

sink = connectors.sink
start = connectors.start

TEXT = {"id": "5", "city": "c"}
"""A value that does not fit, unless a transformation makes a number of its id."""
CAST = {
    "transforms": "cast",
    "transforms.cast.type": "org.apache.kafka.connect.transforms.Cast$Value",
    "transforms.cast.spec": "id:int64",
}
MORE = {
    "transforms": "more",
    "transforms.more.type": "org.apache.kafka.connect.transforms.InsertField$Value",
    "transforms.more.static.field": "more",
    "transforms.more.static.value": "x",
}
"""Adds a field for which there is no column: each record is a dead letter."""


@pytest.fixture
def lake(sink, topics) -> JobPlan:
    plan: JobPlan = sink(
        PLAIN,
        schema=COLUMNS,
        errors__tolerance="all",
        errors__deadletterqueue__topic__name=topics.create("letters"),
    )
    return plan


def produce_batch(plan: JobPlan, first: int) -> None:
    """Send ten records, of which the sixth does not fit."""
    values: list[Any] = [{"id": number, "city": "c"} for number in range(first, first + 10)]
    values[5] = {**TEXT, "id": str(first + 5)}
    produce(plan, values, has_schema=False)


def killed_at(point: str, plan: JobPlan, directory: Path) -> None:
    """Run the job in a process that is killed at a point of the transaction of dead letters."""
    fields = attrs.asdict(plan, filter=lambda field, value: value != field.default)
    fields["kind"] = plan.kind.value
    driver = DriverProcess(directory, {"plan": fields})
    (driver.points / point).write_text("kill-driver")
    driver.start()
    wait_until((driver.points / f"{point}.reached").exists, point, driver)
    driver.kill()


def changed(plan: JobPlan, generation: int, props: dict[str, str]) -> JobPlan:
    properties = {**plan.properties, **props}
    return attrs.evolve(plan, generation=generation, properties=properties)


def delivered(engine: Any, plan: JobPlan) -> tuple[list[int], list[int]]:
    """Return the numbers of the records in the files, and of those among the dead letters."""
    letters = read_committed(plan.bootstrap, plan.properties["errors.deadletterqueue.topic.name"])
    found = sorted(int(json.loads(letter.value())["id"]) for letter in letters)
    return connectors.numbers(engine, plan), found


@pytest.mark.parametrize("props", [CAST, MORE], ids=["fewer-letters", "more-letters"])
def test_batch_with_letters_is_completed_by_the_conversions_that_began_it(
    engine, lake, start, tmp_path: Path, props: dict[str, str]
) -> None:
    """Else the record with the letter is a row, too, or records in front of it are lost."""
    produce_batch(lake, 0)
    killed_at("committed", lake, tmp_path)
    with pytest.raises(JobStartError, match="batch 0 is not complete") as refused:
        start(changed(lake, 2, props))
    assert refused.value.failure.is_permanent
    job = start(changed(lake, 3, {}))
    wait_for(lake, job, 10)
    job.stop()
    assert delivered(engine, lake) == ([0, 1, 2, 3, 4, 6, 7, 8, 9], [5])
    produce_batch(lake, 10)
    again = start(changed(lake, 4, props))
    wait_for(lake, again, 20)
    again.stop()
    numbers, letters = delivered(engine, lake)
    assert sorted([*numbers, *letters]) == list(range(20))
    assert letters == ([5] if props is CAST else [5, *range(10, 20)])


@pytest.mark.parametrize("props", [CAST, MORE], ids=["fewer-letters", "more-letters"])
def test_batch_without_letters_is_repeated_with_other_conversions(
    engine, lake, start, tmp_path: Path, props: dict[str, str]
) -> None:
    produce_batch(lake, 0)
    killed_at("produced", lake, tmp_path)
    job = start(changed(lake, 2, props))
    wait_for(lake, job, 10)
    job.stop()
    rows, letters = list(range(10)), list[int]()
    assert delivered(engine, lake) == ((rows, letters) if props is CAST else (letters, rows))


def check_complete_batch(engine: Any, plan: JobPlan, start: Callable[[JobPlan], Any]) -> None:
    """A batch that the files have is not repeated with the conversions that follow it."""
    produce_batch(plan, 0)
    job = start(plan)
    wait_for(plan, job, 10)
    job.stop()
    connectors.lose_commit(plan)
    produce_batch(plan, 10)
    again = start(changed(plan, 2, CAST))
    wait_for(plan, again, 20)
    again.stop()
    assert delivered(engine, plan) == ([number for number in range(20) if number != 5], [5])


def test_batch_that_the_files_have_is_not_repeated_with_other_conversions(
    engine, lake, start
) -> None:
    check_complete_batch(engine, lake, start)


def test_job_that_is_stopped_ends_its_batch_first(lake, start) -> None:
    """So a change of conversions waits for the batch, instead of being refused."""
    job = start(lake)
    produce_batch(lake, 0)
    wait_for(lake, job, 10)
    checkpoint = Path(lake.properties["path"]) / "_checkpoints" / lake.name

    def batches(log: str) -> set[str]:
        return {each.name for each in (checkpoint / log).iterdir() if each.name.isdecimal()}

    produce(lake, connectors.rows(10, 20_000), has_schema=False)
    running = eventually(lambda: batches("offsets") - batches("commits"), job)
    job.stop()
    assert running <= batches("commits")
