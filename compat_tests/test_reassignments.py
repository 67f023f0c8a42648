"""Reassigning partitions to the replicas that they have, the only case with one broker."""

import json
from pathlib import Path

import pytest

from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from compat_tests import jars
from compat_tests.wire import call

INCLUDES = "The manual partition assignment includes"


def move(bootstrap: str, *topics, version: int = 1, same_factor: bool = False):
    """Return the top-level code, and (topic, [(partition, code, message)]) for each requested
    topic.
    """
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic
    partition = AlterPartitionReassignmentsRequest.ReassignablePartition
    request = AlterPartitionReassignmentsRequest(
        topics=[
            topic(
                name=name,
                partitions=[partition(partition_index=n, replicas=r) for n, r in partitions],
            )
            for name, partitions in topics
        ]
    )
    if version:
        request.allow_replication_factor_change = not same_factor
    answer = call(bootstrap, request, version)
    if version:
        assert answer.allow_replication_factor_change is not same_factor or not topics
    return answer.error_code, [
        (each.name, [(r.partition_index, r.error_code, r.error_message) for r in each.partitions])
        for each in answer.responses
    ]


@pytest.fixture
def node_id(admin) -> int:
    return next(iter(admin.list_topics(timeout=60).brokers))


@pytest.mark.parametrize("version", [0, 1])
def test_each_partition_gets_its_own_answer(bootstrap, topics, unique, node_id, version) -> None:
    topic, missing = topics.create("move", partitions=2), unique("missing")
    other = node_id + 70
    wanted = [
        (missing, [(0, [node_id]), (1, None)]),
        (topic, [(0, [node_id]), (1, None), (9, [node_id])]),
        (topic, [(0, []), (0, [other]), (0, [node_id, node_id])]),
    ]
    unknown = f"Unable to find a topic named {missing}."
    told = [
        (missing, [(0, 3, unknown), (1, 3, unknown)]),
        (topic, [(0, 0, None), (1, 85, None), (9, 3, f"Unable to find partition {topic}:9.")]),
        (
            topic,
            [
                (0, 39, f"{INCLUDES} an empty replica list."),
                (0, 39, f"{INCLUDES} broker {other}, but no such broker is registered."),
                (0, 39, f"{INCLUDES} the broker {node_id} more than once."),
            ],
        ),
    ]
    assert move(bootstrap, *wanted, version=version) == (0, told)
    if version:
        assert move(bootstrap, *wanted, version=version, same_factor=True) == (0, told)
    assert move(bootstrap, version=version) == (0, [])


def test_list_reassignments_without_any_is_empty(bootstrap, topics, unique) -> None:
    topic = topics.create("still")
    asked = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
    some = [
        asked(name=topic, partition_indexes=[0, 7]),
        asked(name=unique("no"), partition_indexes=[0]),
    ]
    for wanted in (None, some, []):
        answer = call(bootstrap, ListPartitionReassignmentsRequest(topics=wanted), 0)
        assert (answer.error_code, answer.error_message, answer.topics) == (0, None, [])


@jars.needed
def test_kafkas_tool_executes_verifies_and_lists(
    bootstrap, topics, node_id, tmp_path: Path
) -> None:
    topic = topics.create("move-tool", partitions=2)
    plan = tmp_path / "plan.json"
    partitions = [{"topic": topic, "partition": n, "replicas": [node_id]} for n in (0, 1)]
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))

    def tool(*arguments: str) -> str:
        command = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
        return jars.java(command, "--bootstrap-server", bootstrap, *arguments).stdout

    out = tool("--reassignment-json-file", str(plan), "--execute")
    assert "Successfully started partition reassignments" in out
    out = tool("--reassignment-json-file", str(plan), "--verify")
    assert f"Reassignment of partition {topic}-1 is completed." in out
    assert "No partition reassignments found." in tool("--list")
