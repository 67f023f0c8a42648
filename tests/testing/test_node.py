"""The embedded node: what it leaves behind in the process that runs it."""

import gc
import os
import threading

from barnabas.testing import Node


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
