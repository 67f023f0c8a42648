"""Outcomes of forward jobs on good and on bad input."""

import contextlib
import time
from pathlib import Path
from typing import Any

import attrs
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import NewPartitions

from barnabas.pipeline.delivery.forward import forward_job
from barnabas.pipeline.delivery.plan.job_plan import (
    Guarantee,
    JobKind,
    JobPlan,
    OnTrim,
    RecordPosition,
)
from barnabas.pipeline.delivery.plan.offset_ranges import OffsetRange, to_read
from barnabas.pipeline.delivery.plan.task_failures import JobStartError
from compat_tests import spark as setup
from compat_tests.pipeline.conftest import eventually, failure_of
from compat_tests.pipeline.killed_job import read_committed

pytestmark = [
    setup.needed,
    pytest.mark.timeout(600),
]

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"
AS_BYTES = {"key.converter": BYTES, "value.converter": BYTES}
AS_JSON = {
    "key.converter": BYTES,
    "value.converter": JSON,
    "value.converter.schemas.enable": "false",
}


@pytest.fixture
def plan(bootstrap, topics, unique) -> JobPlan:
    name = unique("outcome")
    source = topics.create("source", partitions=2)
    target = topics.create("target", partitions=2)
    return JobPlan(
        name,
        1,
        JobKind.COPY,
        bootstrap,
        group_id=name,
        transactional_id=name,
        topics=(source,),
        target_topic=target,
        properties=AS_BYTES,
    )


@pytest.fixture
def start(engine) -> Any:
    started = []

    def run(plan: JobPlan) -> Any:
        started.append(engine.start_job(plan))
        return started[-1]

    yield run
    for job in started:
        job.stop(10)


def produce(plan: JobPlan, values: list[bytes | None], **extra: Any) -> None:
    producer = Producer({"bootstrap.servers": plan.bootstrap})
    for value in values:
        producer.produce(plan.topics[0], value=value, **extra)
    assert producer.flush(30) == 0


def copied(plan: JobPlan, job: Any, count: int) -> list[Any]:
    eventually(lambda: job.progress().written >= count, job)
    return read_committed(plan.bootstrap, plan.target_topic or "")


def numbers(first: int, last: int) -> list[bytes | None]:
    return [str(number).encode() for number in range(first, last)]


def test_forward_job_keeps_keys_tombstones_headers_and_timestamps(plan, start) -> None:
    headers = [("a", b"1"), ("a", b"2"), ("none", None)]
    produce(plan, [b"v", None], key=b"k", headers=headers, timestamp=1_700_000_000_123)
    produce(plan, [b"plain"])
    job = start(plan)
    messages = copied(plan, job, 3)
    assert [(m.key(), m.value()) for m in messages if m.key()] == [(b"k", b"v"), (b"k", None)]
    assert all(m.headers() == headers for m in messages if m.key())
    assert all(m.timestamp()[1] == 1_700_000_000_123 for m in messages if m.key())
    progress = job.progress()
    assert (progress.records, progress.written, progress.dead_letters) == (3, 3, 0)
    assert progress.transactions >= 1
    assert {(at.partition, at.lag) for at in progress.lag} == {(0, 0), (1, 0)}


def test_forward_job_restarted_continues_at_the_groups_offsets(plan, start) -> None:
    produce(plan, numbers(0, 50))
    job = start(plan)
    copied(plan, job, 50)
    job.stop()
    assert not job.is_running()
    produce(plan, numbers(50, 80))
    again = start(attrs.evolve(plan, generation=2))
    messages = copied(plan, again, 30)
    assert sorted(int(m.value()) for m in messages) == list(range(80))
    assert again.progress().skipped == 0


def test_forward_job_takes_up_partitions_that_are_added(plan, start, admin) -> None:
    produce(plan, numbers(0, 10))
    job = start(plan)
    copied(plan, job, 10)
    admin.create_partitions([NewPartitions(plan.topics[0], 3)])[plan.topics[0]].result(30)
    eventually(
        lambda: len(admin.list_topics(plan.topics[0]).topics[plan.topics[0]].partitions) == 3
    )
    produce(plan, numbers(10, 20), partition=2)
    messages = copied(plan, job, 20)
    assert sorted(int(m.value()) for m in messages) == list(range(20))


def test_forward_job_with_trimmed_offsets_fails_or_skips_by_choice(plan, start, admin) -> None:
    produce(plan, numbers(0, 10), partition=0)
    job = start(plan)
    copied(plan, job, 10)
    job.stop()
    produce(plan, numbers(10, 20), partition=0)
    cut = TopicPartition(plan.topics[0], 0, 15)
    admin.delete_records([cut])[cut].result(30)
    with pytest.raises(
        JobStartError, match=f"deleted offsets 10 to 14 of {plan.topics[0]}-0"
    ) as info:
        start(plan)
    assert info.value.failure.is_permanent
    skipping = start(attrs.evolve(plan, on_trim=OnTrim.SKIP))
    messages = copied(plan, skipping, 5)
    assert skipping.progress().trimmed == 5
    assert sorted(int(m.value()) for m in messages) == [*range(10), *range(15, 20)]


