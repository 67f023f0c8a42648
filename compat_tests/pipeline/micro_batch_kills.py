"""Kill cycles of a job with state: counts by key, written one micro-batch after the other."""

from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from compat_tests.pipeline.forward_kills import ForwardJob, forward_plan
from compat_tests.pipeline.killed_job import (
    KEYS,
    DriverProcess,
    Load,
    create_topics,
    read_committed,
    wait_until,
)
from compat_tests.servers import ServerProcess

SHUFFLE_PARTITIONS = 3


def start_counts(engine: Any, settings: dict[str, Any]) -> Any:
    """Start the query that counts the records of each key."""
    from pyspark.sql import functions

    from barnabas.pipeline.delivery.micro_batches import micro_batch_job
    from barnabas.pipeline.delivery.plan.job_plan import JobKind, JobPlan

    fields = {**settings["plan"], "kind": JobKind.COPY, "topics": tuple(settings["plan"]["topics"])}
    plan = JobPlan(**fields)
    rows = (
        engine.session.readStream.format("kafka")
        .option("kafka.bootstrap.servers", plan.bootstrap)
        .option("kafka.fetch.max.wait.ms", "20")
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", plan.topics[0])
        .option("startingOffsets", "earliest")
        .load()
    )
    counts = rows.groupBy("key").agg(functions.count("*").alias("n"))
    frame = counts.selectExpr("key", "CAST(n AS STRING) AS value")
    return micro_batch_job.start(plan, frame, settings["checkpoint"])


class CountingJob(ForwardJob):
    """A job with state under load, with the cycles of a forward job."""

    def __init__(self, server: ServerProcess, directory: Path, name: str) -> None:
        self.server = server
        self.name = name
        self.source, self.target = f"{name}-source", f"{name}-target"
        self.checkpoint = directory / "checkpoint"
        create_topics(server.bootstrap, [self.source, self.target])
        settings = {
            "plan": forward_plan(server.bootstrap, name),
            "start": "compat_tests.pipeline.micro_batch_kills:start_counts",
            "checkpoint": str(self.checkpoint),
            "spark": {"spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS)},
        }
        self.driver = DriverProcess(directory, settings)
        self.load = Load(server.bootstrap, self.source)
        self.driver.start()
        self.driver.wait_for_progress()

    def cycles(self) -> list[Callable[[], object]]:
        """Return everything that a soak may do to the job."""
        return [*super().cycles(), self.lose_commit_log, self.expire_markers]

    def expire_markers(self) -> None:
        """Remove the offsets of the group, as Kafka does when they have expired."""
        self.driver.kill()
        admin = AdminClient({"bootstrap.servers": self.server.bootstrap})
        wait_until(lambda: self._removed(admin), "end of the group", self.driver)
        self.driver.start()
        self.driver.wait_for_progress()

    def _removed(self, admin: AdminClient) -> bool:
        """Remove the group; that is refused while a transaction has offsets of it."""
        try:
            admin.delete_consumer_groups([self.name])[self.name].result(30)
        except KafkaException as error:
            return bool(error.args[0].name() == "GROUP_ID_NOT_FOUND")
        return True

    def lose_commit_log(self) -> None:
        """Repeat a micro-batch that is whole in the topic."""
        self.driver.lose_newest_commit(self.checkpoint)

    def check(self) -> int:
        """Stop the load, wait for the final counts, check that no update came twice."""
        sent = self.load.end()
        expected = Counter(f"k{number % KEYS}".encode() for number in range(sent))
        updates: dict[bytes, list[int]] = {}

        def is_final() -> bool:
            updates.clear()
            updates.update(self._updates())
            return {key: max(counts) for key, counts in updates.items()} == expected

        wait_until(is_final, f"final counts ({sent} records)", self.driver)
        self.driver.kill()
        for key, counts in self._updates().items():
            assert counts == sorted(set(counts)), f"updates of {key!r} are repeated: {counts}"
            assert counts[-1] == expected[key]
        return sent

    def _updates(self) -> dict[bytes, list[int]]:
        found: dict[bytes, list[int]] = defaultdict(list)
        for message in read_committed(self.server.bootstrap, self.target):
            found[message.key()].append(int(message.value()))
        return found
