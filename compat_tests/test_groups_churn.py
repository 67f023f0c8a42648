"""Groups of real consumers under churn: no partition has two owners, and none is left out.

The same churn runs for cooperative classic consumers, for the consumer protocol (KIP-848), and for
both in one group; the server is killed and restarted in between.
"""

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from compat_tests import jars
from compat_tests.conftest import Topics
from compat_tests.servers import ServerProcess
from compat_tests.test_java_tools import tool

PARTITIONS = 12
RECORDS = 2_400
CHURN_S = 20.0
SETTLE_S = 60.0
# Sessions are longer than a restart: a member that is fenced while it is away learns that only
# later, and until then a partition has two apparent owners.
QUICK_GROUPS = {
    "group.consumer.assignment.interval.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "100",
    # A member that has not polled since its last assignment reports no partitions in its next
    # heartbeat. It then loses them without notice, but librdkafka still assigns them. So members
    # must poll more often than they send heartbeats, on a busy machine too.
    "group.consumer.heartbeat.interval.ms": "500",
    "offsets.topic.num.partitions": "4",
}
CLASSIC = {
    "group.protocol": "classic",
    "partition.assignment.strategy": "cooperative-sticky",
    "session.timeout.ms": 45_000,
    "heartbeat.interval.ms": 200,
}
CONSUMER = {"group.protocol": "consumer"}
# Errors of a consumer while its coordinator is away or has been replaced.
PASSING = (
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TRANSPORT,
    KafkaError._RESOLVE,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    # A join that waited while its group was upgraded from classic to consumer.
    KafkaError.REBALANCE_IN_PROGRESS,
)


@dataclass
class Owners:
    """The owners of partitions, as the members report them."""

    members: dict[str, "Member"] = field(default_factory=dict)
    holders: dict[int, str] = field(default_factory=dict)
    read: set[bytes] = field(default_factory=set)
    handovers: int = 0

    def take(self, member: str, partitions: list[int]) -> None:
        for partition in partitions:
            holder = self.holders.get(partition)
            assert holder is None or self._has_lost(holder, partition), (
                f"{partition} is {holder}'s, and {member}'s"
            )
            self.holders[partition] = member
            self.handovers += 1

    def _has_lost(self, holder: str, partition: int) -> bool:
        """True when the owner was fenced and has not noticed it yet.

        The member must report it itself: revoking a partition after another member owns it is too
        late.
        """
        member = self.members[holder]
        deadline = time.monotonic() + 60
        while self.holders.get(partition) == holder and time.monotonic() < deadline:
            member.poll()
        return partition in member.lost

    def give_up(self, member: str, partitions: list[int]) -> None:
        for partition in partitions:
            if self.holders.get(partition) == member:
                del self.holders[partition]


