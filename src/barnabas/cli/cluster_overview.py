"""The state of a cluster for `barnabas cluster`: brokers, lagging partitions, the quorum."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

from barnabas.cli.admin_requests import ask
from barnabas.cli.command_errors import CliError
from barnabas.cli.node_pages import NoPageError, page
from barnabas.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from barnabas.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)

if TYPE_CHECKING:
    from barnabas.cli.client_options import Client

QUORUM_TOPIC = "__cluster_metadata"
_PAGE_TIMEOUT_S = 2.0
_DISPUTED = re.compile(r"^barnabas_disputed_brokers (\S+)$", re.MULTILINE)


def quorum(client: Client) -> Any:
    """Return the quorum's partition as its leader describes it, None when there is no leader."""
    data = DescribeQuorumRequest.PartitionData(partition_index=0)
    topic = DescribeQuorumRequest.TopicData(topic_name=QUORUM_TOPIC, partitions=[data])
    try:
        answer = ask(client, DescribeQuorumRequest(topics=[topic]), DescribeQuorumResponse)
    except CliError:
        return None
    if answer.error_code or answer.topics[0].partitions[0].error_code:
        return None
    return answer.topics[0].partitions[0]


def fenced_brokers(client: Client) -> list[Any]:
    """Return the registered brokers that serve no clients; none from servers before Kafka 4.0."""
    request = DescribeClusterRequest(include_fenced_brokers=True)
    try:
        found = ask(client, request, DescribeClusterResponse)
    except CliError:
        return []
    return [broker for broker in found.brokers if broker.is_fenced]


def disputed_brokers(client: Client, node: Any) -> int | None:
    """Return how many brokers refuse a node although the controller does not fence them.

    None when the node has no page of metrics.
    """
    try:
        found = _DISPUTED.search(page(client, node, "/metrics", _PAGE_TIMEOUT_S))
    except (NoPageError, CliError):
        return None
    return None if found is None else int(float(found[1]))


def describe(client: Client) -> dict[str, Any]:
    """Return everything that the command shows, as JSON documents have it."""
    found = client.wait(client.admin.describe_cluster())
    topics = client.metadata().topics
    controller = found.controller.id if found.controller is not None else None
    led: dict[int, int] = {}
    hosted: dict[int, int] = {}
    lagging: list[dict[str, Any]] = []
    offline = count = 0
    for name, topic in sorted(topics.items()):
        for number, partition in sorted(topic.partitions.items()):
            count += 1
            led[partition.leader] = led.get(partition.leader, 0) + 1
            offline += partition.leader < 0
            for replica in partition.replicas:
                hosted[replica] = hosted.get(replica, 0) + 1
            if len(partition.isrs) < len(partition.replicas):
                lagging.append(
                    {
                        "topic": name,
                        "partition": number,
                        "leader": partition.leader,
                        "replicas": list(partition.replicas),
                        "isr": list(partition.isrs),
                    }
                )
    nodes: list[dict[str, Any]] = [
        {
            **_node(node, led, hosted, is_fenced=False),
            "disputed_brokers": disputed_brokers(client, node),
        }
        for node in found.nodes
    ]
    nodes += [_fenced_node(node, hosted) for node in fenced_brokers(client)]
    return {
        "cluster_id": found.cluster_id,
        "controller": controller,
        "topics": len(topics),
        "partitions": count,
        "partitions_without_leader": offline,
        "partitions_not_in_sync": lagging,
        "nodes": sorted(nodes, key=lambda node: node["id"]),
        "quorum": _quorum_document(quorum(client)),
    }


def _node(
    node: Any, led: dict[int, int], hosted: dict[int, int], *, is_fenced: bool
) -> dict[str, Any]:
    return {
        "id": node.id,
        "host": node.host,
        "port": node.port,
        "rack": node.rack,
        "fenced": is_fenced,
        "leads": led.get(node.id, 0),
        "replicas": hosted.get(node.id, 0),
    }


def _fenced_node(node: Any, hosted: dict[int, int]) -> dict[str, Any]:
    return {
        "id": node.broker_id,
        "host": node.host,
        "port": node.port,
        "rack": node.rack,
        "fenced": True,
        "leads": 0,
        "replicas": hosted.get(node.broker_id, 0),
        "disputed_brokers": None,
    }


def _quorum_document(found: Any) -> dict[str, Any] | None:
    if found is None:
        return None
    end = max((voter.log_end_offset for voter in found.current_voters), default=0)

    def replica(state: Any, role: str) -> dict[str, Any]:
        is_leader = state.replica_id == found.leader_id
        age_ms = int(time.time() * 1000) - state.last_caught_up_timestamp
        return {
            "id": state.replica_id,
            "directory_id": str(state.replica_directory_id),
            "role": "leader" if is_leader else role,
            "log_end_offset": state.log_end_offset,
            "lag": max(end - state.log_end_offset, 0) if state.log_end_offset >= 0 else None,
            "caught_up_ms_ago": max(age_ms, 0) if state.last_caught_up_timestamp > 0 else None,
        }

    return {
        "leader": found.leader_id,
        "epoch": found.leader_epoch,
        "high_watermark": found.high_watermark,
        "replicas": [
            *(replica(voter, "voter") for voter in found.current_voters),
            *(replica(observer, "observer") for observer in found.observers),
        ],
    }