def test_forward_job_of_a_recreated_topic_fails(plan, start, admin) -> None:
    produce(plan, numbers(0, 10))
    job = start(plan)
    copied(plan, job, 10)
    topic_ids = job.progress().topic_ids
    admin.delete_topics([plan.topics[0]])[plan.topics[0]].result(30)
    failure = failure_of(job)
    assert failure.is_permanent
    assert "deleted" in failure.message or "recreated" in failure.message
    from confluent_kafka.admin import NewTopic

    eventually(lambda: plan.topics[0] not in admin.list_topics().topics)
    admin.create_topics([NewTopic(plan.topics[0], 2, 1)])[plan.topics[0]].result(30)
    with pytest.raises(JobStartError, match="was recreated"):
        start(attrs.evolve(plan, topic_ids=topic_ids))


def test_forward_job_of_a_missing_topic_is_refused_for_now(plan, start) -> None:
    with pytest.raises(JobStartError, match="topic absent does not exist") as info:
        start(attrs.evolve(plan, topics=("absent",)))
    assert not info.value.failure.is_permanent


def test_forward_job_with_undecodable_record_fails_and_names_it(plan, start) -> None:
    produce(plan, [b'{"a":1}', b"{bad", b'{"a":2}'], partition=1)
    job = start(attrs.evolve(plan, properties=AS_JSON))
    failure = failure_of(job)
    assert failure.is_permanent
    assert failure.record == RecordPosition(plan.topics[0], 1, 1)
    assert failure.stage == "VALUE_CONVERTER"
    assert f"{plan.topics[0]}-1@1" in failure.message
    assert read_committed(plan.bootstrap, plan.target_topic or "") == []


