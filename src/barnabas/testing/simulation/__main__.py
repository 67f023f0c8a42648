"""Run seeds of the simulation: `python -m barnabas.testing.simulation --seconds 60`.

Each seed that fails is printed with the faults that remain when those without influence on the
failure are removed. The exit code is 1 when a seed failed.
"""

import argparse
import gc
import sys
import time
from collections.abc import Sequence

from barnabas.testing.simulation.faults import Fault, describe, shrink
from barnabas.testing.simulation.runner import prepare, run


def failure_of(seed: int, sim_seconds: int, faults: Sequence[Fault] | None = None) -> str | None:
    """Return why a seed fails, or None."""
    simulation = prepare(seed, sim_seconds, faults=None if faults is None else list(faults))
    try:
        run(simulation)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def report_failure(seed: int, sim_seconds: int, reason: str) -> None:
    """Print a failing seed, with the shortest schedule of faults that still fails."""
    simulation = prepare(seed, sim_seconds)
    faults = shrink(
        simulation.faults, lambda shorter: failure_of(seed, sim_seconds, shorter) is not None
    )
    print(f"seed {seed} fails: {reason}\n  {simulation.options}\n{describe(faults)}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one seed with its log, or seeds for a time."""
    parser = argparse.ArgumentParser(prog="python -m barnabas.testing.simulation")
    parser.add_argument("--seed", type=int, help="run this seed alone and print what happens")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--seconds", type=float, default=60, help="the time to run seeds for")
    parser.add_argument("--sim-seconds", type=int, default=60, help="simulated time with faults")
    given = parser.parse_args(arguments)
    if given.seed is not None:
        simulation = prepare(given.seed, given.sim_seconds)
        print(f"seed {given.seed}: {simulation.options}\n{describe(simulation.faults)}")
        simulation.world.log = print
        run(simulation)
        return 0
    return run_for(given.first, given.seconds, given.sim_seconds)


def run_for(first: int, seconds: float, sim_seconds: int) -> int:
    """Run seeds from `first` on until the time is over; return the exit code."""
    end, seed, failed, events = time.monotonic() + seconds, first, 0, 0
    began = time.monotonic()
    while time.monotonic() < end:
        simulation = prepare(seed, sim_seconds)
        try:
            run(simulation)
        except Exception as error:
            failed += 1
            report_failure(seed, sim_seconds, f"{type(error).__name__}: {error}")
        events += simulation.world.events
        seed += 1
        gc.collect()
    rate = events / (time.monotonic() - began)
    print(f"{seed - first} seeds, {failed} failed, {events} events, {rate:,.0f} events/s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
