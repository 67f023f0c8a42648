"""`python -m bench.cluster`: run the ladder, print its table, and write bench/cluster-latest.md.

The servers run in turn, never at the same time. All values of all rounds are in the table.
"""

import argparse
import compileall
import os
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import barnabas
from compat_tests import jars
from compat_tests.cluster.clusters import (
    CLUSTERS,
    ProxiedCluster,
    SecuredCluster,
    SecuredKafkaCluster,
    TrialCluster,
)
from compat_tests.cluster.faulty_disks import EIO, ENOSPC, FaultyCluster
from compat_tests.cluster.other_pingers import PINGERS
from compat_tests.cluster.steps import (
    coordinators,
    disks,
    exchange,
    kills,
    network,
    production,
    racks,
    reassignments,
    restarts,
    suspensions,
    voters,
)
from compat_tests.cluster.steps.trial import Figure, Step, commit_of_the_tree

# Step -> its argument: seconds or a number of clients, where it has one.
STEPS: Mapping[str, tuple[Step, float]] = {
    "start": (production.start, 0),
    "throughput": (production.throughput, 10),
    "latency": (production.ack_latency, 10),
    "kill-leader": (kills.kill_leader, 0),
    **{
        f"kill-leader-{client}": (kills.kill_leader_under(client), 0)
        for client in PINGERS
        if client != "librdkafka"
    },
    "kill-controller": (kills.kill_controller, 0),
    "kill-all": (kills.kill_all, 0),
    "suspend-leader": (suspensions.suspend_leader, 12),
    "suspend-leader-long": (suspensions.suspend_leader, 40),
    "suspend-controller": (suspensions.suspend_controller, 12),
    "rolling-restart": (restarts.rolling_restart, 0),
    "coordinators": (coordinators.kill_coordinators, 50),
    "minority": (suspensions.minority_is_refused, 0),
    "equal-replicas": (kills.equal_replicas, 0),
}
# Steps of barnabas alone, each on a new cluster: the cluster, the step, and its argument.
SPECIAL: Mapping[
    str, tuple[Callable[[], TrialCluster], Callable[[Any, Any], list[Figure]], Any]
] = {
    "cut-leader": (ProxiedCluster, network.cut_leader, 0),
    "slow-follower": (network.far_nodes, network.far_follower, 60),
    "disk-full": (FaultyCluster, disks.fail_log_directory, ENOSPC),
    "disk-broken": (FaultyCluster, disks.fail_log_directory, EIO),
    "slow-syncs": (FaultyCluster, disks.slow_syncs, 5),
    "metadata-disk-broken": (FaultyCluster, disks.fail_metadata_directory, 0),
    "reassign": (reassignments.four_nodes, reassignments.throttled_reassignment, 120),
    "voters": (voters.five_nodes, voters.change_voters, 0),
    "racks": (racks.RackedCluster, racks.follower_reads, 10),
    **({} if jars.missing() else {"exchange": (exchange.three_kafkas, exchange.exchange, 0)}),
}
SECURED: Mapping[str, type[SecuredCluster] | type[SecuredKafkaCluster]] = {
    "barnabas": SecuredCluster,
    "kafka": SecuredKafkaCluster,
}
REPEATED = ("kill-leader", "kill-controller")
"""Steps that a round runs several times: their figures have a wide spread."""

TARGETS: Mapping[str, str] = {
    "start to all registered": "≤ 2.0 s",
    "memory of each node, idle": "≤ 60 MB",
    "produce 100 B, 3 partitions": "≥ 1.5 x Kafka",
    "ack latency, one in flight, p50": "≤ 1.0 ms",
    "ack latency, one in flight, p99": "≤ 4 ms",
    "kill of a leader: longest gap in acks": "≤ 1 s median, ≤ 2 s in 19 of 20",
    "kill of the active controller: longest gap in acks": "≤ 1 s median, ≤ 2 s in 19 of 20",
    "rolling restart: client errors": "0",
}

Values = dict[str, dict[str, list[float]]]
"""Figure -> server -> the values of all rounds."""


def main() -> int:
    """Run the selected steps; return 1 when a step failed."""
    options = _options()
    compileall.compile_dir(Path(barnabas.__file__).parent, quiet=1)  # as pip does
    found: Values = {}
    units: dict[str, str] = {}
    failures: list[str] = []
    deadline = time.monotonic() + options.seconds
    for number in range(options.rounds):
        for name in options.servers:
            print(f"round {number + 1}, {name}", file=sys.stderr)
            _round(name, options, found, units, failures, deadline)
    for step in SPECIAL if "barnabas" in options.servers else ():
        if step in options.steps and time.monotonic() < deadline:
            _special(step, found, units, failures)
    text = report(found, units, failures, options)
    print(text)
    if options.write:
        (Path(__file__).parent.parent / "cluster-latest.md").write_text(text + "\n")
    return 1 if failures else 0


