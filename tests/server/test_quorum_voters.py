"""Voters that are added and removed while the quorum runs, and static voters."""

import json
from pathlib import Path
from typing import Any

import pytest
import trio

from barnabas.config import NodeConfig
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from barnabas.protocol.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from barnabas.protocol.messages.update_features import (
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from barnabas.server.node.node import Node
from barnabas.server.node_failures import StartupError
from tests.server.quorum_nodes import QuorumNodes
from tests.server.test_quorum_of_three import create_topic


async def ask(node: Node, request: Any, response_type: Any) -> Any:
    """Send a request to the active controller, as a client of a broker does."""
    return await node.channel.send(request, response_type)


def add_request(node: Node) -> AddRaftVoterRequest:
    local = node.quorum.core.local
    listener = AddRaftVoterRequest.Listener
    return AddRaftVoterRequest(
        cluster_id=None,
        timeout_ms=3000,
        voter_id=local.key.id,
        voter_directory_id=local.key.directory_id,
        listeners=[listener(name=e.name, host=e.host, port=e.port) for e in local.endpoints],
    )


async def add(nodes: QuorumNodes, asked: int, added: int) -> int:
    """Add a running controller; repeat while it lags behind."""
    request = add_request(nodes.running[added])
    while True:
        response = await ask(nodes.running[asked], request, AddRaftVoterResponse)
        if response.error_code != ErrorCode.REQUEST_TIMED_OUT:
            return response.error_code
        await trio.sleep(0.05)


async def remove(nodes: QuorumNodes, asked: int, removed: int) -> int:
    key = nodes.running[removed].quorum.core.local.key
    request = RemoveRaftVoterRequest(
        cluster_id=None, voter_id=key.id, voter_directory_id=key.directory_id
    )
    while True:
        response = await ask(nodes.running[asked], request, RemoveRaftVoterResponse)
        if response.error_code != ErrorCode.REQUEST_TIMED_OUT:
            return response.error_code
        await trio.sleep(0.05)


def voter_ids(nodes: QuorumNodes, node_id: int) -> list[int]:
    return [key.id for key in nodes.running[node_id].quorum.core.voters.replica_keys]


def test_voters_are_added_and_the_leader_removes_itself(tmp_path: Path) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nodes = QuorumNodes(tmp_path, nursery, voter_ids=(1,))
            with trio.fail_after(100):
                await nodes.start(1)
                await nodes.start(2, 3)
                assert await add(nodes, 1, 2) == 0
                assert await add(nodes, 3, 3) == 0
                assert await add(nodes, 1, 3) == ErrorCode.DUPLICATE_VOTER
                await nodes.eventually(lambda: voter_ids(nodes, 3) == [1, 2, 3])
                assert nodes.leader_id == 1
                assert await remove(nodes, 2, 1) == 0
                await nodes.eventually(
                    lambda: any(nodes.running[each].quorum.core.is_leader for each in (2, 3))
                )
                assert await create_topic(nodes, 1, "after") == 0
                await nodes.eventually(lambda: voter_ids(nodes, 1) == [2, 3])
                assert await remove(nodes, 2, 1) == ErrorCode.VOTER_NOT_FOUND
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_added_voter_counts_for_the_majority(tmp_path: Path) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nodes = QuorumNodes(tmp_path, nursery, voter_ids=(1,))
            with trio.fail_after(100):
                await nodes.start(1)
                await nodes.start(2, roles="controller")
                assert await add(nodes, 1, 2) == 0
            await nodes.kill(2)
            with trio.move_on_after(1.0) as waiting:
                await create_topic(nodes, 1, "never")
            assert waiting.cancelled_caught, "one of two voters committed a change alone"
            with trio.fail_after(100):
                await nodes.start(2, roles="controller")
                assert await create_topic(nodes, 1, "after") == 0
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_controller_joins_by_itself(tmp_path: Path) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            config = {
                "controller.quorum.auto.join.enable": "true",
                "controller.quorum.fetch.timeout.ms": "1000",
            }
            nodes = QuorumNodes(tmp_path, nursery, voter_ids=(1,), config=config)
            with trio.fail_after(100):
                await nodes.start(1)
                await nodes.start(2, roles="controller")
                await nodes.eventually(lambda: voter_ids(nodes, 1) == [1, 2])
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_static_voters_elect_a_leader_and_upgrade_to_dynamic_ones(tmp_path: Path) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nodes = QuorumNodes(
                tmp_path,
                nursery,
                config={"controller.quorum.fetch.timeout.ms": "1000"},
                is_static=True,
            )
            with trio.fail_after(100):
                await nodes.start(1, 2, 3)
                leader = nodes.running[nodes.leader_id].quorum
                assert leader.core.kraft_version == 0
                stated = json.loads((tmp_path / "2/__cluster_metadata-0/quorum-state").read_text())
                assert stated["data_version"] == 0
                assert stated["leaderId"] == nodes.leader_id
                assert [each["voterId"] for each in stated["currentVoters"]] == [1, 2, 3]
                refused = await ask(
                    nodes.running[1], add_request(nodes.running[2]), AddRaftVoterResponse
                )
                assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
                assert await create_topic(nodes, 1, "first") == 0
                update = UpdateFeaturesRequest.FeatureUpdateKey(
                    feature="kraft.version", max_version_level=1, upgrade_type=1
                )
                request = UpdateFeaturesRequest(timeout_ms=3000, feature_updates=[update])
                while True:
                    response = await ask(nodes.running[1], request, UpdateFeaturesResponse)
                    if response.error_code == 0:
                        break
                    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
                    await trio.sleep(0.05)
                for node in nodes.running.values():
                    core = node.quorum.core
                    await nodes.eventually(lambda core=core: core.kraft_version == 1)
                    keys = {each.quorum.core.local.key for each in nodes.running.values()}
                    assert set(core.voters.replica_keys) == keys
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_voter_without_the_controller_role_does_not_start(tmp_path: Path) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nodes = QuorumNodes(tmp_path, nursery)
            await Node(NodeConfig.load(None, nodes.properties(1, "broker"))).run()

    with pytest.RaisesGroup(
        pytest.RaisesExc(StartupError, match=r"process\.roles must contain controller"),
        flatten_subgroups=True,
    ):
        trio.run(main)
