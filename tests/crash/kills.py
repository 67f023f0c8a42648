"""Kill a node with SIGKILL at random moments under load; check that acknowledged records remain.

The node has two data directories, tiny segments, and runs the cleaner, retention and checkpoints
all the time. So kills also happen during rolls, index writes, swaps, deletions and checkpoints, and
some during the recovery from an earlier kill. After some kills, all records are read and compared
with the answers that the loads received.
"""

import os
import random
import signal
import tempfile
import threading
import time
from pathlib import Path

import attrs
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from barnabas.testing.history import History, Outcome, check
from barnabas.testing.node_process_control import NodeProcess
from tests.crash.loads import (
    CLIENT,
    COMMITS_GROUP,
    LEDGER,
    PARTITIONS,
    PLAIN,
    SHORT,
    TABLE,
    Commits,
    Idempotent,
    Load,
    Reader,
    Table,
    Topics,
    Transactional,
)

SETTINGS = {
    "auto.create.topics.enable": "false",  # producers request topics that they know
    "log.flush.offset.checkpoint.interval.ms": "100",
    "log.flush.scheduler.interval.ms": "100",
    "log.retention.check.interval.ms": "150",
    "log.cleaner.backoff.ms": "20",
    "log.segment.delete.delay.ms": "50",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
}
SMALL_SEGMENTS = {
    "internal.segment.bytes": "30000",
    "index.interval.bytes": "500",
    "retention.ms": "-1",
    "flush.ms": "200",
}
TOPICS = {
    PLAIN: SMALL_SEGMENTS,
    LEDGER: SMALL_SEGMENTS,
    SHORT: {**SMALL_SEGMENTS, "internal.segment.bytes": "8000", "retention.bytes": "60000"},
    TABLE: {
        "cleanup.policy": "compact",
        "internal.segment.bytes": "20000",
        "min.cleanable.dirty.ratio": "0.05",
        "file.delete.delay.ms": "50",
    },
}
# The part of kills before the node is ready again.
_EARLY = 0.2
# The time after which a reader without records fails.
_SILENCE_S = 30.0


@attrs.define
class Result:
    """The result of a round."""

    kills: int = 0
    early_kills: int = 0
    acked: int = 0
    faults: list[str] = attrs.Factory(list[str])
    done: dict[str, int] = attrs.Factory(dict[str, int])

    def __str__(self) -> str:
        done = ", ".join(f"{what} {count}" for what, count in self.done.items())
        return (
            f"killed {self.kills} times ({self.early_kills} in recovery), "
            f"acknowledged {self.acked}: {done}"
        )


def run(*, cycles: int, seed: int = 0) -> Result:
    """Kill a node `cycles` times; the result has the faults found."""
    generator = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="killed-") as path:
        directories = ",".join(f"{path}/{name}" for name in ("first", "second"))
        settings = {**SETTINGS, "log.dirs": directories}
        with NodeProcess(Path(path), settings) as node:
            return _round(node, generator, cycles, seed)


def _round(node: NodeProcess, generator: random.Random, cycles: int, seed: int) -> Result:
    result = Result()
    admin = AdminClient({**CLIENT, "bootstrap.servers": node.bootstrap})
    topics = [NewTopic(name, PARTITIONS[name], 1, config=given) for name, given in TOPICS.items()]
    for created in admin.create_topics(topics).values():
        created.result(30)
    history, where = History(), node.bootstrap
    table, made = Table(where, history, seed), Topics(where, history, seed)
    commits = Commits(where, history, seed)
    loads: list[Load] = [
        *(Idempotent(where, history, PLAIN, codec, seed) for codec in ("none", "lz4")),
        Idempotent(where, history, SHORT, "zstd", seed),
        *(table, made, commits),
        Transactional(where, history, seed),
        Reader(where, history, seed),
    ]
    for load in loads:
        load.start()
    while result.kills < cycles:
        time.sleep(generator.choice((0.05, 0.3, 0.8)) * generator.random() * 2)
        _kill_and_start(node, generator, result)
    for load in loads:
        load.finish()
        result.faults += load.faults
        result.acked += load.acked
        result.done[load.name] = load.acked
    log = "".join(node.log)
    result.done["compactions"] = log.count("compacted log=")
    result.done["segments retained away"] = log.count("retention deleted segments=")
    node.kill()
    node.start()
    result.faults += _complaints(node.log)
    result.faults += judge(node.bootstrap, history)
    result.faults += _judge_table(node.bootstrap, table)
    result.faults += _judge_topics(node.bootstrap, made)
    result.faults += _judge_commits(node.bootstrap, commits)
    return result


def _kill_and_start(node: NodeProcess, generator: random.Random, result: Result) -> None:
    node.kill()
    result.kills += 1
    if generator.random() < _EARLY:
        again = threading.Timer(0.2 + generator.random() * 0.5, _kill, (node,))
        again.start()
        try:
            node.start()
        except RuntimeError:
            result.kills += 1
            result.early_kills += 1
        again.join()
        node.kill()
    node.start()


def _kill(node: NodeProcess) -> None:
    try:
        os.kill(node.pid, signal.SIGKILL)
    except (RuntimeError, ProcessLookupError):
        return


def _complaints(log: list[str]) -> list[str]:
    """Return the errors in the node's log, with the lines after each."""
    return [
        "".join(log[at : at + 40])
        for at, line in enumerate(log)
        if " error " in line or (line.startswith("Traceback") and " error " not in log[at - 1])
    ]


# Remaining records


