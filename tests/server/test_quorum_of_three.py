"""Three nodes with sockets between them: election, replication, failover."""

import threading
from pathlib import Path

import pytest
import trio

from barnabas.log import LogManager
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.server.quorum import quorum
from tests.server.quorum_nodes import QuorumNodes

# A few topics make a snapshot, and the log before it is removed.
EARLY_SNAPSHOTS = {
    "metadata.log.max.record.bytes.between.snapshots": "400",
    "metadata.max.retention.bytes": "1",
}


async def create_topics(nodes: QuorumNodes, node_id: int) -> None:
    """Create eight topics, one after the other."""
    for number in range(8):
        assert await create_topic(nodes, node_id, f"topic-{number}") == 0


async def create_topic(nodes: QuorumNodes, node_id: int, name: str, replicas: int = 1) -> int:
    topic = CreateTopicsRequest.CreatableTopic(
        name=name, num_partitions=1, replication_factor=replicas
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=5000)
    channel = nodes.running[node_id].channel
    response = await channel.send(request, CreateTopicsResponse)
    return response.topics[0].error_code


async def delete_topic(nodes: QuorumNodes, node_id: int, name: str) -> int:
    topic = DeleteTopicsRequest.DeleteTopicState(name=name)
    request = DeleteTopicsRequest(topics=[topic], timeout_ms=5000)
    response = await nodes.running[node_id].channel.send(request, DeleteTopicsResponse)
    return response.responses[0].error_code


def test_three_nodes_elect_a_leader_and_replicate_a_topic(tmp_path: Path) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nodes = QuorumNodes(tmp_path, nursery)
            with trio.fail_after(100):
                await nodes.start(1, 2, 3)
            assert await create_topic(nodes, 1, "first") == 0
            for node in nodes.running.values():
                await nodes.eventually(lambda node=node: "first" in node.image.topics_by_name)
                assert node.quorum.core.leader_id == nodes.leader_id
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_killed_leader_is_replaced_and_follows_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            sessions = {"broker.session.timeout.ms": "1500", "broker.heartbeat.interval.ms": "300"}
            nodes = QuorumNodes(tmp_path, nursery, config=sessions)
            with trio.fail_after(100):
                await nodes.start(1, 2, 3)
            assert await create_topic(nodes, 1, "before") == 0
            killed = nodes.leader_id
            epoch = nodes.running[killed].quorum.core.epoch
            await nodes.kill(killed)
            survivor = next(iter(nodes.running))
            with trio.fail_after(100):
                assert await create_topic(nodes, survivor, "after") == 0
            assert nodes.running[survivor].quorum.core.epoch > epoch
            with trio.fail_after(60):
                await nodes.start(killed)
            image = nodes.running[killed].image
            assert {"before", "after"} <= set(image.topics_by_name)
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_broker_without_a_controller_follows_controllers_without_a_broker(tmp_path: Path) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nodes = QuorumNodes(tmp_path, nursery, voter_ids=(1, 2, 3))
            with trio.fail_after(100):
                await nodes.start(1, 2, 3, roles="controller")
                await nodes.start(7, roles="broker")
            assert await create_topic(nodes, 7, "observed") == 0
            broker = nodes.running[7]
            await nodes.eventually(lambda: "observed" in broker.image.topics_by_name)
            leader = nodes.running[nodes.leader_id].quorum
            assert [key.id for key in leader.core.observers(leader.clock.monotonic_ms())] == [7]
            await nodes.kill(nodes.leader_id)
            with trio.fail_after(100):
                assert await create_topic(nodes, 7, "after") == 0
            await nodes.eventually(lambda: "after" in broker.image.topics_by_name)
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_node_votes_while_its_logs_are_recovered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a kill: the quorum needs its vote, and the node applies what it commits meanwhile."""
    recovers, may_recover = threading.Event(), threading.Event()
    recover = LogManager.recover

    def recover_late(logs: LogManager) -> None:
        if any(volume.logs for volume in logs.volumes):
            recovers.set()
            assert may_recover.wait(60)
        recover(logs)

    monkeypatch.setattr(LogManager, "recover", recover_late)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nodes = QuorumNodes(tmp_path, nursery)
            with trio.fail_after(100):
                await nodes.start(1, 2, 3)
            for name in ("kept", "deleted"):
                assert await create_topic(nodes, 1, name, replicas=3) == 0
            late = next(each for each in nodes.running if each != nodes.leader_id)
            hosted = nodes.running[late].replicas.hosted
            await nodes.eventually(lambda: hosted("deleted", 0) is not None)
            await nodes.kill(late)
            nursery.start_soon(nodes.start, late)
            await nodes.eventually(recovers.is_set)
            await nodes.eventually(lambda: follows(nodes, late))
            await nodes.kill(nodes.leader_id)
            with trio.fail_after(60):
                (survivor,) = nodes.running
                assert await delete_topic(nodes, survivor, "deleted") == 0
            assert late not in nodes.running
            may_recover.set()
            await nodes.eventually(lambda: late in nodes.running)
            hosted = nodes.running[late].replicas.hosted
            assert hosted("kept", 0) is not None
            assert hosted("deleted", 0) is None
            nursery.cancel_scope.cancel()

    trio.run(main)


def follows(nodes: QuorumNodes, node_id: int) -> bool:
    """True when a voter has all of the leader's log."""
    core = nodes.running[nodes.leader_id].quorum.core
    (key,) = (voter.key for voter in core.voters if voter.key.id == node_id)
    return core.progress_of(key).end_offset == core.log_end_offset


