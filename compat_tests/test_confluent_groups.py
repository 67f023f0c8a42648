"""confluent-kafka in groups: members join, leave, stall and return, and partitions move."""

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

STRATEGIES = ["range", "roundrobin", "cooperative-sticky"]


class Member:
    """A consumer in a group that keeps the records it read."""

    def __init__(
        self,
        bootstrap: str,
        group: str,
        topic: str,
        *,
        on_revoke: Callable[..., None] | None = None,
        on_commit: Callable[..., None] | None = None,
        **settings,
    ) -> None:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        base = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 200,
        }
        if on_commit is not None:
            named["on_commit"] = on_commit
        self.consumer = Consumer({**base, **named})
        self.consumer.subscribe([topic], **({"on_revoke": on_revoke} if on_revoke else {}))
        self.messages: list[Message] = []

    def poll(self, timeout_s: float = 0.1) -> None:
        message = self.consumer.poll(timeout_s)
        if message is not None:
            assert message.error() is None, message.error()
            self.messages.append(message)

    @property
    def partitions(self) -> set[int]:
        return {assigned.partition for assigned in self.consumer.assignment()}

    @property
    def values(self) -> list[bytes]:
        return [message.value() for message in self.messages]

    def close(self) -> None:
        self.consumer.close()


@pytest.fixture
def join(bootstrap) -> Iterator[Callable[..., Member]]:
    members: list[Member] = []

    def make(group: str, topic: str, **settings) -> Member:
        members.append(Member(bootstrap, group, topic, **settings))
        return members[-1]

    yield make
    for member in members:
        member.close()


