"""`python -m bench.groups`: what groups cost a server, with made-up members on raw sockets.

1,000 groups of one member, and one group of 1,000 members, in both protocols: CPU of the server
for a heartbeat, and for a rebalance in which every member takes part. The members' own CPU is
printed apart. A rebalance's work is the server's CPU from the event until the last member has
what it shall have; waiting (the initial delay, the interval between targets) does not count.
"""

import argparse
import selectors
import socket
import struct
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.protocol.apis import API
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest
from barnabas.protocol.messages.sync_group import SyncGroupRequest
from bench.servers import Measured, cpu_seconds, kinds_to_measure
from compat_tests import wire

PROPERTIES = {
    "group.initial.rebalance.delay.ms": "3000",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "100",
}
TOPIC = "groups-bench"
SMALL_TOPIC = "groups-bench-small"
TIMEOUT_S = 60.0
CONNECTIONS = 100
_LENGTH = struct.Struct(">i")

Ask = tuple[int, Any, int]  # connection, message, version


class Peers:
    """Many connections, each with ordered requests; responses have the order of the requests."""

    def __init__(self, bootstrap: str, count: int) -> None:
        self.bootstrap = bootstrap
        host, _, port = bootstrap.rpartition(":")
        self.selector = selectors.DefaultSelector()
        self.sockets: list[socket.socket] = []
        for number in range(count):
            peer = socket.create_connection((host, int(port)))
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.sockets.append(peer)
            self.selector.register(peer, selectors.EVENT_READ, number)

    def close(self) -> None:
        for peer in self.sockets:
            peer.close()
        self.selector.close()

    def ask(self, asks: Sequence[Ask]) -> list[Any]:
        """Send all at once, wait for all responses."""
        awaited: list[list[int]] = [[] for _ in self.sockets]
        frames: list[list[bytes]] = [[] for _ in self.sockets]
        for place, (number, message, version) in enumerate(asks):
            payload = wire.request_frame(message, version, place)
            frames[number].append(_LENGTH.pack(len(payload)) + payload)
            awaited[number].append(place)
        for number, parts in enumerate(frames):
            if parts:
                self.sockets[number].sendall(b"".join(parts))
        answers: list[Any] = [None] * len(asks)
        buffers = [bytearray() for _ in self.sockets]
        left, deadline = len(asks), time.monotonic() + TIMEOUT_S
        while left:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{left} of {len(asks)} requests were not answered")
            for key, _ in self.selector.select(1.0):
                buffer = buffers[key.data]
                buffer += self.sockets[key.data].recv(1 << 20)
                left -= self._decode(buffer, asks, answers)
        return answers

    def _decode(self, buffer: bytearray, asks: Sequence[Ask], answers: list[Any]) -> int:
        position = found = 0
        while len(buffer) - position >= 8:
            length, place = struct.unpack_from(">ii", buffer, position)
            if len(buffer) - position < 4 + length:
                break
            _, message, version = asks[place]
            api = API[message.API_KEY]
            start = 4 + (api.response_header_version(version) >= 1)
            frame = bytes(buffer[position + 4 : position + 4 + length])
            answers[place] = api.response_type.decode_from(frame, start, version)[0]
            position += 4 + length
            found += 1
        del buffer[:position]
        return found


class Meter:
    """CPU of the server and of the members during some work."""

    def __init__(self, server: Measured, label: str) -> None:
        self.server, self.label = server, label

    def over(self, work: Callable[[], int], unit: str) -> None:
        """Print the cost of one unit of `work`, in µs, or in seconds for the whole."""
        server, members, began = cpu_seconds(self.server), time.process_time(), time.monotonic()
        count = work()
        server = cpu_seconds(self.server) - server
        members = time.process_time() - members
        elapsed = time.monotonic() - began
        each = f"{server / count * 1e6:7.1f} µs each" if count > 1 else " " * 15
        print(
            f"{self.server.kind:9} {self.label:42} {server:7.2f} s CPU {each} {unit}; "
            f"members {members:.2f} s CPU, {elapsed:.2f} s",
            flush=True,
        )


class Member:
    """A member of the consumer protocol."""

    def __init__(self, group: str, number: int, topic: str = TOPIC) -> None:
        self.topic = topic
        self.group, self.connection = group, number % CONNECTIONS
        self.member_id = f"m-{number:05}"
        self.epoch = 0
        self.owned: list[Any] = []

    def beat(self, *, joins: bool = False, says: bool = False) -> Ask:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member_id, member_epoch=self.epoch
        )
        if joins:
            request.rebalance_timeout_ms = 300_000
            request.subscribed_topic_names = [self.topic]
            request.topic_partitions = []
        elif says:
            held = ConsumerGroupHeartbeatRequest.TopicPartitions
            request.topic_partitions = [
                held(topic_id=one.topic_id, partitions=one.partitions) for one in self.owned
            ]
        return self.connection, request, 1

    def take(self, answer: Any) -> bool:
        """Apply the response; return True for a change."""
        if answer.error_code:
            raise RuntimeError(f"{ErrorCode(answer.error_code).name}: {answer.error_message}")
        changed = answer.assignment is not None or answer.member_epoch != self.epoch
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = answer.assignment.topic_partitions
        return changed


def beat_all(peers: Peers, members: list[Member], **how: bool) -> list[Member]:
    """Send one heartbeat of each; return the members with a change."""
    answers = peers.ask([member.beat(**how) for member in members])
    return [m for m, answer in zip(members, answers, strict=True) if m.take(answer)]


def settle(peers: Peers, members: list[Member], partitions: int) -> int:
    """Send heartbeats until all partitions are owned at one epoch; return their count."""
    beats = 0
    while True:
        beats += len(members)
        beat_all(peers, members, says=True)
        owned = sum(len(topic.partitions) for member in members for topic in member.owned)
        if owned == partitions and len({member.epoch for member in members}) == 1:
            return beats