def test_leader_that_stops_hands_over_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nodes = QuorumNodes(
                tmp_path, nursery, config={"controller.quorum.fetch.timeout.ms": "60000"}
            )
            with trio.fail_after(100):
                await nodes.start(1, 2, 3, roles="controller")
            stopped = nodes.running.pop(nodes.leader_id)
            stopped.stop()
            await nodes.eventually(  # well before the fetch timeout of the others
                lambda: any(each.quorum.core.is_leader for each in nodes.running.values()), 30
            )
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_leader_that_stops_after_all_other_voters_does_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quorum, "_RESIGNATION_S", 60.0)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nodes = QuorumNodes(tmp_path, nursery)
            with trio.fail_after(100):
                await nodes.start(1, 2, 3, roles="controller")
            leader = nodes.running[nodes.leader_id]
            for node_id in set(nodes.running) - {nodes.leader_id}:
                await nodes.kill(node_id)
            assert leader.quorum.core.is_leader
            with trio.fail_after(100):
                await leader.quorum.resign()
            assert leader.quorum.core.leader_id is None
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_leader_that_stops_together_with_another_voter_does_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quorum, "_RESIGNATION_S", 60.0)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nodes = QuorumNodes(tmp_path, nursery)
            with trio.fail_after(100):
                await nodes.start(1, 2, 3, roles="controller")
            leader = nodes.running[nodes.leader_id]
            first, second = set(nodes.running) - {nodes.leader_id}
            await nodes.kill(first)
            assert leader.quorum.core.is_leader
            with trio.fail_after(100):
                async with trio.open_nursery() as stopping:
                    stopping.start_soon(leader.quorum.resign)
                    await nodes.kill(second)
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_replica_behind_the_log_start_loads_a_snapshot(tmp_path: Path) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            parts = {"controller.quorum.fetch.snapshot.max.bytes": "100"}
            nodes = QuorumNodes(tmp_path, nursery, config={**EARLY_SNAPSHOTS, **parts})
            with trio.fail_after(100):
                await nodes.start(1, 2, 3, roles="controller")
                await nodes.start(7, roles="broker")
            await create_topics(nodes, 7)
            leader = nodes.running[nodes.leader_id].quorum
            await nodes.eventually(lambda: leader.core.log.start_offset > 0)
            with trio.fail_after(100):
                await nodes.start(8, roles="broker")
            fresh = nodes.running[8]
            assert fresh.quorum.core.log.start_offset > 0
            assert await create_topic(nodes, 8, "after") == 0
            for node in (fresh, nodes.running[7]):
                await nodes.eventually(lambda node=node: len(node.image.topics_by_name) == 9)
            assert fresh.image.features == nodes.running[7].image.features
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_replica_that_lags_behind_the_log_start_publishes_the_difference(tmp_path: Path) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nodes = QuorumNodes(tmp_path, nursery, config=EARLY_SNAPSHOTS)
            with trio.fail_after(100):
                await nodes.start(1, 2, 3)
            assert await create_topic(nodes, 1, "first") == 0
            lagging = nodes.leader_id
            await nodes.kill(lagging)
            survivor = next(iter(nodes.running))
            await create_topics(nodes, survivor)
            with trio.fail_after(60):
                await nodes.start(lagging)
            assert len(nodes.running[lagging].image.topics_by_name) == 9
            nursery.cancel_scope.cancel()

    trio.run(main)