def _round(
    name: str,
    options: argparse.Namespace,
    found: Values,
    units: dict[str, str],
    failures: list[str],
    deadline: float,
) -> None:
    cluster = (SECURED if options.secured else CLUSTERS)[name]()
    try:
        for step in ["start", *(each for each in STEPS if each in options.steps)]:
            if step == "start" and any(node.is_running for node in cluster.nodes.values()):
                continue
            times = options.repeat if step in REPEATED and name == "barnabas" else 1
            for _ in range(times):
                if time.monotonic() < deadline or step == "start":
                    _run(name, cluster, step, found, units, failures)
                cluster.start()
    finally:
        cluster.close()


def _run(
    name: str,
    cluster: TrialCluster,
    step: str,
    found: Values,
    units: dict[str, str],
    failures: list[str],
) -> None:
    run, argument = STEPS[step]
    _take(name, step, lambda: run(cluster, argument), found, units, failures)


def _special(step: str, found: Values, units: dict[str, str], failures: list[str]) -> None:
    """Run a step on its own new cluster."""
    print(step, file=sys.stderr)
    make, run, argument = SPECIAL[step]

    def figures() -> list[Figure]:
        with make() as cluster:
            return run(cluster, argument)

    _take("barnabas", step, figures, found, units, failures)


def _take(
    name: str,
    step: str,
    run: Callable[[], list[Figure]],
    found: Values,
    units: dict[str, str],
    failures: list[str],
) -> None:
    """Run a step; keep its figures, or the reason of its failure."""
    try:
        figures = run()
    except (AssertionError, TimeoutError, OSError, EOFError) as error:
        failures.append(f"{name}, {step}: {type(error).__name__} {str(error)[:300]}")
        print(f"  {failures[-1]}", file=sys.stderr)
        return
    for figure in figures:
        print(f"  {figure.name}: {figure.value:.4g} {figure.unit}", file=sys.stderr)
        units[figure.name] = figure.unit
        found.setdefault(figure.name, {}).setdefault(name, []).append(figure.value)


def report(
    found: Values, units: Mapping[str, str], failures: list[str], options: argparse.Namespace
) -> str:
    """Return the table: median, maximum and all values of each server."""
    load = " ".join(f"{each:.1f}" for each in os.getloadavg())
    protocol = "SASL_SSL on each listener, ACLs" if options.secured else "PLAINTEXT"
    lines = [
        "# Three nodes, RF 3, min.insync.replicas 2",
        "",
        f"Commit {commit_of_the_tree()}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, "
        f"{options.rounds} rounds, {protocol}, {os.cpu_count()} cores, load average at the end "
        f"{load}. Default timeouts; "
        "librdkafka, acks=all; Apache Kafka 4.3.0 with 512 MB of heap each.",
        "",
        "| what | unit | server | median | max | all values | to reach |",
        "| --- | --- | --- | ---: | ---: | --- | --- |",
    ]
    for figure, servers in found.items():
        for name, values in sorted(servers.items()):
            target = TARGETS.get(figure, "") if name == "barnabas" else ""
            shown = ", ".join(f"{value:.3g}" for value in values)
            lines.append(
                f"| {figure} | {units[figure]} | {name} | {median(values):.3g} | "
                f"{max(values):.3g} | {shown} | {target} |"
            )
    if failures:
        lines += ["", "Failed steps:", "", *(f"- {failure}" for failure in failures)]
    return "\n".join(lines)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.cluster", description=__doc__)
    parser.add_argument("--steps", nargs="+", default=[*STEPS, *SPECIAL], metavar="STEP")
    parser.add_argument("--servers", nargs="+", choices=CLUSTERS, default=None)
    parser.add_argument("--secured", action="store_true", help="SASL_SSL on each listener")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=20, help="kills in a round (barnabas)")
    parser.add_argument("--seconds", type=float, default=3600.0, help="start no step after these")
    parser.add_argument("--write", action="store_true", help="write bench/cluster-latest.md")
    options = parser.parse_args()
    if options.servers is None:
        options.servers = ["barnabas"] if jars.missing() else ["barnabas", "kafka"]
    return options


if __name__ == "__main__":
    sys.exit(main())
