"""The embedded node: what it leaves behind in the process that runs it, and wrong options."""

import gc
import os
import threading

import pytest

from barnabas.config import ConfigError
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest
from barnabas.testing import Cluster, Node, batches
from barnabas.testing.process import NodeProcess
from tests.config.effects.wire import Wire, create, eventually, happens, produce

EARLIEST = -2


def start_offset(wire: Wire, topic: str) -> int:
    partition = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=EARLIEST)
    asked = ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[partition])
    answer = wire.ask(ListOffsetsRequest(replica_id=-1, topics=[asked]), 1)
    return answer.topics[0].partitions[0].offset


def test_nodes_that_came_and_went_leave_nothing_behind() -> None:
    with Node():
        pass  # what is imported once stays
    gc.collect()
    thresholds, frozen = gc.get_threshold(), gc.get_freeze_count()
    files, threads = len(os.listdir("/dev/fd")), threading.active_count()
    for _ in range(3):
        with Node() as node:
            assert node.port
    gc.collect()
    assert len(os.listdir("/dev/fd")) <= files
    assert threading.active_count() <= threads
    assert (gc.get_threshold(), gc.get_freeze_count()) == (thresholds, frozen)


def test_node_that_cannot_start_leaves_no_temporary_data() -> None:
    node = Node(config={"num.partitions": "many"})
    with pytest.raises(ConfigError, match=r"num\.partitions"), node:
        pass
    assert not node.data.exists()


@pytest.mark.parametrize("kind", [Node, NodeProcess])
def test_address_of_a_node_that_was_not_started_is_refused(kind: type[Node | NodeProcess]) -> None:
    node = kind()
    with pytest.raises(RuntimeError, match="start it"):
        assert node.bootstrap
    node.close()


@pytest.mark.parametrize("kind", [Node, NodeProcess])
def test_records_of_any_age_are_kept_unless_a_retention_is_given(
    kind: type[Node | NodeProcess],
) -> None:
    often = {"log.initial.task.delay.ms": "0", "log.retention.check.interval.ms": "20"}
    for own, is_kept in ((often, True), ({**often, "log.retention.hours": "2"}, False)):
        with kind(config=own) as node:
            wire = Wire(node.port)
            create(wire, "expiring", retention_ms="1000")
            create(wire, "plain")
            for topic in ("plain", "expiring"):
                assert produce(wire, batches.batch(b"v", timestamps=[1_000]), topic=topic) == 0
            assert eventually(lambda wire=wire: start_offset(wire, "expiring") == 1)
            # One check handles both topics, perhaps this one later.
            assert happens(
                lambda wire=wire: start_offset(wire, "plain") == 1, expected=not is_kept
            ) is (not is_kept)


def test_cluster_without_nodes_is_refused() -> None:
    with pytest.raises(ValueError, match="nodes=0: a cluster has at least one node"):
        Cluster(nodes=0)
