"""The quorum over sockets: what is durable before an answer, and resets that fence no broker."""

import os
import socket
import struct
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import trio

from barnabas.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)
from tests.server.quorum_nodes import QuorumNodes
from tests.server.test_quorum_of_three import create_topic

RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class StalledSync:
    """Fsyncs of a node's quorum log wait until `release`."""

    def __init__(self, nodes: QuorumNodes, node_id: int) -> None:
        log = nodes.running[node_id].quorum.raft._log
        self._flush, self._released = log.flush, threading.Event()
        self.waiting = threading.Event()
        log.flush = self._wait  # type: ignore[method-assign]

    def _wait(self) -> None:
        self.waiting.set()
        self._released.wait(60)
        self._flush()

    def release(self) -> None:
        self._released.set()


def test_topic_is_created_only_after_fsyncs_of_two_nodes(tmp_path: Path) -> None:
    """The leader alone, or with a follower that has not synced, acknowledges nothing."""

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nodes = QuorumNodes(tmp_path, nursery)
            with trio.fail_after(100):
                await nodes.start(1, 2, 3)
            leader = nodes.leader_id
            followers = [node for node in (1, 2, 3) if node != leader]
            stalls = [StalledSync(nodes, node) for node in followers]
            answers: list[int] = []

            async def create() -> None:
                answers.append(await create_topic(nodes, leader, "durable"))

            nursery.start_soon(create)
            for stall in stalls:
                await nodes.eventually(stall.waiting.is_set)
            await trio.sleep(0.3)
            assert not answers
            assert "durable" not in nodes.running[leader].image.topics_by_name
            stalls[0].release()
            await nodes.eventually(lambda: answers == [0])
            stalls[1].release()
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_resets_of_the_heartbeat_connection_fence_no_broker(tmp_path: Path) -> None:
    """Ten resets a second for three seconds, of all connections to the active controller."""

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nodes = QuorumNodes(tmp_path, nursery, config={"broker.heartbeat.interval.ms": "200"})
            with trio.fail_after(100):
                await nodes.start(1, 2, 3)
            leader = nodes.running[nodes.leader_id]
            epoch = leader.quorum.core.epoch
            before = {number: each.epoch for number, each in leader.image.brokers.items()}
            fenced: list[int] = []
            leader.quorum.publisher.subscribe(
                "test",
                lambda image, _: fenced.extend(
                    each.id for each in image.brokers.values() if each.fenced
                ),
            )
            resets = 0
            for _ in range(30):
                for connection in list(leader.transport.connections):
                    with socket.socket(fileno=os.dup(connection.fd)) as sock:
                        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
                    connection.scope.cancel()
                    resets += 1
                await trio.sleep(0.1)
            assert resets >= 30
            assert fenced == []
            assert {n: each.epoch for n, each in leader.image.brokers.items()} == before
            assert leader.quorum.core.epoch == epoch
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_describe_quorum_shows_that_a_voter_has_ended(tmp_path: Path) -> None:
    """Its log end and its last fetch stay the same, while the leader's log grows."""

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nodes = QuorumNodes(tmp_path, nursery)
            with trio.fail_after(100):
                await nodes.start(1, 2, 3)
                await nodes.start(7, roles="broker")
            leader = nodes.leader_id
            lost = next(node for node in (1, 2, 3) if node != leader)
            await nodes.kill(lost)
            await trio.sleep(
                0.7
            )  # its last fetch waits for records at the leader, for half a second
            before = await describe(nodes, leader)
            assert {each.replica_id for each in before.observers} == {7}
            for number in range(3):
                assert await create_topic(nodes, leader, f"t{number}") == 0
            after = await describe(nodes, leader)
            ended, ended_later = of_replica(before, lost), of_replica(after, lost)
            assert ended_later.log_end_offset == ended.log_end_offset
            assert ended_later.last_fetch_timestamp == ended.last_fetch_timestamp
            assert ended_later.last_caught_up_timestamp == ended.last_caught_up_timestamp
            own, own_later = of_replica(before, leader), of_replica(after, leader)
            assert own_later.log_end_offset > own.log_end_offset
            assert own_later.last_caught_up_timestamp > own.last_caught_up_timestamp
            nursery.cancel_scope.cancel()

    trio.run(main)


async def describe(nodes: QuorumNodes, node_id: int) -> Any:
    partition = DescribeQuorumRequest.PartitionData(partition_index=0)
    topic = DescribeQuorumRequest.TopicData(topic_name="__cluster_metadata", partitions=[partition])
    channel = nodes.running[node_id].channel
    response = await channel.send(DescribeQuorumRequest(topics=[topic]), DescribeQuorumResponse)
    return response.topics[0].partitions[0]


def of_replica(partition: Any, replica_id: int) -> Any:
    return next(each for each in partition.current_voters if each.replica_id == replica_id)


def test_clock_that_jumps_causes_no_election_and_no_fencing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour forward, then two back, on all nodes at once; timers use another clock."""

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nodes = QuorumNodes(tmp_path, nursery, config={"broker.heartbeat.interval.ms": "200"})
            with trio.fail_after(100):
                await nodes.start(1, 2, 3)
            leader = nodes.running[nodes.leader_id]
            epoch, brokers = leader.quorum.core.epoch, dict(leader.image.brokers)
            now, now_ns = time.time, time.time_ns
            for hours in (1, -1):
                monkeypatch.setattr(time, "time", lambda jump=3600.0 * hours: now() + jump)
                monkeypatch.setattr(
                    time, "time_ns", lambda jump=3600 * 10**9 * hours: now_ns() + jump
                )
                await trio.sleep(1.2)
                assert await create_topic(nodes, nodes.leader_id, f"t{hours}") == 0
            assert leader.quorum.core.is_leader
            assert leader.quorum.core.epoch == epoch
            assert dict(leader.image.brokers) == brokers
            nursery.cancel_scope.cancel()

    trio.run(main)
