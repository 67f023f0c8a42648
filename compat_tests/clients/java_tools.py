"""Kafka's Java tools that check a cluster: verifiable clients, transactional copiers, transactions.

Each scenario takes the cluster's bootstrap addresses and a number of records, and raises
AssertionError when the tools or the partitions show anything else than they must.
"""

import itertools
import json
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.testing.eventually import wait_until
from barnabas.testing.known_brokers import wait_until_topic_known
from compat_tests import jars
from compat_tests.clients.outcomes import Outcome, Result

Scenario = Callable[[str, int], None]

_TOOLS = "org.apache.kafka.tools"
_TOOL_TIMEOUT_S = 300.0
_ENDED = ("Empty", "CompleteAbort")
_numbers = itertools.count(1)


def _unique(prefix: str) -> str:
    return f"{prefix}-{os.getpid():x}-{next(_numbers)}"


def _create(bootstrap: str, prefix: str, partitions: int) -> str:
    """Create a topic with three replicas; return its name."""
    topic = _unique(prefix)
    new = NewTopic(topic, partitions, 3, config={"min.insync.replicas": "2"})
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([new])[topic].result(30)
    wait_until_topic_known(bootstrap.split(","), topic)
    return topic


def _events(tool: str, *arguments: str) -> list[dict[str, Any]]:
    """Run a tool that prints JSON; return its objects."""
    done = jars.java(f"{_TOOLS}.{tool}", *arguments, timeout_s=_TOOL_TIMEOUT_S)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def _produce(bootstrap: str, topic: str, records: int) -> list[tuple[int, int, str]]:
    """Run VerifiableProducer; return partition, offset and value of each acknowledged record."""
    limits = ["--max-messages", str(records), "--acks", "-1"]
    events = _events(
        "VerifiableProducer", "--bootstrap-server", bootstrap, "--topic", topic, *limits
    )
    refused = [each for each in events if each["name"] == "producer_send_error"]
    assert not refused, refused[:3]
    acked = [each for each in events if each["name"] == "producer_send_success"]
    assert len(acked) == records, f"{len(acked)} of {records} records were acknowledged"
    return sorted((each["partition"], each["offset"], each["value"]) for each in acked)


def _consume(bootstrap: str, topic: str, records: int, *options: str) -> list[tuple[int, int, str]]:
    """Run VerifiableConsumer; return partition, offset and value of each record."""
    limits = ["--max-messages", str(records), "--group-id", _unique("verifiable"), "--verbose"]
    events = _events(
        "VerifiableConsumer", "--bootstrap-server", bootstrap, "--topic", topic, *limits, *options
    )
    failed = [each for each in events if each.get("success") is False]
    assert not failed, failed[:3]
    read = [each for each in events if each["name"] == "record_data"]
    return sorted((each["partition"], each["offset"], each["value"]) for each in read)


def read_committed(bootstrap: str, topic: str) -> list[str]:
    """Return the committed values of a topic up to its last stable offsets."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    values: list[str] = []
    try:
        partitions = consumer.list_topics(topic, 30).topics[topic].partitions
        consumer.assign([TopicPartition(topic, each, 0) for each in partitions])
        ended: set[int] = set()
        deadline = time.monotonic() + _TOOL_TIMEOUT_S
        while len(ended) < len(partitions) and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is not None and (error := message.error()) is None:
                values.append(message.value().decode())
            elif message is not None and error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
        assert len(ended) == len(partitions), f"only {ended} of {topic} were read to their ends"
    finally:
        consumer.close()
    return sorted(values)


def verifiable_consumer_reads_what_the_producer_acked(bootstrap: str, records: int) -> None:
    topic = _create(bootstrap, "verified", 3)
    acked = _produce(bootstrap, topic, records)
    with ThreadPoolExecutor() as pool:
        classic = pool.submit(_consume, bootstrap, topic, records)
        options = ("--group-protocol", "consumer")
        consumer = pool.submit(_consume, bootstrap, topic, records, *options)
        assert classic.result() == acked
        assert consumer.result() == acked


def _copy(bootstrap: str, source: str, target: str, group: str, *options: str) -> None:
    names = ["--input-topic", source, "--output-topic", target, "--consumer-group", group]
    sizes = ["--transaction-size", "50", "--transactional-id", _unique("copier")]
    arguments = ["--broker-list", bootstrap, *names, *sizes, "--enable-random-aborts", *options]
    jars.java(f"{_TOOLS}.TransactionalMessageCopier", *arguments, timeout_s=_TOOL_TIMEOUT_S)


def _check_copy(bootstrap: str, source: str, target: str, group: str, records: int) -> None:
    """Check the target, and that the group's offsets are those of the ends of the source."""
    wanted = sorted(str(each) for each in range(records))
    wait_until(lambda: len(read_committed(bootstrap, target)) >= records, 60)
    assert read_committed(bootstrap, target) == wanted
    admin = AdminClient({"bootstrap.servers": bootstrap})
    request = [ConsumerGroupTopicPartitions(group)]
    committed = admin.list_consumer_group_offsets(request)[group].result(30).topic_partitions
    assert sum(each.offset for each in committed if each.topic == source) == records