def test_forward_job_that_tolerates_failures_writes_dead_letters(plan, start, topics) -> None:
    letters = topics.create("letters")
    produce(plan, [b'{"a":1}', b"{bad", b'{"a":2}'], partition=1, key=b"k")
    properties = {
        **AS_JSON,
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": letters,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    job = start(attrs.evolve(plan, properties=properties))
    messages = copied(plan, job, 2)
    assert sorted(m.value() for m in messages) == [b'{"a":1}', b'{"a":2}']
    assert job.progress().dead_letters == 1
    (letter,) = read_committed(plan.bootstrap, letters)
    assert (letter.key(), letter.value()) == (b"k", b"{bad")
    headers = dict(letter.headers())
    assert headers["__connect.errors.offset"] == b"1"
    assert headers["__connect.errors.stage"] == b"VALUE_CONVERTER"


def test_forward_job_with_record_above_the_targets_limit_fails(plan, start, topics) -> None:
    small = topics.create("small", config={"max.message.bytes": "2000"})
    produce(plan, [b"x" * 100, b"y" * 5000], partition=0)
    job = start(attrs.evolve(plan, target_topic=small))
    failure = failure_of(job)
    assert failure.is_permanent
    assert failure.record == RecordPosition(plan.topics[0], 0, 1)


@pytest.mark.parametrize("properties", [AS_BYTES, AS_JSON], ids=["bytes", "json"])
def test_at_least_once_job_copies_and_commits_the_groups_offsets(plan, start, properties) -> None:
    plan = attrs.evolve(plan, guarantee=Guarantee.AT_LEAST_ONCE, properties=properties)
    times = {"timestamp": 1_700_000_000_123}
    produce(plan, numbers(0, 40), key=b"k", headers=[("a", b"1")], **times)
    job = start(plan)
    messages = copied(plan, job, 40)
    assert all(m.timestamp()[1] == 1_700_000_000_123 for m in messages)
    assert all(m.headers() == [("a", b"1")] for m in messages)
    assert sorted(int(m.value()) for m in messages) == list(range(40))
    job.stop()
    produce(plan, numbers(40, 50))
    again = start(plan)
    messages = copied(plan, again, 10)
    assert sorted(int(m.value()) for m in messages) == list(range(50))


def test_at_least_once_job_counts_dead_letters_and_what_it_has_written(plan, start, topics) -> None:
    letters = topics.create("letters")
    tolerant = {
        **AS_JSON,
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": letters,
        "errors.deadletterqueue.topic.replication.factor": "1",
    }
    plan = attrs.evolve(plan, guarantee=Guarantee.AT_LEAST_ONCE, properties=tolerant)
    produce(plan, [b"1", b"{", b"2"], partition=0)
    job = start(plan)
    assert sorted(m.value() for m in copied(plan, job, 2)) == [b"1", b"2"]
    progress = job.progress()
    assert (progress.records, progress.written, progress.dead_letters) == (3, 2, 1)
    assert [m.value() for m in read_committed(plan.bootstrap, letters)] == [b"{"]


def test_check_finds_ranges_that_begin_after_the_position(plan, start, monkeypatch) -> None:
    """The check can fail: the second half of a range commits its end."""

    def second_halves(*given: Any) -> list[OffsetRange]:
        return [attrs.evolve(each, start=(each.start + each.end) // 2) for each in to_read(*given)]

    monkeypatch.setattr(forward_job, "to_read", second_halves)
    produce(plan, numbers(0, 4000), partition=0)
    job = start(plan)
    eventually(lambda: job.progress().batches > 0, job)
    values = {int(message.value()) for message in read_committed(plan.bootstrap, plan.target_topic)}
    assert values == set(range(2000, 4000))


@pytest.fixture
def trimmed(plan, start, admin) -> Any:
    """Return a function that runs a slow job, and deletes most of its records before it read them.

    The records are more than a worker fetches ahead.
    """

    def run(on_trim: OnTrim) -> Any:
        produce(plan, [value.ljust(50_000) for value in numbers(0, 400)], partition=0)
        job = start(attrs.evolve(plan, on_trim=on_trim, records_per_second_max=50))
        eventually(lambda: job.progress().records > 0, job)
        cut = TopicPartition(plan.topics[0], 0, 390)
        admin.delete_records([cut])[cut].result(30)
        return job

    return run


def test_forward_job_skips_what_retention_deletes_while_it_runs(plan, trimmed) -> None:
    """It counts what it did not copy."""
    job = trimmed(OnTrim.SKIP)
    eventually(lambda: not sum(each.lag for each in job.progress().lag), job)
    messages = read_committed(plan.bootstrap, plan.target_topic)
    found = sorted(int(m.value()) for m in messages)
    assert found[-10:] == [*range(390, 400)]
    assert job.progress().trimmed == 400 - len({*found})
    assert job.progress().trimmed > 0
    assert len({*found}) == len(found)


def test_forward_job_fails_when_retention_deletes_records_while_it_runs(plan, trimmed) -> None:
    failure = failure_of(trimmed(OnTrim.FAIL))
    assert failure.is_permanent
    assert f"to 389 of {plan.topics[0]}-0" in failure.message


def test_forward_job_with_a_largest_rate_keeps_it(plan, start) -> None:
    produce(plan, numbers(0, 600))
    began = time.monotonic()
    job = start(attrs.evolve(plan, records_per_second_max=200))
    copied(plan, job, 600)
    assert time.monotonic() - began > 2.5


@pytest.mark.parametrize("file", ["", "absent/out"])
def test_file_sink_whose_file_cannot_be_written_fails_for_good(plan, start, tmp_path, file) -> None:
    connector = "org.apache.kafka.connect.file.FileStreamSinkConnector"
    config = {**AS_BYTES, "file": str(tmp_path / file)}
    produce(plan, numbers(0, 1))
    job = start(
        attrs.evolve(
            plan,
            kind=JobKind.SINK,
            connector_class=connector,
            target_topic=None,
            properties=config,
            task_configs=(config,),
        )
    )
    failure = failure_of(job)
    assert failure.is_permanent
    assert failure.message.startswith(f"cannot write file={tmp_path / file}: ")


def test_job_in_its_own_application_runs_fails_and_ends_there(plan, start, engine) -> None:
    produce(plan, numbers(0, 20), partition=0)
    own = attrs.evolve(plan, is_isolated=True, spark_properties={"spark.driver.memory": "512m"})
    job = start(own)
    messages = copied(plan, job, 20)
    assert sorted(int(message.value()) for message in messages) == list(range(20))
    jvms = [path for path in commands(b"-Xmx512m") if plan.name.encode() in path]
    assert len(jvms) == 1
    job.stop()
    assert commands(plan.name.encode()) == []
    produce(plan, [b"{bad"], partition=1)  # after the stop: the first job would copy it as it is
    failing = start(attrs.evolve(own, generation=2, properties=AS_JSON))
    failure = failure_of(failing)
    assert failure.is_permanent
    assert failure.record == RecordPosition(plan.topics[0], 1, 0)
    with pytest.raises(JobStartError, match="topic absent does not exist"):
        start(attrs.evolve(own, generation=3, topics=("absent",)))


def commands(text: bytes) -> list[bytes]:
    """Return the command lines of running JVMs that have a text."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = file.read_bytes()
            if b"java" in line.split(b"\0")[0] and text in line:
                found.append(line)
    return found


def test_forward_job_reads_committed_records_only(plan, start) -> None:
    producer = Producer({"bootstrap.servers": plan.bootstrap, "transactional.id": plan.name + "-p"})
    producer.init_transactions(30)
    for number in range(4):
        producer.begin_transaction()
        producer.produce(plan.topics[0], value=str(number).encode(), partition=0)
        producer.flush(30)
        if number % 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    job = start(plan)
    messages = copied(plan, job, 2)
    assert sorted(m.value() for m in messages) == [b"0", b"2"]
