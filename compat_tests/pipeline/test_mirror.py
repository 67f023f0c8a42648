"""Flows between clusters: what is at the target equals what is at the source."""

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from barnabas.pipeline.delivery.plan.job_plan import JobKind, JobPlan
from barnabas.pipeline.delivery.plan.task_failures import JobStartError
from compat_tests import jars
from compat_tests import spark as setup
from compat_tests.pipeline.conftest import eventually
from compat_tests.pipeline.mirror_records import (
    commit,
    committed,
    configs,
    contents,
    create,
    ends,
    fill,
    is_caught_up,
    latest,
    records,
)
from compat_tests.pipeline.spark_cluster import SparkCluster
from compat_tests.pipeline.test_spark_cluster import EXECUTORS
from compat_tests.servers import KINDS, ServerProcess

pytestmark = [setup.needed, pytest.mark.timeout(300)]

FAST_CLEANER = {"log.cleaner.backoff.ms": "100"}
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.01",
}


@pytest.fixture(scope="module", params=["barnabas", "kafka"])
def source(request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    if request.param == "kafka" and (reason := jars.missing()):
        pytest.skip(reason)
    process = KINDS[request.param](FAST_CLEANER)
    try:
        process.start()
        yield process
    finally:
        process.close()


@pytest.fixture(scope="module")
def target(request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    process = KINDS[getattr(request, "param", "barnabas")]()
    try:
        process.start()
        yield process
    finally:
        process.close()


@pytest.fixture
def start(
    engine: Any, source: ServerProcess, target: ServerProcess
) -> Iterator[Callable[..., Any]]:
    started: list[Any] = []

    def run(flow: str, *topics: str, **properties: str) -> Any:
        plan = JobPlan(
            flow,
            1,
            JobKind.MIRROR,
            target.bootstrap,
            group_id=f"mirror-{flow}",
            transactional_id=f"mirror-{flow}",
            topics=topics,
            properties={
                "name": flow,
                "source.bootstrap.servers": source.bootstrap,
                **properties,
            },
        )
        started.append(engine.start_job(plan))
        return started[-1]

    yield run
    for job in started:
        job.stop(10)


def compact(server: ServerProcess, topic: str, count: int) -> None:
    """Return when the log has fewer records than were written."""
    producer = Producer({"bootstrap.servers": server.bootstrap})

    def is_compacted() -> bool:
        # A new segment makes the one before a part of what the cleaner reads.
        producer.produce(topic, b"last", b"last", 0)
        producer.flush(30)
        return len(records(server, topic, 0)) < count

    eventually(is_compacted)


def prepared(source: ServerProcess, unique: Callable[[str], str]) -> tuple[str, str]:
    """Create topics with committed and aborted transactions, one of them compacted."""
    plain, compacted = unique("plain"), unique("compacted")
    create(source, plain, 2, max_message_bytes="2000000")
    create(source, compacted, 1, **{name.replace(".", "_"): v for name, v in COMPACTED.items()})
    fill(source, plain, 300, 2)
    fill(source, compacted, 300, 1)
    compact(source, compacted, 150)
    return plain, compacted


def test_committed_records_are_equal_at_a_target_that_assigns_offsets(
    source, target, start, unique
) -> None:
    plain, compacted = prepared(source, unique)
    job = start(unique("flow"), plain, compacted, offsets="assigned")
    eventually(lambda: is_caught_up(job), job)
    fill(source, plain, 60, 2)  # the running flow continues
    expected = contents(source, plain, 2)
    eventually(lambda: contents(target, plain, 2) == expected, job)
    assert sum(map(len, expected)) == 240

    [expected] = contents(source, compacted, 1)
    assert len(expected) < 150
    eventually(lambda: latest(contents(target, compacted, 1)[0]) == latest(expected), job)


@pytest.mark.skipif(jars.missing() is not None, reason=str(jars.missing()))
@pytest.mark.parametrize("source", ["barnabas"], indirect=True)
@pytest.mark.parametrize("target", ["kafka"], indirect=True)
def test_committed_records_are_equal_at_apache_kafka(source, target, start, unique) -> None:
    """A flow with identical offsets is refused there, with the alternative."""
    topic = unique("leaving")
    create(source, topic, 2)
    fill(source, topic, 60, 2)
    with pytest.raises(JobStartError) as refused:
        start(unique("flow"), topic)
    assert "set offsets=assigned, or choose barnabas" in refused.value.failure.message
    job = start(unique("flow"), topic, offsets="assigned")
    expected = contents(source, topic, 2)
    eventually(lambda: has_data(target, topic), job)
    eventually(lambda: contents(target, topic, 2) == expected, job)


def test_offsets_groups_and_properties_are_equal_at_a_mirror(source, target, start, unique) -> None:
    plain, compacted = prepared(source, unique)
    group = unique("group")
    commit(source, group, TopicPartition(plain, 0, 17, metadata="noted"))
    job = start(unique("flow"), plain, compacted)
    fill(source, plain, 60, 2)
    for number in range(2):
        expected = records(source, plain, number)
        eventually(lambda: records(target, plain, number) == expected, job)  # noqa: B023
        assert ends(target, plain, number) == ends(source, plain, number)
    expected = latest(records(source, compacted, 0))
    eventually(lambda: latest(records(target, compacted, 0)) == expected, job)
    assert ends(target, compacted, 0) == ends(source, compacted, 0)
    eventually(lambda: committed(target, group, plain) == (17, "noted"), job)
    assert configs(target, plain)["max.message.bytes"] == "2000000"


PAGE = jars.ROOT / "docs" / "mirror.md"


def page_command(start: str, **replaced: str) -> list[str]:
    """Return a command of the page, with other addresses."""
    lines = re.findall(r"^\$ barnabas (.*)$", PAGE.read_text(), re.MULTILINE)
    line = next(line for line in lines if line.startswith(start) and "--runner" not in line)
    line = line.replace("127.0.0.1:9092", replaced["source"])
    line = line.replace("127.0.0.1:9094", replaced["target"])
    return [
        sys.executable,
        "-m",
        "barnabas",
        *shlex.split(line),
        *shlex.split(replaced.get("more", "")),
    ]


def write_numbers(server: ServerProcess, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": server.bootstrap, "compression.type": "lz4"})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=number % 2)
        producer.poll(0)
    assert producer.flush(60) == 0


@pytest.mark.parametrize("source", ["barnabas"], indirect=True)
def test_flow_of_the_page_that_is_killed_repeats_and_loses_no_record(
    source, target, start, unique, tmp_path
) -> None:
    """The command is killed while its first transactions are open; a job continues."""
    topic = unique("orders")
    create(source, topic, 2)
    write_numbers(source, topic, 100_000)
    addresses = {"source": source.bootstrap, "target": target.bootstrap}
    flow = unique("flow")
    more = f"--offsets assigned --topics {topic} --yes"
    plan = page_command("mirror create", **addresses, more=f"--topics {topic} --offsets assigned")
    shown = subprocess.run(
        plan, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=True
    )
    assert f"{topic}  2           100000" in shown.stdout
    assert "nothing was started" in shown.stdout
    command = page_command("mirror create", **addresses, more=more)
    command[command.index("eu-to-us")] = flow
    output = tmp_path / "flow.log"
    with output.open("wb") as log:
        process = subprocess.Popen(command, env=setup.environment(), stdout=log, stderr=log)
    try:
        eventually(lambda: has_data(target, topic) or process.poll() is not None)
        assert process.poll() is None, output.read_text()
    finally:
        process.kill()
        process.wait()
    job = start(flow, topic, offsets="assigned")
    eventually(lambda: is_caught_up(job), job)
    found = [int(each[2]) for number in range(2) for each in records(target, topic, number)]
    assert sorted(found) == list(range(100_000))


def has_data(server: ServerProcess, topic: str) -> bool:
    """True when a partition has records, committed or not."""
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    if topic not in admin.list_topics(timeout=30).topics:
        return False
    return any(ends(server, topic, number)[1] > 0 for number in range(2))


@setup.long
@pytest.mark.parametrize("source", ["barnabas"], indirect=True)
def test_flow_runs_on_a_cluster_of_spark_without_packages(source, target, unique, tmp_path) -> None:
    """The hosts of the cluster have their own folders, and get barnabas from the driver."""
    topic = unique("spread")
    create(source, topic, 2)
    write_numbers(source, topic, 20_000)
    cluster = SparkCluster(tmp_path / "cluster")
    spark = {**EXECUTORS, "spark.master": cluster.master}
    more = shlex.join(["--yes", "--topics", topic, *(f"--spark={k}={v}" for k, v in spark.items())])
    command = page_command(
        "mirror create", source=source.bootstrap, target=target.bootstrap, more=more
    )
    output = tmp_path / "flow.log"
    cluster.start()
    with output.open("wb") as log:
        process = subprocess.Popen(command, env=setup.environment(), stdout=log, stderr=log)
    try:
        eventually(lambda: "has caught up" in output.read_text() or process.poll() is not None)
        assert process.poll() is None, output.read_text()
        assert cluster.executors(), "an executor with the packed packages"
        assert contents(target, topic, 2) == contents(source, topic, 2)
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        cluster.stop()
    assert "flow eu-to-us stopped" in output.read_text()
