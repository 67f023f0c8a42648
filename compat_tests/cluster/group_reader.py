"""A consumer group whose members commit what they read: its rebalances, errors and pauses."""

import itertools
import threading
import time
from typing import Self

import attrs
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from compat_tests.client_security import librdkafka

_numbers = itertools.count(1)
_POLL_S = 0.2
_END_S = 10

_STALL_S = 15
"""A group that reads nothing new for this time gets another member, as a supervisor would start it.

A synchronous commit of librdkafka 2.16 may not return when nodes were killed meanwhile: its main
thread and a broker thread that is being closed wait for each other's locks when an
OffsetForLeaderEpoch request fails at that moment (confluentinc/librdkafka issue 5476; its debug log
ends there). Such a client sends no heartbeats either, so the coordinator removes it from the group.
See `transactional_copy` for a stall in a transaction.
"""


@attrs.define
class Member:
    """The observations of one member."""

    assignments: int = 0
    values: list[str] = attrs.field(factory=list)
    errors: list[str] = attrs.field(factory=list)
    commits: list[float] = attrs.field(factory=list)


class GroupReader:
    """Members of one group, with the classic protocol or the consumer protocol (KIP-848)."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        protocol: str = "classic",
        members: int = 2,
        config: dict[str, object] | None = None,
    ) -> None:
        self.name = f"readers-{protocol}-{next(_numbers)}"
        self.protocol = protocol
        self.members: list[Member] = []
        self.stalls = 0
        self._topic = topic
        self._config = {
            **librdkafka(bootstrap),
            "group.id": self.name,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
            **(config or {}),
        }
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._count = members

    def __enter__(self) -> Self:
        for _ in range(self._count):
            self._add_member()
        return self

    def _add_member(self) -> None:
        member = Member()
        self.members.append(member)
        thread = threading.Thread(target=self._run, args=(member,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(_END_S)

    @property
    def values(self) -> set[str]:
        """The values that the members have read."""
        return {value for member in self.members for value in member.values}

    @property
    def errors(self) -> list[str]:
        """The errors that the client surfaced."""
        return [error for member in self.members for error in member.errors]

    @property
    def rebalances(self) -> int:
        """The most assignments that one member has got."""
        return max(member.assignments for member in self.members)

    def wait_until_assigned(self, timeout_s: float = 60) -> None:
        """Wait until the members share the partitions. Raises TimeoutError."""
        deadline = time.monotonic() + timeout_s
        while not all(member.commits for member in self.members):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name}: members did not commit within {timeout_s} s")
            time.sleep(0.05)

    def wait_for(self, values: set[str], timeout_s: float = 60) -> None:
        """Wait until the members have read these values. Raises TimeoutError."""
        deadline = time.monotonic() + timeout_s
        known, changed = 0, time.monotonic()
        while missing := values - self.values:
            now = time.monotonic()
            if len(missing) != known:
                known, changed = len(missing), now
            elif now - changed > _STALL_S:
                self.stalls += 1
                changed = now
                self._add_member()
            if now > deadline:
                raise TimeoutError(
                    f"{self.name}: {len(missing)} values were not read, as {sorted(missing)[:3]}; "
                    f"errors: {self.errors[:3]}"
                )
            time.sleep(0.1)

    def longest_pause(self, since: float, until: float) -> float:
        """Return the longest time without a commit of the group."""
        commits = sorted(at for member in self.members for at in member.commits)
        times = [since, *(at for at in commits if since < at < until), until]
        return max(later - earlier for earlier, later in itertools.pairwise(times))

    def _run(self, member: Member) -> None:
        consumer = Consumer(self._config)

        def assigned(_: Consumer, partitions: list[TopicPartition]) -> None:
            member.assignments += 1

        consumer.subscribe([self._topic], on_assign=assigned)
        try:
            while not self._stopping.is_set():
                self._read(consumer, member)
        finally:
            consumer.close()

    def _read(self, consumer: Consumer, member: Member) -> None:
        messages: list[Message] = []
        for message in consumer.consume(500, _POLL_S):
            error = message.error()
            if error is None:
                messages.append(message)
            elif error.code() != KafkaError._PARTITION_EOF:
                member.errors.append(str(error))
        if not messages:
            return
        member.values += [message.value().decode() for message in messages]
        try:
            consumer.commit(asynchronous=False)
        except KafkaException as error:
            member.errors.append(f"commit: {error}")
        else:
            member.commits.append(time.monotonic())