class Member:
    def __init__(self, owners: Owners, name: str, topic: str, settings: dict[str, object]) -> None:
        self.owners, self.name = owners, name
        self.lost: set[int] = set()
        owners.members[name] = self
        self.consumer = Consumer({"client.id": name, **settings})
        self.consumer.subscribe(
            [topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )

    def _assigned(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.owners.take(self.name, [p.partition for p in partitions])

    def _lost(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.lost |= {p.partition for p in partitions}
        self.owners.give_up(self.name, [p.partition for p in partitions])

    def _revoked(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.owners.give_up(self.name, [p.partition for p in partitions])

    def poll(self) -> None:
        message = self.consumer.poll(0.02)
        if message is None:
            return
        error = message.error()
        if error is None:
            self.owners.read.add(message.value())
            try:
                self.consumer.commit(message, asynchronous=True)
            except KafkaException:
                return
        else:
            assert error.code() in PASSING, error

    def close(self) -> None:
        self.consumer.close()
        self.owners.give_up(self.name, list(self.owners.holders))


@dataclass
class Crowd:
    """Members, and the events of the churn."""

    server: ServerProcess
    topic: str
    group: str
    kinds: list[dict[str, object]]
    owners: Owners = field(default_factory=Owners)
    members: list[Member] = field(default_factory=list)
    started: int = 0
    dice: random.Random = field(default_factory=lambda: random.Random(848))

    def add(self) -> None:
        settings = {
            "bootstrap.servers": self.server.bootstrap,
            "group.id": self.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 200,
            **self.kinds[self.started % len(self.kinds)],
        }
        self.members.append(Member(self.owners, f"c{self.started}", self.topic, settings))
        self.started += 1

    def drop(self) -> None:
        self.members.pop(self.dice.randrange(len(self.members))).close()

    def poll(self) -> None:
        for member in self.members:
            member.poll()

    def churn(self, seconds: float, handovers: int = 0) -> None:
        """Churn for the given time, and until the given number of assignments."""
        started, change = time.monotonic(), 0.0
        while (now := time.monotonic()) < started + seconds or self.owners.handovers < handovers:
            assert now < started + SETTLE_S, f"{self.owners.handovers} handovers"
            if now > change:
                change = now + self.dice.uniform(0.3, 1.5)
                if len(self.members) > 3 and self.dice.random() < 0.45:
                    self.drop()
                elif len(self.members) < 10:
                    self.add()
            self.poll()

    def settle(self, what: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SETTLE_S
        while not what():
            self.poll()
            assert time.monotonic() < deadline, (self.owners.holders, len(self.owners.read))

    def close(self) -> None:
        while self.members:
            self.members.pop().close()


def restart(server: ServerProcess) -> None:
    server.kill()
    server.start()


@pytest.fixture
def server(start_server: Callable[..., ServerProcess]) -> ServerProcess:
    return start_server(QUICK_GROUPS)


def produce(bootstrap: str, topic: str, first: int, last: int) -> set[bytes]:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(first, last):
        producer.produce(topic, value=str(number).encode(), partition=number % PARTITIONS)
    assert producer.flush(30) == 0
    return {str(number).encode() for number in range(first, last)}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "kinds",
    [[CLASSIC], [CONSUMER], [CLASSIC, CONSUMER]],
    ids=["classic-cooperative", "consumer", "both-protocols"],
)
def test_no_partition_has_two_owners_under_churn(server, unique, kinds) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    topic = Topics(admin, server.bootstrap, unique).create("churn", partitions=PARTITIONS)
    crowd = Crowd(server, topic, unique("churn"), kinds)
    wanted = produce(server.bootstrap, topic, 0, RECORDS // 2)
    try:
        for _ in range(4):
            crowd.add()
        crowd.churn(CHURN_S)
        restarting = threading.Thread(target=restart, args=(server,))
        restarting.start()
        while restarting.is_alive():
            crowd.poll()
        wanted |= produce(server.bootstrap, topic, RECORDS // 2, RECORDS)
        crowd.churn(
            CHURN_S / 2, handovers=2 * PARTITIONS
        )  # not only the first members have owned partitions
        living = {member.name for member in crowd.members}
        crowd.settle(
            lambda: (
                set(crowd.owners.holders) == set(range(PARTITIONS)) and wanted <= crowd.owners.read
            )
        )
        assert set(crowd.owners.holders.values()) <= living
    finally:
        crowd.close()


@pytest.mark.parametrize("settings", [CLASSIC, CONSUMER], ids=["classic", "consumer"])
def test_a_group_reads_on_where_it_was_after_a_restart(server, unique, settings) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    topic = Topics(admin, server.bootstrap, unique).create("restart", partitions=PARTITIONS)
    first = produce(server.bootstrap, topic, 0, 240)
    group = unique("restart")
    crowd = Crowd(server, topic, group, [settings])
    crowd.add()
    crowd.settle(lambda: crowd.owners.read == first)
    crowd.members[0].consumer.commit(asynchronous=False)
    crowd.close()
    restart(server)
    second = produce(server.bootstrap, topic, 240, 480)
    again = Crowd(server, topic, group, [settings])
    again.add()
    again.settle(lambda: second <= again.owners.read)
    again.close()
    assert again.owners.read == second


@jars.needed
def test_javas_console_consumer_speaks_the_consumer_protocol(server, unique) -> None:
    at = server.bootstrap
    admin = AdminClient({"bootstrap.servers": at})
    topic = Topics(admin, at, unique).create("java-consumer", partitions=3)
    lines = [f"line {number}" for number in range(60)]
    producer = Producer({"bootstrap.servers": at})
    for number, line in enumerate(lines):
        producer.produce(topic, line.encode(), partition=number % 3)
    assert producer.flush(30) == 0
    group = unique("java-consumer")
    out = tool(
        at,
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--include", f"{topic[:-2]}.*", "--group", group, "--from-beginning"),
        *("--max-messages", "60", "--timeout-ms", "30000"),
        *("--command-property", "group.protocol=consumer"),
    )
    assert sorted(out.splitlines()) == sorted(lines)
    described = tool(
        at,
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        *("--describe", "--group", group),
    )
    rows = [line.split() for line in described.splitlines() if topic in line]
    assert sorted(row[2:6] for row in rows) == [[str(p), "20", "20", "0"] for p in range(3)]
    state = tool(
        at,
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        *("--describe", "--group", group, "--state"),
    )
    assert "Empty" in state