def steady(peers: Peers, members: list[Member], rounds: int) -> Callable[[], int]:
    def work() -> int:
        for _ in range(rounds):
            beat_all(peers, members)
        return rounds * len(members)

    return work


def many_groups(server: Measured, size: int) -> None:
    peers = Peers(server.bootstrap, CONNECTIONS)
    members = [Member(f"single-{number}", number, SMALL_TOPIC) for number in range(size)]
    meter = Meter(server, f"{size} consumer groups of one: join")
    meter.over(lambda: len(beat_all(peers, members, joins=True)), "join")
    meter.label = f"{size} consumer groups of one: heartbeat"
    meter.over(steady(peers, members, 10), "heartbeat")
    peers.close()


def one_group(server: Measured, size: int) -> None:
    peers = Peers(server.bootstrap, CONNECTIONS)
    members = [Member("crowd", number) for number in range(size)]

    def gather() -> int:
        beat_all(peers, members[:1], joins=True)
        beat_all(peers, members[1:], joins=True)
        settle(peers, members, size)
        return 1

    meter = Meter(server, f"consumer group of {size}: all join, one by one")
    meter.over(gather, "")
    meter.label = f"consumer group of {size}: heartbeat"
    meter.over(steady(peers, members, 10), "heartbeat")

    def lose_half() -> int:
        gone, left = members[::2], members[1::2]
        for member in gone:
            member.epoch = -1
        peers.ask([member.beat() for member in gone])
        settle(peers, left, size)
        return 1

    meter.label = f"consumer group of {size}: half of them leave"
    meter.over(lose_half, "")
    peers.close()


# The classic protocol


def classic_group(server: Measured, size: int) -> None:
    peers = Peers(server.bootstrap, size)
    ids = [""] * size

    def join(user_data: bytes) -> list[Any]:
        # A member with a change starts the rebalance, in any order.
        told = ConsumerProtocolSubscription(topics=[TOPIC], user_data=user_data)
        subscription = b"\0\3" + bytes(told.encode(3))
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=subscription)
        asks: list[Ask] = [
            (
                number,
                JoinGroupRequest(
                    group_id="classic",
                    member_id=ids[number],
                    session_timeout_ms=300_000,
                    rebalance_timeout_ms=300_000,
                    protocol_type="consumer",
                    protocols=[protocol],
                ),
                9,
            )
            for number in range(size)
        ]
        answers = peers.ask(asks)
        for number, answer in enumerate(answers):
            ids[number] = answer.member_id
        return answers

    def rebalance() -> int:
        state["round"] += 1
        user_data = str(state["round"]).encode()
        answers = join(user_data)
        if answers[0].error_code == ErrorCode.MEMBER_ID_REQUIRED:
            answers = join(user_data)
        generation = answers[0].generation_id
        leader = ids.index(answers[0].leader)
        given = SyncGroupRequest.SyncGroupRequestAssignment
        part = ConsumerProtocolAssignment.TopicPartition
        asks: list[Ask] = []
        for number, member_id in enumerate(ids):
            request = SyncGroupRequest(
                group_id="classic", generation_id=generation, member_id=member_id
            )
            request.protocol_type, request.protocol_name = "consumer", "range"
            if number == leader:
                request.assignments = [
                    given(
                        member_id=one,
                        assignment=b"\0\3"
                        + bytes(
                            ConsumerProtocolAssignment(
                                assigned_partitions=[part(topic=TOPIC, partitions=[place])]
                            ).encode(3)
                        ),
                    )
                    for place, one in enumerate(ids)
                ]
            asks.append((number, request, 5))
        synced = peers.ask(asks)
        if any(answer.error_code for answer in synced):
            raise RuntimeError("a sync was refused")
        state["generation"] = generation
        return 1

    def steady_classic() -> int:
        asks: list[Ask] = [
            (
                number,
                HeartbeatRequest(
                    group_id="classic", generation_id=state["generation"], member_id=member_id
                ),
                4,
            )
            for number, member_id in enumerate(ids)
        ]
        for _ in range(10):
            peers.ask(asks)
        return 10 * size

    state = {"round": 0, "generation": 0}
    meter = Meter(server, f"classic group of {size}: all join and sync")
    meter.over(rebalance, "")
    meter.label = f"classic group of {size}: heartbeat"
    meter.over(steady_classic, "heartbeat")
    meter.label = f"classic group of {size}: all rejoin and sync"
    meter.over(rebalance, "")
    peers.close()


def measure(server: Measured, size: int) -> None:
    server.prepare()
    server.start()
    try:
        admin = AdminClient({"bootstrap.servers": server.bootstrap})
        wanted = [NewTopic(TOPIC, size, 1), NewTopic(SMALL_TOPIC, 1, 1)]
        for future in admin.create_topics(wanted).values():
            future.result(60)
        ask = FindCoordinatorRequest(coordinator_keys=["crowd"])
        wire.retry(server.bootstrap, ask, 6, lambda answer: not answer.coordinators[0].error_code)
        time.sleep(2)  # fifty partitions of the coordinator's topic are loading
        many_groups(server, size)
        one_group(server, size)
        classic_group(server, size)
    finally:
        server.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.groups", description=__doc__)
    parser.add_argument("--only", choices=["kafka", "barnabas"], help="measure one server alone")
    parser.add_argument("--size", type=int, default=1000, help="how many members and groups")
    options = parser.parse_args()
    for kind in kinds_to_measure(options.only).values():
        measure(kind(PROPERTIES), options.size)
    return 0


if __name__ == "__main__":
    sys.exit(main())
