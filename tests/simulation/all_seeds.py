"""Run seeds of every simulation of the cluster, without mistakes.

`make sim-coverage` measures which lines of `barnabas.cluster` they execute.
"""

import argparse
import logging
import sys
from collections.abc import Sequence

from barnabas.testing.simulation import prepare, run
from tests.cluster import admin_simulation, wire_seeds
from tests.simulation import cluster_scenarios
from tests.simulation.mistake_table import MISTAKES, Simulated, violation_of

_WITHOUT_MISTAKES = (
    Simulated("Raft over bytes", wire_seeds.run),
    Simulated("administration", admin_simulation.run),
    Simulated("whole cluster with all features", lambda seed: run(prepare(seed, 30))),
    Simulated("three releases", lambda seed: run(cluster_scenarios.three_releases(seed))),
)
"""Simulations that no row of the table uses."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the seeds; the exit code is 1 when one fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.all_seeds")
    parser.add_argument("--seeds", type=int, default=20, help="seeds of each simulation")
    given = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    failures = 0
    simulations = (each.simulation for each in MISTAKES)
    for simulation in dict.fromkeys((*simulations, *_WITHOUT_MISTAKES)):
        for seed in range(given.seeds):
            found = violation_of(simulation, seed)
            if found:
                failures += 1
                print(f"{simulation.name}: seed {seed} fails: {found}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
