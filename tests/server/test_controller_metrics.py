"""The metrics of the quorum and the controllers on the nodes of a live cluster."""

from pathlib import Path

import trio
from prometheus_client.parser import text_string_to_metric_families

from barnabas.server.node.node import Node
from tests.server.quorum_nodes import QuorumNodes


def values(node: Node) -> dict[str, float]:
    """Return the samples without labels that the metrics page of a node has."""
    return {
        sample.name.removeprefix("barnabas_"): sample.value
        for family in text_string_to_metric_families(node.metrics.text().decode())
        for sample in family.samples
        if not sample.labels
    }


def test_controller_metrics_follow_a_change_of_the_active_controller(tmp_path: Path) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nodes = QuorumNodes(tmp_path, nursery)
            with trio.fail_after(60):
                await nodes.start(1, 2, 3)
                await nodes.start(4, roles="broker")
                await check(nodes)
            nursery.cancel_scope.cancel()

    async def check(nodes: QuorumNodes) -> None:
        first = nodes.leader_id
        await nodes.eventually(lambda: is_described(nodes, first, active=4, fenced=0))
        assert "active_controllers" not in values(nodes.running[4])
        assert values(nodes.running[4])["quorum_leader"] == first
        before = {each: values(node) for each, node in nodes.running.items()}
        await nodes.kill(first)
        await nodes.eventually(
            lambda: any(each.quorum.core.is_leader for each in nodes.running.values())
        )
        await nodes.eventually(lambda: is_described(nodes, nodes.leader_id, active=3, fenced=1))
        now = values(nodes.running[nodes.leader_id])
        then = before[nodes.leader_id]
        assert now["quorum_epoch"] > then["quorum_epoch"]
        assert now["new_active_controllers_total"] > then["new_active_controllers_total"]
        elections = "quorum_election_seconds_count"
        assert now[elections] > then[elections]

    trio.run(main)


def is_described(nodes: QuorumNodes, leader: int, *, active: int, fenced: int) -> bool:
    """True when the controllers agree on the leader, on the brokers, and have no lag."""
    shown = [values(nodes.running[each]) for each in nodes.running if each != 4]
    controllers = sum(each["active_controllers"] for each in shown)
    return controllers == 1 and all(
        (each["quorum_leader"], each["active_brokers"], each["fenced_brokers"])
        == (leader, active, fenced)
        and each["metadata_lag_records"] == 0
        and each["metadata_lag_seconds"] < 5
        for each in shown
    )
