"""`python -m bench.group_holds`: how long large consumer groups hold the loop of a node.

Members that subscribe to the same topics by name join one after the other; each join changes the
target of all. The node runs in this process. A probe task notes every time that passes between
two of its turns: a hold. `--whole` takes each decision of the coordinator at once instead of in
steps (`coordinator/core/steps.py`), for the comparison in docs/performance.md.
"""

import argparse
import gc
import tempfile
import time
from pathlib import Path

import attrs
import trio

from barnabas.config import NodeConfig
from barnabas.coordinator.core.coordinator_output import Caller
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.server.coordinators import coordinator_turns
from barnabas.server.coordinators.internal_topics import create_internal_topic
from barnabas.server.node.node import Node

CALLER = Caller(client_id="bench", version=1)
_TOPICS_IN_A_REQUEST = 2_000


@attrs.define
class Member:
    """A member of the consumer protocol that confirms what it is given."""

    member_id: str
    names: list[str]
    epoch: int = 0
    owned: list[ConsumerGroupHeartbeatRequest.TopicPartitions] = attrs.Factory(list)

    async def heartbeat(self, node: Node) -> bool:
        """Send one heartbeat; True when the assignment changed."""
        await trio.lowlevel.checkpoint()  # as between two requests
        joins = self.epoch == 0
        response = await node.groups.consumer_heartbeat(
            ConsumerGroupHeartbeatRequest(
                group_id="g",
                member_id=self.member_id,
                member_epoch=self.epoch,
                rebalance_timeout_ms=60_000 if joins else -1,
                subscribed_topic_names=self.names if joins else None,
                server_assignor="uniform" if joins else None,
                topic_partitions=self.owned,
            ),
            CALLER,
        )
        changed = response.member_epoch != self.epoch or response.assignment is not None
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.owned = [
                ConsumerGroupHeartbeatRequest.TopicPartitions(
                    topic_id=topic.topic_id, partitions=topic.partitions
                )
                for topic in response.assignment.topic_partitions
            ]
        return changed


async def _probe(holds: list[float]) -> None:
    before = time.thread_time()
    while True:
        await trio.lowlevel.checkpoint()
        now = time.thread_time()
        holds.append(now - before)
        before = now


async def _create_topics(node: Node, names: list[str]) -> None:
    for start in range(0, len(names), _TOPICS_IN_A_REQUEST):
        request = CreateTopicsRequest(
            topics=[
                CreateTopicsRequest.CreatableTopic(
                    name=name, num_partitions=1, replication_factor=1
                )
                for name in names[start : start + _TOPICS_IN_A_REQUEST]
            ]
        )
        await node.channel.send(request, CreateTopicsResponse)


async def _join_all(node: Node, names: list[str], count: int) -> None:
    members: list[Member] = []
    for number in range(count):
        members.append(Member(f"m{number}", names))
        while any([await member.heartbeat(node) for member in members]):
            pass


async def _run(node: Node, topics: int, count: int) -> None:
    names = [f"topic-{number:05d}" for number in range(topics)]
    async with trio.open_nursery() as nursery:
        await nursery.start(node.run)
        await _create_topics(node, names)
        await create_internal_topic(node.channel, node.settings, "__consumer_offsets")
        while True:
            try:
                await node.groups.describe_consumer_group("g")
            except KafkaError as error:
                if error.code.name == "GROUP_ID_NOT_FOUND":
                    break
            else:
                break
            await trio.sleep(0.05)
        holds: list[float] = []
        gc.collect()
        gc.freeze()
        began = time.process_time()
        async with trio.open_nursery() as probing:
            probing.start_soon(_probe, holds)
            await _join_all(node, names, count)
            probing.cancel_scope.cancel()
        cpu_s = time.process_time() - began
        long = [hold for hold in holds if hold > 0.010]
        print(
            f"topics={topics} members={count} cpu_s={cpu_s:.1f} holds_over_10_ms={len(long)} "
            f"longest_ms={max(holds) * 1000:.0f} sum_of_those_ms={sum(long) * 1000:.0f}"
        )
        node.stop()


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--members", type=int, default=30)
    parser.add_argument("--whole", action="store_true", help="take each decision at once")
    options = parser.parse_args()
    if options.whole:
        coordinator_turns._SLICE_S = float("inf")
    with tempfile.TemporaryDirectory() as directory:
        config = NodeConfig.load(
            None,
            {
                "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
                "log.dirs": str(Path(directory) / "data"),
                "group.consumer.assignment.interval.ms": "0",
            },
        )
        trio.run(_run, Node(config), options.topics, options.members)


if __name__ == "__main__":
    main()
