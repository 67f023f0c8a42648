"""Admin requests of the ladder: settings of topics and brokers, and reassignments."""

import time
from collections.abc import Collection, Mapping

from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from barnabas.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from compat_tests import wire

TOPIC_CONFIG, BROKER_CONFIG = 2, 4


def configure(address: str, kind: int, name: str, values: Mapping[str, str]) -> None:
    """Set properties of a topic or a broker."""
    asked = IncrementalAlterConfigsRequest
    resource = asked.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            asked.AlterableConfig(name=key, config_operation=0, value=value)
            for key, value in values.items()
        ],
    )
    answer = wire.call(address, asked(resources=[resource]), 1)
    assert [each.error_code for each in answer.responses] == [0], answer


def reassign(address: str, topic: str, plan: Mapping[int, list[int] | None]) -> None:
    """Start the reassignments of partitions to new replicas; None cancels one."""
    asked = AlterPartitionReassignmentsRequest
    partitions = [
        asked.ReassignablePartition(partition_index=number, replicas=replicas)
        for number, replicas in plan.items()
    ]
    request = asked(topics=[asked.ReassignableTopic(name=topic, partitions=partitions)])
    answer = wire.call(address, request, 0)
    assert not answer.error_code, answer
    found = [each.error_code for each in answer.responses[0].partitions]
    assert not any(found), answer


def reassigned(address: str, topic: str) -> set[int]:
    """Return the partitions of a topic whose reassignment runs."""
    listing = ListPartitionReassignmentsRequest(timeout_ms=10_000, topics=None)
    answer = wire.call(address, listing, 0)
    assert not answer.error_code, answer
    return {
        each.partition_index
        for found in answer.topics
        if found.name == topic
        for each in found.partitions
    }


def wait_reassigned(
    address: str, topic: str, partitions: Collection[int], timeout_s: float
) -> float:
    """Wait until none of the partitions is being reassigned; return the seconds."""
    started = time.monotonic()
    while left := reassigned(address, topic) & set(partitions):
        if time.monotonic() - started > timeout_s:
            raise TimeoutError(f"{topic}: {sorted(left)} are not reassigned within {timeout_s} s")
        time.sleep(0.05)
    return time.monotonic() - started
