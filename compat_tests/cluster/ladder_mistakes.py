"""`make ladder-mistakes`: each step of the ladder must fail when its nodes have a mistake.

Each row plants one mistake (`planted_node`) in all nodes of a new cluster, and runs one step. A
step that passes proves nothing about what the mistake breaks. Prints what each step noticed, and
returns 1 when one noticed nothing.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs

from barnabas.testing.process import NodeProcess
from compat_tests import jars
from compat_tests.cluster.clusters import BarnabasCluster, ProxiedCluster, TrialCluster
from compat_tests.cluster.faulty_disks import EIO, FaultyCluster
from compat_tests.cluster.planted_node import MISTAKES
from compat_tests.cluster.soak import open_files, wait_for_closed_files
from compat_tests.cluster.steps import (
    coordinators,
    disks,
    exchange,
    network,
    racks,
    reassignments,
    restarts,
    voters,
)
from compat_tests.cluster.steps.trial import create_topic, delete_topics

_NOTICED = (AssertionError, TimeoutError, OSError, EOFError, RuntimeError)
_ROUNDS = 5


@attrs.frozen
class Row:
    """A mistake, and the step that must notice it."""

    step: str
    mistake: str
    cluster: Callable[[], TrialCluster]
    run: Callable[[Any, Any], object]
    argument: Any = 0


def _leave_nothing_open(cluster: BarnabasCluster, _: float) -> None:
    """Create and delete topics, as the soak does, and look for files that stay open."""
    base = open_files(cluster)
    for _ in range(_ROUNDS):
        create_topic(cluster, 20)
        delete_topics(cluster)
    wait_for_closed_files(cluster, base)


ROWS = (
    Row("7", "leader_alone_commits", ProxiedCluster, network.cut_leader),
    Row(
        "8",
        "high_watermark_outruns_a_returning_follower",
        lambda: network.far_nodes({"replica.lag.time.max.ms": "5000"}),
        network.far_follower,
        40,
    ),
    Row("9", "broken_disk_is_ignored", FaultyCluster, disks.fail_log_directory, EIO),
    Row("10", "no_controlled_shutdown", BarnabasCluster, restarts.rolling_restart),
    Row(
        "11",
        "throttle_is_ignored",
        reassignments.four_nodes,
        reassignments.throttled_reassignment,
        12,
    ),
    Row("12", "voters_are_known_by_node_id", voters.five_nodes, voters.change_voters),
    Row(
        "13",
        "coordinators_begin_empty",
        BarnabasCluster,
        coordinators.kill_coordinators,
        3,
    ),
    Row("14", "racks_are_ignored", racks.RackedCluster, racks.follower_reads, 5),
    Row("15", "high_watermark_of_the_quorum_falls", exchange.three_kafkas, exchange.exchange),
    Row("16", "files_of_deleted_logs_stay_open", BarnabasCluster, _leave_nothing_open),
)


@contextmanager
def planted(mistake: str) -> Iterator[None]:
    """Start every node of barnabas with a mistake."""
    right = NodeProcess._command

    def command(node: NodeProcess) -> list[str]:
        python, _, *rest = right(node)
        return [python, "-m", "compat_tests.cluster.planted_node", mistake, *rest]

    NodeProcess._command = command  # type: ignore[method-assign]
    try:
        yield
    finally:
        NodeProcess._command = right  # type: ignore[method-assign]


def noticed(row: Row) -> str | None:
    """Return what the step noticed; None when it passed."""
    with planted(row.mistake), row.cluster() as cluster:
        try:
            row.run(cluster, row.argument)
        except _NOTICED as error:
            return f"{type(error).__name__}: {error}".splitlines()[0][:120]
    return None


def main() -> int:
    """Run the selected rows; return 1 when a step passed in spite of its mistake."""
    options = _options()
    missed = 0
    for row in ROWS:
        if row.step not in options.steps or (row.step == "15" and jars.missing()):
            continue
        began = time.monotonic()
        found = noticed(row)
        missed += found is None
        took = f"{time.monotonic() - began:.0f} s"
        print(f"step {row.step}, {row.mistake}: {found or 'NOT NOTICED'} ({took})", flush=True)
    return 1 if missed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m compat_tests.cluster.ladder_mistakes", description=__doc__
    )
    every = [row.step for row in ROWS]
    parser.add_argument("--steps", nargs="+", choices=every, default=every)
    return parser.parse_args()


if __name__ == "__main__":
    assert {row.mistake for row in ROWS} == MISTAKES.keys()
    sys.exit(main())
