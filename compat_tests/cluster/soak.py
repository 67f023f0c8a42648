"""`make soak-cluster SECONDS=`: the steps of the ladder shuffled by a seed, on one cluster.

The cluster has four nodes with failing disks, proxies between them, and racks. A proxy accepts
connections for a node that has ended, so the controller fences a killed node when its session ends,
after 9 s. After each step all nodes run, and what was acked is compared with the partitions. The
seed repeats the order.

Between the steps, when their topics are deleted and their clients have ended, the nodes must not
have more files and connections open than before: what a step leaves behind, the next ones add to.
"""

import argparse
import os
import random
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from compat_tests.cluster import observation
from compat_tests.cluster.clusters import BarnabasCluster, ProxiedCluster, resident_mb
from compat_tests.cluster.faulty_disks import EIO, ENOSPC, FaultyCluster
from compat_tests.cluster.pinger import READ
from compat_tests.cluster.steps import (
    coordinators,
    disks,
    kills,
    network,
    racks,
    reassignments,
    restarts,
    suspensions,
    voters,
)
from compat_tests.cluster.steps.trial import Figure, commit_of_the_tree, delete_topics

_NODES = 4
_LEFT_OPEN_MAX = 40
_CLOSED_S = 30.0
_CONFIG = {
    "replica.lag.time.max.ms": "5000",
    "replica.fetch.response.max.bytes": "200000",
}


class SoakCluster(FaultyCluster, ProxiedCluster, racks.RackedCluster):
    """Four nodes, three of them voters, on which every step can run."""

    def __init__(self) -> None:
        super().__init__(_CONFIG, _NODES)


Trial = tuple[Callable[[Any, Any], list[Figure]], Any]
STEPS: Mapping[str, Trial] = {
    "3 kill of a leader": (kills.kill_leader, 0),
    "4 kill of the active controller": (kills.kill_controller, 0),
    "5 kill of all": (kills.kill_all, 0),
    "5 equal replicas": (kills.equal_replicas, 0),
    "6 SIGSTOP of a leader": (suspensions.suspend_leader, 12),
    "6 SIGSTOP of the controller": (suspensions.suspend_controller, 12),
    "6 minority": (suspensions.minority_is_refused, 0),
    "7 cut leader": (network.cut_leader, 0),
    "8 slow follower": (network.slow_follower, 60),
    "9 full directory": (disks.fail_log_directory, ENOSPC),
    "9 broken directory": (disks.fail_log_directory, EIO),
    "9 slow syncs": (disks.slow_syncs, 2),
    "9 broken metadata directory": (disks.fail_metadata_directory, 0),
    "10 rolling restart": (restarts.rolling_restart, 0),
    "11 reassignment": (reassignments.throttled_reassignment, 48),
    "12 voters": (voters.rotate_voters, 0),
    "13 coordinators": (coordinators.kill_coordinators, 3),
    "14 racks": (racks.follower_reads, 5),
}


def main() -> int:
    """Run rounds of all steps until the time is over; return 1 when one fails."""
    options = _options()
    order = random.Random(options.seed)
    print(f"seed {options.seed}, commit {commit_of_the_tree()}, {options.seconds:g} s", flush=True)
    began, done = time.monotonic(), 0
    memory: list[tuple[float, float]] = []
    with SoakCluster() as cluster:
        base = open_files(cluster)
        while time.monotonic() - began < options.seconds:
            for step in order.sample(list(STEPS), len(STEPS)):
                if time.monotonic() - began > options.seconds:
                    break
                if not _run(cluster, step, base):
                    return 1
                done += 1
                memory.append((time.monotonic() - began, _memory(cluster)))
    print(_summary(done, time.monotonic() - began, memory))
    return 0


def _run(cluster: SoakCluster, step: str, base: int) -> bool:
    """Run one step; bring all nodes back; False when it failed, or left files open."""
    run, argument = STEPS[step]
    started = time.monotonic()
    try:
        run(cluster, argument)
        cluster.start()
        delete_topics(cluster)
        wait_for_closed_files(cluster, base)
    except (AssertionError, TimeoutError, OSError, EOFError, RuntimeError) as error:
        print(f"FAILED {step}: {type(error).__name__} {error}", flush=True)
        for node_id in cluster.nodes:
            print(f"--- node {node_id}\n{cluster.log_of(node_id, 15)}", flush=True)
        return False
    load = os.getloadavg()[0]
    taken = time.monotonic() - started
    print(f"{step}: {taken:.1f} s, {_memory(cluster):.0f} MB, load {load:.1f}", flush=True)
    return True


def wait_for_closed_files(cluster: BarnabasCluster, base: int) -> None:
    """Wait until no node has more files and connections open than `base` and some."""
    try:
        observation.seconds_until(lambda: open_files(cluster) <= base + _LEFT_OPEN_MAX, _CLOSED_S)
    except TimeoutError:
        raise AssertionError(f"{open_files(cluster)} files are open, {base} before") from None


def open_files(cluster: BarnabasCluster) -> int:
    """Return the open descriptors of the node that has most, without those of internal topics."""
    return max(_open_files_of(node.pid) for node in cluster.nodes.values())


def _open_files_of(pid: int) -> int:
    targets: list[str] = []
    for descriptor in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):  # closed meanwhile
            targets.append(os.readlink(f"/proc/{pid}/fd/{descriptor}"))
    return sum("/__" not in target for target in targets)


def _memory(cluster: SoakCluster) -> float:
    """Return the resident memory of the largest node in MB."""
    return max(resident_mb(node.pid) for node in cluster.nodes.values())


def _summary(done: int, seconds: float, memory: list[tuple[float, float]]) -> str:
    """Return a line: steps, what was read, and the slope of the memory."""
    return (
        f"{done} steps in {seconds:.0f} s; read and compared {READ.bytes / 1e6:.1f} MB "
        f"({READ.records} records); memory of the largest node {memory[0][1]:.0f} to "
        f"{memory[-1][1]:.0f} MB, slope {_slope(memory) * 3600:+.1f} MB per hour"
    )


def _slope(points: list[tuple[float, float]]) -> float:
    """Return the slope of the line through points with the least squares."""
    count = len(points)
    mean_x, mean_y = (sum(each[axis] for each in points) / count for axis in (0, 1))
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m compat_tests.cluster.soak", description=__doc__
    )
    parser.add_argument("--seconds", type=float, default=600.0, help="start no step after these")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
