"""A flow over SASL_SSL on both sides, whose principal has only the rights of docs/mirror.md."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from barnabas.client import KafkaClient, open_client
from barnabas.client.admin_calls import create_topic
from barnabas.client.client_config import ClientConfig
from barnabas.pipeline.delivery.driver.group_offsets import GroupEntry, GroupOffsets
from barnabas.pipeline.mirror import cluster_queries
from barnabas.pipeline.mirror.topic_acls import TopicAcl, add_acls, missing_acls, topic_acls
from barnabas.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from barnabas.testing import Node
from barnabas.testing.node_security import Security
from tests.pipeline.mirror.node_flows import TOPIC, Flow, numbers, with_flow, write

PAGE = Path(__file__).parents[3] / "docs" / "mirror.md"
USER = "flow"
LITERAL, PREFIXED, ALLOW = 3, 4, 3
TOPICS, GROUPS, CLUSTERS, TRANSACTIONAL_IDS = 2, 3, 4, 5
ALL = 2
READER = ("User:reader", "*")
OPERATIONS = {
    "Read": 3,
    "Write": 4,
    "Create": 5,
    "Delete": 6,
    "Alter": 7,
    "Describe": 8,
    "DescribeConfigs": 10,
    "AlterConfigs": 11,
}


def rights(side: str, *, is_identical: bool) -> Iterator[CreateAclsRequest.AclCreation]:
    """Yield the rules of the page's table for one cluster."""
    text = PAGE.read_text()
    table = text[text.index("| cluster | on | rights |") :].split("\n\n")[0]
    for row in re.findall(rf"^\| {side} \| (.*) \| (.*) \|$", table, re.MULTILINE):
        wanted = row[1] if is_identical else row[1].partition(";")[0]
        for operation in re.findall(r"[A-Z]\w+", wanted):
            for kind, name, pattern in _resources(row[0]):
                yield CreateAclsRequest.AclCreation(
                    resource_type=kind,
                    resource_name=name,
                    resource_pattern_type=pattern,
                    principal=f"User:{USER}",
                    host="*",
                    operation=OPERATIONS[operation],
                    permission_type=ALLOW,
                )


def _resources(text: str) -> Iterator[tuple[int, str, int]]:
    """Yield what a row of the table is on."""
    if text.startswith("topics"):
        yield TOPICS, TOPIC, LITERAL
    if text.startswith("cluster"):
        yield CLUSTERS, "kafka-cluster", LITERAL
    if text.startswith("the group"):
        yield GROUPS, f"mirror-{USER}", LITERAL
    if "groups that are copied" in text:
        yield GROUPS, "readers", LITERAL
    if text.startswith("transactional ids with the prefix"):
        yield TRANSACTIONAL_IDS, f"mirror-{USER}", PREFIXED


async def allow(client: KafkaClient, side: str, *, is_identical: bool) -> None:
    creations = list(rights(side, is_identical=is_identical))
    assert creations
    response = await client.ask_controller(
        CreateAclsRequest(creations=creations), CreateAclsResponse
    )
    assert {each.error_code for each in response.results} == {0}


def flow_properties(nodes: tuple[Node, Node]) -> Mapping[str, str]:
    return {
        prefix + name: value
        for prefix, node in zip(("source.", "target."), nodes, strict=True)
        for name, value in node.client_config(USER).items()
    }


@pytest.mark.parametrize("offsets", ["identical", "assigned"])
def test_the_documented_rights_suffice(offsets) -> None:
    """Topics are created, grow and change; records, log starts and group offsets follow."""
    is_identical = offsets == "identical"

    async def test(flow: Flow) -> None:
        async with (
            open_client(ClientConfig.from_properties(nodes[0].client_config())) as source,
            open_client(ClientConfig.from_properties(nodes[1].client_config())) as target,
        ):
            await create_topic(source, TOPIC)
            await allow(source, "source", is_identical=is_identical)
            await allow(target, "target", is_identical=is_identical)
            await write(source, 0, 20)
            await add_acls(source, [TopicAcl(TOPIC, *READER, ALL, ALLOW)])
            await GroupOffsets(source).commit("readers", {(TOPIC, 0): GroupEntry(15)})
            await flow.turn()
            await cluster_queries.delete_records(source, {(TOPIC, 0): 10})
            await cluster_queries.add_partitions(source, TOPIC, 2)
            await cluster_queries.alter_configs(source, TOPIC, {"retention.ms": "99999999"})
            await write(source, 20, 5)
            await flow.turn()
            await flow.turn()
            found = [number for _, number in await numbers(target)]
            assert found == list(range(10 if is_identical else 0, 25))
            assert await missing_acls(source, target, {TOPIC: TOPIC}) == []
            topics = await cluster_queries.topics(target, {TOPIC: TOPIC})
            assert topics[TOPIC].partitions == 2
            configs = await cluster_queries.topic_configs(target, {TOPIC: TOPIC})
            assert configs[TOPIC]["retention.ms"] == "99999999"
            allowed = TopicAcl(TOPIC, *READER, OPERATIONS["Read"], ALLOW)
            everything = allowed._replace(operation=ALL)
            present = await topic_acls(target, "target")
            assert allowed in present
            assert everything not in present
            copied = await GroupOffsets(target).committed("readers")
            assert copied == ({(TOPIC, 0): 15} if is_identical else {})

    security = Security((USER,))
    with Node(security=security) as first, Node(security=security) as second:
        nodes = first, second
        with_flow(nodes, test, offsets, flow_properties(nodes))
