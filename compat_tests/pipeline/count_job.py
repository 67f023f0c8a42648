"""A job with state for tests: it counts the records of each key."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from barnabas.pipeline.delivery.micro_batches import micro_batch_job
from barnabas.pipeline.delivery.micro_batches.checkpoint_files import CheckpointFiles
from barnabas.pipeline.delivery.plan.job_plan import JobKind, JobPlan
from barnabas.pipeline.delivery.plan.task_failures import JobStartError
from compat_tests.pipeline.conftest import eventually
from compat_tests.pipeline.killed_job import read_committed

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
        self._job = micro_batch_job.start(self.plan, wanted, str(self.checkpoint))
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
        self.wait_epoch()
        self.stop()

    def wait_epoch(self) -> None:
        """Wait until all tasks of the newest micro-batch have ended."""
        files = CheckpointFiles(str(self.checkpoint))
        eventually(lambda: files.is_committed(files.newest_batch()), self._job)

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


def count_job(engine: Any, bootstrap: str, topics: Any, name: str, checkpoint: Path) -> CountJob:
    """Return a job between two new topics."""
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
    return CountJob(engine, plan, checkpoint)
