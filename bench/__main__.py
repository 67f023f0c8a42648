"""`python -m bench`: measure, print, and write bench/results.md."""

import argparse
import sys
from pathlib import Path

from bench import report
from bench.rows import ROWS, WARM_UP, Bench, Figure
from bench.servers import Measured, kinds_to_measure

_WARM_UP_SCALE = 0.1


def main() -> int:
    """Run the selected rows against each server alternately, for the given number of rounds."""
    options = _options()
    kinds = kinds_to_measure(options.only)
    runs: dict[str, list[Figure]] = {kind: [] for kind in kinds}
    for number in range(options.rounds):
        for kind, server in kinds.items():
            print(f"round {number + 1} of {options.rounds}, {kind}", file=sys.stderr)
            runs[kind] += _round(server(), options.rows, options.scale)
    if "barnabas" not in runs:
        for figure in report.medians(runs["kafka"]).values():
            print(f"{figure.row}: {figure.value:.4g} {figure.unit}")
        return 0
    print(report.table(runs))
    if options.write:
        report.write(Path(__file__).parent, runs, options.rounds)
    return 0


def _round(server: Measured, rows: list[str], scale: float) -> list[Figure]:
    figures: list[Figure] = []
    bench = Bench(server, scale)
    try:
        found = ROWS["start"](bench)
        if "start" in rows:
            figures += _shown(found)
        for row in WARM_UP:
            if row in rows:
                ROWS[row](Bench(server, scale * _WARM_UP_SCALE))
        for row in rows:
            if row != "start":
                figures += _shown(ROWS[row](bench))
    finally:
        server.close()
    return figures


def _shown(figures: list[Figure]) -> list[Figure]:
    for figure in figures:
        print(f"  {figure.row}: {figure.value:.4g} {figure.unit}", file=sys.stderr)
    return figures


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), metavar="ROW")
    parser.add_argument("--only", choices=["kafka", "barnabas"], help="measure one server alone")
    parser.add_argument("--rounds", type=int, default=1, help="how often the servers take turns")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies what is sent")
    parser.add_argument("--no-write", dest="write", action="store_false")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