Found = dict[tuple[str, int], list[tuple[int, str, str]]]
"""For each partition the offsets, keys and values, in order."""


def read_all(bootstrap: str, topics: dict[str, int]) -> tuple[Found, dict[tuple[str, int], int]]:
    """Read committed records from each partition's start to its end, crcs checked.

    Returns them, and where each partition starts. Retention may still remove segments when the
    loads have ended; the records are then read again.
    """
    wanted = [TopicPartition(topic, n, 0) for topic, count in topics.items() for n in range(count)]
    admin = AdminClient({**CLIENT, "bootstrap.servers": bootstrap})
    before, starts = None, _starts(admin, wanted)
    found: Found = {}
    while starts != before:
        before, found = starts, _read_from(bootstrap, starts)
        starts = _starts(admin, wanted)
    return found, starts


def _starts(admin: AdminClient, wanted: list[TopicPartition]) -> dict[tuple[str, int], int]:
    return {
        (each.topic, each.partition): (
            admin.list_offsets({each: OffsetSpec.earliest()})[each].result(60).offset
        )
        for each in wanted
    }


def _read_from(bootstrap: str, starts: dict[tuple[str, int], int]) -> Found:
    consumer = Consumer(
        {
            **CLIENT,
            "bootstrap.servers": bootstrap,
            "group.id": "judge",
            "check.crcs": True,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(*partition, start) for partition, start in starts.items()])
    found: Found = {key: [] for key in starts}
    left = set(starts)
    deadline = time.monotonic() + _SILENCE_S
    while left:
        messages = consumer.consume(2000, timeout=0.1)
        if messages:
            deadline = time.monotonic() + _SILENCE_S
        elif time.monotonic() > deadline:
            raise AssertionError(f"the end of {left} is not reached")
        for each in messages:
            key, error = (each.topic(), each.partition()), each.error()
            if error is None:
                name = (each.key() or b"").decode()
                found[key].append((each.offset(), name, each.value().decode()))
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(key)
            else:
                raise AssertionError(f"{key}: {error}")
    consumer.close()
    return found


def judge(bootstrap: str, history: History) -> list[str]:
    """Read all records, and return those that are lost, changed, duplicate or out of order."""
    topics = {seen.partition[0]: 1 for each in history.operations for seen in each.sends}
    found, starts = read_all(bootstrap, {name: PARTITIONS.get(name, 2) for name in topics})
    reading = history.begin("judge")
    for (topic, partition), records in found.items():
        for offset, _, value in records:
            reading.read(topic, partition, offset, value)
    return wrong_with(history, found, starts)


def wrong_with(history: History, found: Found, starts: dict[tuple[str, int], int]) -> list[str]:
    """Return the faults of a history that ends with a read of all records."""
    written = {seen.value for each in history.operations for seen in each.sends}
    foreign = {seen.value for seen in history.reads()} - written
    faults = [f"no client wrote {value!r}" for value in foreign]
    for each in history.operations:
        if (
            each.outcome is Outcome.OK
        ):  # records removed by retention and DeleteRecords are not lost
            each.sends = [
                seen for seen in each.sends if seen.offset < 0 or not _is_gone(seen, starts)
            ]
    for key, records in found.items():
        last: dict[str, int] = {}
        for offset, _, value in records:
            name, number, *_ = value.split(" ")
            if int(number) <= last.get(name, -1):
                faults.append(f"{key} at {offset}: {value[:20]} is out of order")
            last[name] = int(number)
    return faults + [str(each) for each in check(history, everything_was_read=True)]


def _is_gone(seen: object, starts: dict[tuple[str, int], int]) -> bool:
    return seen.partition[0] == SHORT and seen.offset < starts[seen.partition]


def _judge_table(bootstrap: str, table: Table) -> list[str]:
    found, _ = read_all(bootstrap, {TABLE: 1})
    records = found[TABLE, 0]
    last = {key: value for _, key, value in records}
    offsets = [offset for offset, _, _ in records]
    faults = [] if offsets == sorted(set(offsets)) else ["the table's offsets do not ascend"]
    return faults + [
        f"{key}: {last.get(key)} instead of {table.last.get(key)}"
        for key in last.keys() | table.last.keys()
        if last.get(key) != table.last.get(key)
    ]


def _judge_topics(bootstrap: str, made: Topics) -> list[str]:
    there = set(
        AdminClient({**CLIENT, "bootstrap.servers": bootstrap}).list_topics(timeout=60).topics
    )
    _, starts = read_all(bootstrap, {SHORT: 1})
    faults = [f"{topic} is missing" for topic in made.kept if topic not in there]
    faults += [f"{topic} exists again" for topic in made.deleted if topic in there]
    if starts[SHORT, 0] < made.low:
        faults.append(f"{SHORT} starts at {starts[SHORT, 0]}, it was deleted to {made.low}")
    return faults


def _judge_commits(bootstrap: str, commits: Commits) -> list[str]:
    admin = AdminClient({**CLIENT, "bootstrap.servers": bootstrap})
    asked = [ConsumerGroupTopicPartitions(COMMITS_GROUP)]
    answer = admin.list_consumer_group_offsets(asked)[COMMITS_GROUP].result(60)
    offsets = {each.partition: each.offset for each in answer.topic_partitions}
    return [
        f"committed {sure}, tried {commits.tried[partition]}, found {offsets.get(partition)}"
        for partition, sure in commits.sure.items()
        if not sure <= offsets.get(partition, -1001) <= commits.tried[partition]
    ]
