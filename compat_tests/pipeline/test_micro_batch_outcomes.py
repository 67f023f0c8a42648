"""Outcomes of jobs with state whose markers, checkpoint or topics change."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import NewTopic

from barnabas.pipeline.delivery.micro_batches import micro_batch_removal
from barnabas.pipeline.delivery.plan.task_failures import JobStartError
from compat_tests import spark as setup
from compat_tests.pipeline.conftest import failure_of
from compat_tests.pipeline.count_job import PARTITIONS, CountJob, count_job

pytestmark = [
    setup.needed,
    pytest.mark.timeout(300),
]


@pytest.fixture
def job(engine: Any, bootstrap: str, topics: Any, unique: Any, tmp_path: Path) -> Any:
    found = count_job(engine, bootstrap, topics, unique("counts"), tmp_path / "checkpoint")
    yield found
    found.stop()


def test_expired_markers_are_found_in_the_micro_batches_topic(job: CountJob) -> None:
    job.run(100)
    job.expire_offsets()
    job.run(50)
    job.expire_offsets()  # while micro-batches are waited for, too
    job.start()
    job.send(20)
    job.wait_counts()
    assert all(each == sorted(set(each)) for each in job.updates().values()), "repeated updates"


def test_wiped_or_old_checkpoint_is_refused_also_when_the_markers_expired(
    job: CountJob, tmp_path: Path
) -> None:
    job.run(100)
    shutil.copytree(job.checkpoint, tmp_path / "old")
    job.run(20)
    shutil.rmtree(job.checkpoint)
    shutil.copytree(tmp_path / "old", job.checkpoint)
    assert "not the one that wrote micro-batch" in job.refusal()
    shutil.rmtree(job.checkpoint)
    assert "not the one that wrote micro-batch" in job.refusal()
    job.expire_offsets()
    assert "not the one that wrote micro-batch" in job.refusal()


def test_topic_recreated_while_the_job_is_down_is_refused(job: CountJob) -> None:
    job.run(100)
    topic = job.plan.topics[0]
    job.admin.delete_topics([topic])[topic].result(30)
    job.admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(30)
    job.send(500)
    message = job.refusal()
    assert f"topic {topic} was recreated" in message
    assert "barnabas job rebuild" in message


def test_topic_recreated_while_the_job_runs_fails_it(job: CountJob) -> None:
    job.send(10)
    running = job.start()
    job.wait_counts()
    topic = job.plan.topics[0]
    job.admin.delete_topics([topic])[topic].result(30)
    failure = failure_of(running)
    assert failure.is_permanent
    assert "deleted" in failure.message or "recreated" in failure.message


def test_rebuilt_job_counts_everything_again(job: CountJob) -> None:
    job.run(100)
    shutil.rmtree(job.checkpoint / "offsets")
    job.refusal()
    properties = {"bootstrap.servers": job.plan.bootstrap}
    micro_batch_removal.forget(job.plan.name, job.plan.group_id, properties, str(job.checkpoint))
    job.run(30)
    assert job.counts() == job.sent


def test_repartition_without_columns_is_refused(job: CountJob) -> None:
    """Rows would be dealt out differently when a micro-batch is repeated, and some be lost."""
    from pyspark.sql import functions

    with pytest.raises(JobStartError, match="name the columns"):
        job.start(job.frame().repartition(3))
    with pytest.raises(JobStartError, match="rand"):
        job.start(job.frame().repartition(3, functions.rand()))
    job.send(10)
    job.start(job.frame().repartition(PARTITIONS, "key"))
    job.wait_counts()


def damage(checkpoint: Path, pattern: str) -> Path:
    """Cut the newest file in two, as a power cut may do: Spark syncs no file of a checkpoint."""
    found = [path for path in checkpoint.glob(pattern) if path.stem.isdecimal()]
    newest = max(found, key=lambda path: int(path.stem))
    newest.write_bytes(newest.read_bytes()[: newest.stat().st_size // 2])
    (newest.parent / f".{newest.name}.crc").unlink(missing_ok=True)
    return newest


@pytest.mark.parametrize("pattern", ["offsets/*", "commits/*", "state/0/0/*.changelog"])
def test_checkpoint_damaged_by_a_power_cut_is_refused(job: CountJob, pattern: str) -> None:
    job.run(100)
    job.run(10)
    damage(job.checkpoint, pattern)
    job.send(50)
    try:
        failure = failure_of(job.start())
    except JobStartError as error:
        failure = error.failure
    assert failure.is_permanent, f"{failure}\n{failure.trace}"
    assert "barnabas job rebuild" in failure.message