def until(
    condition: Callable[[], bool], members: list[Member], what: str, timeout_s: float = 90
) -> None:
    """Poll all members until the condition holds."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"{what}: {[m.partitions for m in members]}"
        for member in members:
            member.poll(0.05)


def shared(members: list[Member], partitions: int) -> bool:
    """True when the members own each partition once, distributed as evenly as possible."""
    owned = [member.partitions for member in members]
    sizes = [len(partition_set) for partition_set in owned]
    whole = sum(sizes) == partitions == len(set().union(*owned))
    return whole and max(sizes) - min(sizes) <= 1


def fill(bootstrap: str, topic: str, partitions: int, count: int, prefix: str = "v") -> set[bytes]:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    values = {f"{prefix}{i}".encode() for i in range(count)}
    for i, value in enumerate(sorted(values)):
        producer.produce(topic, value=value, partition=i % partitions)
    assert producer.flush(30) == 0
    return values


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_members_share_the_partitions_as_they_come_and_go(
    bootstrap, topics, unique, join, strategy
) -> None:
    topic = topics.create("share", partitions=6)
    values = fill(bootstrap, topic, 6, 120)
    group = unique("g")
    settings = {"partition_assignment_strategy": strategy}
    members = [join(group, topic, **settings)]
    until(lambda: shared(members, 6), members, "one member owns all")
    members.append(join(group, topic, **settings))
    until(lambda: shared(members, 6), members, "two members share")
    members.append(join(group, topic, **settings))
    until(lambda: shared(members, 6), members, "three members share")
    until(lambda: values <= {v for m in members for v in m.values}, members, "all is read")
    members.pop(0).close()
    until(lambda: shared(members, 6), members, "two members share again")


def test_a_cooperative_rebalance_leaves_kept_partitions_alone(topics, unique, join) -> None:
    topic = topics.create("cooperative", partitions=4)
    group = unique("g")
    revoked: list[int] = []
    first = join(
        group,
        topic,
        partition_assignment_strategy="cooperative-sticky",
        on_revoke=lambda _, parts: revoked.extend(part.partition for part in parts),
    )
    until(lambda: shared([first], 4), [first], "one member owns all")
    second = join(group, topic, partition_assignment_strategy="cooperative-sticky")
    until(lambda: shared([first, second], 4), [first, second], "two members share")
    assert sorted(revoked) == sorted(second.partitions)


def test_a_dead_members_partitions_move_after_its_session(topics, unique, join) -> None:
    topic = topics.create("dead", partitions=4)
    group = unique("g")
    # A member leaves when it is not polled within max.poll.interval.ms; a dead member's session
    # expires.
    stalled = join(group, topic, max_poll_interval_ms=6000, session_timeout_ms=6000)
    until(lambda: shared([stalled], 4), [stalled], "one member owns all")
    other = join(group, topic)
    until(lambda: shared([stalled, other], 4), [stalled, other], "two members share")
    until(lambda: shared([other], 4), [other], "the other owns all")


def test_a_static_member_returns_to_its_partitions_without_a_rebalance(
    topics, unique, join
) -> None:
    topic = topics.create("static", partitions=4)
    group = unique("g")
    long = {"session_timeout_ms": 30_000}
    rebalanced: list[object] = []

    def on_revoke(*_: object) -> None:
        rebalanced.append(1)

    one = join(group, topic, group_instance_id="one", on_revoke=on_revoke, **long)
    two = join(group, topic, group_instance_id="two", **long)
    until(lambda: shared([one, two], 4), [one, two], "two static members share")
    kept, moved = one.partitions, two.partitions
    rebalanced.clear()
    two.close()
    back = join(group, topic, group_instance_id="two", **long)
    until(lambda: back.partitions == moved, [one, back], "the member has its partitions back")
    assert one.partitions == kept
    assert rebalanced == []


def test_a_second_member_of_one_instance_id_fences_the_first(topics, unique, join) -> None:
    topic = topics.create("fence", partitions=2)
    group = unique("g")
    first = join(group, topic, group_instance_id="same")
    until(lambda: shared([first], 2), [first], "the first owns all")
    second = join(group, topic, group_instance_id="same")
    until(lambda: shared([second], 2), [second], "the second owns all")
    deadline = time.monotonic() + 60
    error = None
    while error is None and time.monotonic() < deadline:
        second.poll(0.05)
        message = first.consumer.poll(0.2)
        error = message.error() if message is not None else None
    assert error is not None
    assert error.name() in ("FENCED_INSTANCE_ID", "_FATAL")


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_group_resumes_after_its_last_commit(
    bootstrap, topics, unique, join, asynchronous
) -> None:
    topic = topics.create("commit")
    fill(bootstrap, topic, 1, 100)
    group = unique("g")
    answers: list[object] = []
    member = join(group, topic, on_commit=lambda error, _: answers.append(error))
    until(lambda: len(member.messages) >= 30, [member], "thirty are read")
    member.consumer.commit(member.messages[29], asynchronous=asynchronous)
    if asynchronous:
        until(lambda: bool(answers), [member], "the commit is answered")
        assert answers == [None]
    committed = member.consumer.committed([TopicPartition(topic, 0)], 60)
    assert [part.offset for part in committed] == [30]
    member.close()
    resumed = join(group, topic)
    until(lambda: bool(resumed.messages), [resumed], "the group resumes")
    assert resumed.messages[0].offset() == 30


def test_stored_offsets_are_committed_when_a_member_closes(bootstrap, topics, unique, join) -> None:
    topic = topics.create("auto")
    fill(bootstrap, topic, 1, 50)
    group = unique("g")
    member = join(group, topic, enable_auto_commit=True)
    until(lambda: len(member.messages) == 50, [member], "all is read")
    member.close()
    fill(bootstrap, topic, 1, 1, prefix="later")
    resumed = join(group, topic)
    until(lambda: bool(resumed.messages), [resumed], "the group resumes")
    assert resumed.values[0] == b"later0"


def test_a_commit_keeps_its_metadata(bootstrap, topics, unique) -> None:
    topic = topics.create("metadata")
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": unique("g")})
    mark = TopicPartition(topic, 0, 7, metadata="why: a check")
    consumer.commit(offsets=[mark], asynchronous=False)
    (committed,) = consumer.committed([TopicPartition(topic, 0)], 60)
    consumer.close()
    assert (committed.offset, committed.metadata) == (7, "why: a check")


def test_a_group_without_members_commits_from_outside(bootstrap, topics, unique) -> None:
    topic = topics.create("simple", partitions=3)
    group = unique("g")
    writer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    writer.commit(offsets=[TopicPartition(topic, p, p + 5) for p in range(2)], asynchronous=False)
    writer.close()
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    found = reader.committed([TopicPartition(topic, p) for p in range(3)], 60)
    reader.close()
    assert [c.offset for c in found] == [5, 6, -1001]


def test_many_groups_read_one_topic_apart(bootstrap, topics, unique, join) -> None:
    topic = topics.create("apart", partitions=2)
    values = fill(bootstrap, topic, 2, 40)
    members = [join(unique("g"), topic) for _ in range(6)]
    until(lambda: all(set(m.values) == values for m in members), members, "each group reads all")
