"""Outcomes of jobs with state whose markers, checkpoint or topics change."""

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import attrs
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.pipeline.delivery import epochs_job, epochs_removal
from barnabas.pipeline.delivery.job_plan import JobKind, JobPlan
from barnabas.pipeline.delivery.task_failures import JobStartError
from compat_tests import spark as setup
from compat_tests.pipeline.conftest import eventually, failure_of
from compat_tests.pipeline.killed_job import read_committed

pytestmark = [
    pytest.mark.skipif(setup.missing() is not None, reason=setup.missing() or ""),
    pytest.mark.timeout(300),
]

PARTITIONS = 2


class CountJob:
    """Counts the records of each key; one run after the other on one checkpoint."""

    def __init__(self, engine: Any, plan: JobPlan, checkpoint: Path) -> None:
        self.engine = engine
        self.plan = plan
        self.checkpoint = checkpoint
        self.admin = AdminClient({"bootstrap.servers": plan.bootstrap})
        self.sent: Counter[str] = Counter()
        self._job: Any = None

    def rows(self) -> Any:
        return (
            self.engine.session.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.plan.bootstrap)
            .option("kafka.fetch.max.wait.ms", "20")
            .option("subscribe", self.plan.topics[0])
            .option("startingOffsets", "earliest")
            .load()
        )

    def frame(self) -> Any:
        from pyspark.sql import functions

        counts = self.rows().groupBy("key").agg(functions.count("*").alias("n"))
        return counts.selectExpr("key", "CAST(n AS STRING) AS value")

    def start(self, frame: Any = None) -> Any:
        self.engine.session.conf.set("spark.sql.shuffle.partitions", str(PARTITIONS))
        wanted = frame if frame is not None else self.frame()
        self._job = epochs_job.start(self.plan, wanted, str(self.checkpoint))
        return self._job

    def send(self, count: int) -> None:
        producer = Producer({"bootstrap.servers": self.plan.bootstrap})
        for number in range(count):
            producer.produce(self.plan.topics[0], b"v", f"k{number % 5}")
            self.sent[f"k{number % 5}"] += 1
        assert producer.flush(30) == 0

    def wait_counts(self) -> None:
        """Wait until the last update of each key is its number of records."""
        eventually(lambda: self.counts() == self.sent, self._job)

    def counts(self) -> Counter[str]:
        return Counter({key: values[-1] for key, values in self.updates().items()})

    def updates(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for message in read_committed(self.plan.bootstrap, self.plan.target_topic or ""):
            found.setdefault(message.key().decode(), []).append(int(message.value()))
        return found

    def run(self, count: int) -> None:
        """Send records, run until they are counted, and stop."""
        self.send(count)
        self.start()
        self.wait_counts()
        self.stop()

    def stop(self) -> None:
        if self._job is not None:
            self._job.stop()

    def expire_offsets(self) -> None:
        """Remove the group, as Kafka does when its offsets have expired."""
        self.admin.delete_consumer_groups([self.plan.group_id])[self.plan.group_id].result(30)

    def refusal(self) -> str:
        with pytest.raises(JobStartError) as caught:
            self.start()
        assert caught.value.failure.is_permanent
        return caught.value.failure.message


@pytest.fixture
def job(engine: Any, bootstrap: str, topics: Any, unique: Any, tmp_path: Path) -> Any:
    name = unique("counts")
    plan = JobPlan(
        name,
        1,
        JobKind.COPY,
        bootstrap,
        group_id=name,
        transactional_id=name,
        topics=(topics.create("source", partitions=2),),
        target_topic=topics.create("target", partitions=1),
    )
    found = CountJob(engine, plan, tmp_path / "checkpoint")
    yield found
    found.stop()


def test_expired_markers_are_found_in_the_epochs_topic(job: CountJob) -> None:
    job.run(100)
    job.expire_offsets()
    job.run(50)
    job.expire_offsets()  # while epochs are waited for, too
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
    assert "not the one that wrote epoch" in job.refusal()
    shutil.rmtree(job.checkpoint)
    assert "not the one that wrote epoch" in job.refusal()
    job.expire_offsets()
    assert "not the one that wrote epoch" in job.refusal()


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
    epochs_removal.forget(job.plan.name, job.plan.group_id, properties, str(job.checkpoint))
    job.run(30)
    assert job.counts() == job.sent


def test_repartition_without_columns_is_refused(job: CountJob) -> None:
    """Rows would be dealt out differently when an epoch is repeated, and some be lost."""
    from pyspark.sql import functions

    with pytest.raises(JobStartError, match="name the columns"):
        job.start(job.frame().repartition(3))
    with pytest.raises(JobStartError, match="rand"):
        job.start(job.frame().repartition(3, functions.rand()))
    job.send(10)
    job.start(job.frame().repartition(PARTITIONS, "key"))
    job.wait_counts()


def test_new_version_of_a_job_continues_with_its_state(job: CountJob) -> None:
    """Rows may be filtered and outputs be formed otherwise; the state must keep its columns."""
    from pyspark.sql import functions

    job.run(100)
    job.plan = attrs.evolve(job.plan, generation=2)
    job.start(job.frame().selectExpr("key", "CAST(CAST(value AS LONG) AS STRING) AS value"))
    job.send(50)
    job.wait_counts()
    job.stop()
    job.send(10)
    sums = job.rows().groupBy("key").agg(functions.max("timestamp").alias("newest"))
    failure = failure_of(job.start(sums.selectExpr("key", "CAST(newest AS STRING) AS value")))
    assert failure.is_permanent, f"{failure}\n{failure.trace}"
    assert "barnabas job rebuild" in failure.message
    assert job.counts().total() == 150, "the refused version has written"


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
