"""`make soak SECONDS=n`: kill a node under load for so long."""

import argparse
import sys
import time

from tests.crash.kills import run, run_compacted


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--round-s", type=float, default=60, help="seconds of each fresh node")
    arguments = parser.parse_args()
    deadline = time.monotonic() + arguments.seconds
    seed = int(time.time())
    while (left := deadline - time.monotonic()) > 0:
        print(f"seed {seed}")
        faults = run(seconds=min(left, arguments.round_s), seed=seed)
        faults += run_compacted(cycles=10, seed=seed)
        if faults:
            print("\n".join(faults[:20]))
            return 1
        seed += 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
