"""The embedded node: what it leaves behind in the process that runs it, and wrong options."""

import gc
import os
import threading

import pytest

from barnabas.config import ConfigError
from barnabas.testing import Cluster, Node
from barnabas.testing.process import NodeProcess


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


def test_cluster_without_nodes_is_refused() -> None:
    with pytest.raises(ValueError, match="nodes=0: a cluster has at least one node"):
        Cluster(nodes=0)
