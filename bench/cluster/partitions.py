"""`python -m bench.cluster.partitions`: 10,000 partitions, one of three nodes killed.

Each round starts a new cluster of each server in turn, and kills a node that is only a broker's
leader or, in every second round, the active controller.
"""

import argparse
import compileall
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import barnabas
from compat_tests import jars
from compat_tests.cluster.clusters import KafkaCluster, TrialCluster
from compat_tests.cluster.many_partitions import MeteredCluster, many_partitions
from compat_tests.cluster.steps.trial import commit_of_the_tree

CLUSTERS: dict[str, type[TrialCluster]] = {"barnabas": MeteredCluster, "kafka": KafkaCluster}
TARGETS = {
    "noticed to all led, on every node": "≤ 1 s",
    "longest hold of a loop, CPU, at most": "≤ 100 ms",
}


def main() -> int:
    """Run the rounds and print the table; return 1 when one failed."""
    options = _options()
    compileall.compile_dir(Path(barnabas.__file__).parent, quiet=1)  # as pip does
    found: dict[str, dict[str, list[float]]] = {}
    units: dict[str, str] = {}
    failed = 0
    clusters: list[TrialCluster] = []
    for number in range(options.rounds):
        for name in options.servers:
            cluster = CLUSTERS[name]()
            clusters.append(cluster)
            print(f"round {number + 1}, {name}", file=sys.stderr)
            try:
                of_controller = options.kill == "controller" or (
                    options.kill == "both" and number % 2 == 1
                )
                for figure in many_partitions(
                    cluster, options.partitions, of_controller=of_controller
                ):
                    print(f"  {figure.name}: {figure.value:.4g} {figure.unit}", file=sys.stderr)
                    units[figure.name] = figure.unit
                    found.setdefault(figure.name, {}).setdefault(name, []).append(figure.value)
            except (AssertionError, TimeoutError, OSError, EOFError) as error:
                print(f"  failed: {type(error).__name__} {str(error)[:300]}", file=sys.stderr)
                failed = 1
            finally:
                cluster.kill_all()
    # ext4 makes files slowly for half a minute after 30,000 directories were removed.
    for cluster in clusters:
        cluster.close()
    text = report(found, units, options)
    print(text)
    if options.write:
        (Path(__file__).parent.parent / "cluster-partitions.md").write_text(text + "\n")
    return failed


def report(
    found: dict[str, dict[str, list[float]]], units: dict[str, str], options: argparse.Namespace
) -> str:
    """Return the table: median, maximum and all values of each server."""
    load = " ".join(f"{each:.1f}" for each in os.getloadavg())
    lines = [
        f"# {options.partitions:,} partitions on three nodes, RF 3",
        "",
        f"Commit {commit_of_the_tree()}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {options.rounds} "
        f"rounds, {os.cpu_count()} cores, load average at the end {load}.",
        "",
        "| what | unit | server | median | max | all values | to reach |",
        "| --- | --- | --- | ---: | ---: | --- | --- |",
    ]
    for figure, servers in found.items():
        for name, values in sorted(servers.items()):
            target = next((text for part, text in TARGETS.items() if figure.endswith(part)), "")
            shown = ", ".join(f"{value:.3g}" for value in values)
            lines.append(
                f"| {figure} | {units[figure]} | {name} | {median(values):.3g} | "
                f"{max(values):.3g} | {shown} | {target if name == 'barnabas' else ''} |"
            )
    return "\n".join(lines)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.cluster.partitions", description=__doc__)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--servers", nargs="+", choices=CLUSTERS, default=["barnabas"])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--kill", choices=["broker", "controller", "both"], default="both")
    parser.add_argument("--write", action="store_true", help="write bench/cluster-partitions.md")
    options = parser.parse_args()
    if "kafka" in options.servers and (reason := jars.missing()):
        parser.error(f"Apache Kafka is missing: {reason}")
    return options


if __name__ == "__main__":
    sys.exit(main())