def copiers_of_single_partitions_copy_exactly_once(bootstrap: str, records: int) -> None:
    source, target = _create(bootstrap, "source", 2), _create(bootstrap, "target", 2)
    _produce(bootstrap, source, records)
    group = _unique("copiers")
    with ThreadPoolExecutor() as pool:
        copies = [
            pool.submit(_copy, bootstrap, source, target, group, "--input-partition", str(each))
            for each in range(2)
        ]
        for copy in copies:
            copy.result()
    _check_copy(bootstrap, source, target, group, records)


def copier_of_a_group_copies_exactly_once(bootstrap: str, records: int) -> None:
    source, target = _create(bootstrap, "source", 2), _create(bootstrap, "target", 2)
    _produce(bootstrap, source, records)
    group = _unique("copiers")
    mode = ["--input-partition", "-1", "--group-mode", "--use-group-metadata"]
    _copy(bootstrap, source, target, group, *mode, "--max-messages", str(records))
    _check_copy(bootstrap, source, target, group, records)


def open_transaction_is_described_and_terminated(bootstrap: str, records: int) -> None:
    """`kafka-transactions` shows a transaction that spans all nodes, and ends it."""
    topic, name = _create(bootstrap, "open", 3), _unique("open")
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(records):
        producer.produce(topic, str(number), partition=number % 3)
        producer.poll(0)
    assert producer.flush(60) == 0

    def transactions(*arguments: str) -> str:
        tool = f"{_TOOLS}.TransactionsCommand"
        return jars.java(tool, "--bootstrap-server", bootstrap, *arguments).stdout

    listed = transactions("list")
    assert _state_of(name, listed) == "Ongoing", f"{name} in:\n{listed}"
    described = transactions("describe", "--transactional-id", name)
    assert all(f"{topic}-{each}" in described for each in range(3)), described
    where = ["--topic", topic, "--partition", "1"]
    brokers = [["--broker-id", each] for each in "123"]
    for broker in ([], *brokers):  # the leader, then each replica: followers know them, too
        found = transactions("describe-producers", *where, *broker)
        assert len(found.splitlines()) == 2, f"{broker}:\n{found}"
    transactions("find-hanging", *brokers[1])
    transactions("forceTerminateTransaction", "--transactionalId", name)
    wait_until(lambda: _state_of(name, transactions("list")) in _ENDED, 60)
    assert read_committed(bootstrap, topic) == []
    with pytest.raises(KafkaException) as refused:
        producer.commit_transaction(30)
    assert refused.value.args[0].fatal(), refused.value


def _state_of(transactional_id: str, listed: str) -> str:
    """Return the state of a transactional id in the table of `kafka-transactions list`."""
    rows = [line.split() for line in listed.splitlines()]
    return next((row[-1] for row in rows if row and row[0] == transactional_id), "")


SCENARIOS: Sequence[Scenario] = (
    verifiable_consumer_reads_what_the_producer_acked,
    copiers_of_single_partitions_copy_exactly_once,
    copier_of_a_group_copies_exactly_once,
    open_transaction_is_described_and_terminated,
)


def run(bootstrap: str, records: int) -> list[Outcome]:
    """Run all scenarios, one after the other."""
    return [_outcome(each, bootstrap, records) for each in SCENARIOS]


def _outcome(scenario: Scenario, bootstrap: str, records: int) -> Outcome:
    started = time.monotonic()
    text = ""
    try:
        scenario(bootstrap, records)
    except (
        AssertionError,
        pytest.fail.Exception,
        KafkaException,
        TimeoutError,
        subprocess.TimeoutExpired,
    ) as failure:
        text = f"{type(failure).__name__}: {failure}"
    result = Result.FAILED if text else Result.PASSED
    return Outcome(scenario.__name__, result, time.monotonic() - started, text)
