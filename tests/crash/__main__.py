"""`make soak`: kill a node under load, for a number of cycles or seconds, and print the result."""

import argparse
import sys
import time

from tests.crash.kills import run

# Kills per node; then all records are read, and a new node follows.
_ROUND = 25


def main() -> int:
    """Run rounds; return 1 when one finds a fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--cycles", type=int, default=200, help="kills in all")
    parser.add_argument("--seconds", type=float, default=0, help="begin no round after so long")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    began, seed = time.monotonic(), options.seed
    kills = acked = 0
    while kills < options.cycles:
        took = time.monotonic() - began
        if options.seconds and took > options.seconds:
            break
        result = run(cycles=min(_ROUND, options.cycles - kills), seed=seed)
        kills, acked = kills + result.kills, acked + result.acked
        print(f"seed {seed}: {result}", flush=True)
        if result.faults:
            print("\n".join(result.faults[:20]))
            return 1
        seed += 1
    took = time.monotonic() - began
    print(f"killed {kills} times in {took:.0f} s: {acked} acknowledged, all is there")
    return 0


if __name__ == "__main__":
    sys.exit(main())
