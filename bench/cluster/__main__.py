"""`python -m bench.cluster`: run the ladder, print its table, and write bench/cluster-latest.md.

The servers run in turn, never at the same time. All values of all rounds are in the table.
"""

import argparse
import compileall
import os
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import barnabas
from compat_tests import jars
from compat_tests.cluster import steps
from compat_tests.cluster.clusters import CLUSTERS, ProxiedCluster, TrialCluster

# Step -> its argument: seconds, where it has one.
STEPS: Mapping[str, tuple[steps.Step, float]] = {
    "start": (steps.start, 0),
    "throughput": (steps.throughput, 10),
    "latency": (steps.ack_latency, 10),
    "kill-leader": (steps.kill_leader, 0),
    "kill-controller": (steps.kill_controller, 0),
    "kill-all": (steps.kill_all, 0),
    "suspend-leader": (steps.suspend_leader, 12),
    "suspend-leader-long": (steps.suspend_leader, 40),
    "suspend-controller": (steps.suspend_controller, 12),
    "rolling-restart": (steps.rolling_restart, 0),
    "transactions": (steps.kill_coordinator, 0),
    "minority": (steps.minority_is_refused, 0),
    "equal-replicas": (steps.equal_replicas, 0),
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
    if "barnabas" in options.servers and "cut-leader" in options.steps:
        _proxied(found, units, failures)
    text = report(found, units, failures, options.rounds)
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
    cluster = CLUSTERS[name]()
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
    try:
        figures = run(cluster, argument)
    except (AssertionError, TimeoutError, OSError, EOFError) as error:
        failures.append(f"{name}, {step}: {type(error).__name__} {str(error)[:300]}")
        print(f"  {failures[-1]}", file=sys.stderr)
        return
    _take(name, figures, found, units)


def _take(name: str, figures: list[steps.Figure], found: Values, units: dict[str, str]) -> None:
    for figure in figures:
        print(f"  {figure.name}: {figure.value:.4g} {figure.unit}", file=sys.stderr)
        units[figure.name] = figure.unit
        found.setdefault(figure.name, {}).setdefault(name, []).append(figure.value)


def _proxied(found: Values, units: dict[str, str], failures: list[str]) -> None:
    cluster = ProxiedCluster()
    try:
        cluster.start()
        _take("barnabas", steps.cut_leader(cluster), found, units)
        _take("barnabas", steps.slow_follower(cluster), found, units)
    except (AssertionError, TimeoutError) as error:
        failures.append(f"barnabas, cut-leader: {str(error)[:300]}")
    finally:
        cluster.close()


def report(found: Values, units: Mapping[str, str], failures: list[str], rounds: int) -> str:
    """Return the table: median, maximum and all values of each server."""
    load = " ".join(f"{each:.1f}" for each in os.getloadavg())
    lines = [
        "# Three nodes, RF 3, min.insync.replicas 2",
        "",
        f"Commit {steps.commit_of_the_tree()}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {rounds} "
        f"rounds, {os.cpu_count()} cores, load average at the end {load}. Default timeouts; "
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
    parser.add_argument("--steps", nargs="+", default=[*STEPS, "cut-leader"], metavar="STEP")
    parser.add_argument("--servers", nargs="+", choices=CLUSTERS, default=None)
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
