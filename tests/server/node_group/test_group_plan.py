"""The nodes of `serve --nodes N`: ids, roles, ports, directories, and the order of their stop."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from barnabas.cluster.metadata.image import Endpoint
from barnabas.cluster.quorum.voters import ReplicaKey, Voter, VoterSet
from barnabas.config import NodeConfig
from barnabas.protocol.types import Uuid
from barnabas.server.node_group.group_plan import (
    GroupListeners,
    GroupPlan,
    GroupPlanError,
    plan_group,
)
from barnabas.server.node_group.group_process import stop_order
from barnabas.server.node_group.secured_group import SECURED_LISTENERS, SecuredGroup


def plan(count: int, port: int = 9092, **given: str) -> GroupPlan:
    return plan_group(
        count, host="127.0.0.1", port=port, data=Path("/data"), given=given, has_file=False
    )


def plan_with_voters(
    count: int,
    *voter_ids: int,
    port: int = 9092,
    host: str = "127.0.0.1",
    listeners: GroupListeners = GroupListeners(),  # noqa: B008 - a frozen value
) -> GroupPlan:
    """Return the plan for directories whose voters were started with --listen HOST:9092."""
    voters = VoterSet.of(
        *(
            Voter(ReplicaKey(i, Uuid.random()), (Endpoint("CONTROLLER", host, 19_091 + i),))
            for i in voter_ids
        )
    )
    return plan_group(
        count,
        host="127.0.0.1",
        port=port,
        data=Path("/data"),
        given={},
        has_file=False,
        voters=voters,
        listeners=listeners,
    )


@pytest.mark.parametrize(("count", "controllers"), [(1, 1), (2, 1), (3, 3), (5, 3)])
def test_plan_has_one_or_three_controllers(count: int, controllers: int) -> None:
    assert [node.node_id for node in plan(count).controllers] == list(range(1, controllers + 1))


def test_plan_counts_ports_and_directories_up() -> None:
    third = plan(4).nodes[2]
    assert (third.bootstrap, third.controller_address) == ("127.0.0.1:9094", "127.0.0.1:19094")
    assert third.directory == Path("/data/node-3")


def test_plan_gives_each_node_a_valid_configuration() -> None:
    group = plan(4)
    configs = [NodeConfig.load(None, group.properties(node)) for node in group.nodes]
    assert [config.is_controller for config in configs] == [True, True, True, False]
    assert [config.node_id for config in configs] == [1, 2, 3, 4]
    servers = ("127.0.0.1:19092", "127.0.0.1:19093", "127.0.0.1:19094")
    assert all(tuple(c["controller.quorum.bootstrap.servers"]) == servers for c in configs)
    assert configs[3]["offsets.topic.replication.factor"] == 3
    assert configs[0]["transaction.state.log.min.isr"] == 2


def test_plan_has_the_listeners_that_the_properties_choose() -> None:
    chosen = {
        "inter.broker.listener.name": "secure",
        "controller.listener.names": "QUORUM",
        "listener.security.protocol.map": "SECURE:SSL,QUORUM:SSL",
    }
    group = plan_group(
        3,
        host="127.0.0.1",
        port=9092,
        data=Path("/data"),
        given=chosen,
        has_file=False,
        listeners=GroupListeners.of(chosen),
    )
    config = NodeConfig.load(None, group.properties(group.nodes[0]))
    assert [str(each) for each in config.listeners] == [
        "SECURE://127.0.0.1:9092",
        "QUORUM://127.0.0.1:19092",
    ]
    assert {each.security_protocol for each in config.listeners} == {"SSL"}


def test_plan_with_a_listener_for_brokers_has_it_on_the_own_machine_only() -> None:
    group = plan_group(
        4,
        host="10.0.0.7",
        port=9092,
        data=Path("/data"),
        given=SecuredGroup(Path("/data")).properties(),
        has_file=False,
        listeners=SECURED_LISTENERS,
    )
    configs = [NodeConfig.load(None, group.properties(node)) for node in group.nodes]
    assert [str(each) for each in configs[1].listeners] == [
        "SASL_SSL://10.0.0.7:9093",
        "NODES://127.0.0.1:29093",
        "CONTROLLER://127.0.0.1:19093",
    ]
    assert [str(each) for each in configs[3].listeners][1:] == ["NODES://127.0.0.1:29095"]
    assert {config.inter_broker_listener_name for config in configs} == {"NODES"}
    servers = ("127.0.0.1:19092", "127.0.0.1:19093", "127.0.0.1:19094")
    assert tuple(configs[3]["controller.quorum.bootstrap.servers"]) == servers


@pytest.mark.parametrize(("host", "is_reached"), [("localhost", True), ("10.0.0.7", False)])
def test_plan_whose_voters_know_each_other_elsewhere_has_no_other_listener(
    host: str, is_reached: bool
) -> None:
    with nullcontext() if is_reached else pytest.raises(GroupPlanError, match=r"by .* 10\.0\.0\.7"):
        plan_with_voters(3, 1, 2, 3, host=host, listeners=SECURED_LISTENERS)
    plan_with_voters(3, 1, 2, 3, host=host)


def test_plan_counts_the_ports_of_the_advertised_address_up() -> None:
    given = {"advertised.listeners": "PLAINTEXT://kafka.example.org:443"}
    group = plan_group(
        3, host="0.0.0.0", port=9092, data=Path("/data"), given=given, has_file=False
    )
    config = NodeConfig.load(None, group.properties(group.nodes[2]))
    assert [str(each) for each in config.advertised_listeners] == [
        "PLAINTEXT://kafka.example.org:445"
    ]


def test_plan_with_a_listener_for_brokers_advertises_it_too() -> None:
    given = {"advertised.listeners": "SASL_SSL://[fe80::7]:9092"}
    group = plan_group(
        3,
        host="0.0.0.0",
        port=9092,
        data=Path("/data"),
        given={**SecuredGroup(Path("/data")).properties(), **given},
        has_file=False,
        listeners=SECURED_LISTENERS,
    )
    config = NodeConfig.load(None, group.properties(group.nodes[1]))
    assert [str(each) for each in config.advertised_listeners] == [
        "SASL_SSL://[fe80::7]:9093",
        "NODES://127.0.0.1:29093",
    ]
    assert config.advertised_controller_listeners[0].host == "127.0.0.1"
    # The certificate of the nodes has this address, and no wildcard.
    assert group.nodes[1].local_bootstrap == "127.0.0.1:9093"


def test_plan_lets_given_properties_win() -> None:
    group = plan(3, **{"offsets.topic.replication.factor": "2"})
    assert group.properties(group.nodes[0])["offsets.topic.replication.factor"] == "2"


@pytest.mark.parametrize(
    ("count", "port", "given", "message"),
    [
        (0, 9092, {}, "at least 1"),
        (3, 0, {}, "fixed port"),
        (3, 55_534, {}, "choose a port up to 55533"),
        (3, 9092, {"node.id": "4"}, "--set node.id cannot be used with --nodes"),
        (3, 9092, {"advertised.listeners": "SSL://a:1"}, "as PLAINTEXT://kafka.example.org:9092"),
        (3, 9092, {"advertised.listeners": "PLAINTEXT://a:65534"}, "not 3 ports from 65534"),
        (3, 9092, {"advertised.listeners": "PLAINTEXT://a:1,SSL://a:2"}, "as PLAINTEXT://kafka"),
    ],
)
def test_plan_that_is_impossible_is_refused(
    count: int, port: int, given: dict[str, str], message: str
) -> None:
    with pytest.raises(GroupPlanError, match=message):
        plan(count, port, **given)


def test_plan_keeps_existing_voters_as_controllers() -> None:
    assert [node.node_id for node in plan_with_voters(2, 1, 2).controllers] == [1, 2]
    assert [node.node_id for node in plan_with_voters(4, 2, 3, 4).controllers] == [1, 2, 3, 4]


def test_plan_that_leaves_out_voters_is_refused() -> None:
    message = r"--nodes 1 leaves out the voters 2, 3: start with --nodes 3"
    with pytest.raises(GroupPlanError, match=message):
        plan_with_voters(1, 1, 2, 3)


def test_plan_that_moves_one_of_several_voters_to_another_port_is_refused() -> None:
    with pytest.raises(GroupPlanError, match="choose the port 9092 in --listen"):
        plan_with_voters(3, 1, 2, 3, port=9192)
    assert plan_with_voters(3, 1, port=9192).nodes[0].controller_port == 19_192


@pytest.mark.parametrize(
    ("count", "order"),
    [(1, [[1]]), (2, [[2], [1]]), (3, [[3], [2, 1]]), (5, [[5], [4], [3], [2, 1]])],
)
def test_stop_order_keeps_a_majority_until_the_end(count: int, order: list[list[int]]) -> None:
    assert [[node.node_id for node in step] for step in stop_order(plan(count))] == order
