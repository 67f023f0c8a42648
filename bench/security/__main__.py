"""`python -m bench.security`: measure both servers in turn, print, and write results.md."""

import argparse
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from bench import report
from bench.rows import Bench, Figure, start
from bench.security import quotas, rows
from bench.security.servers import Keys, SecuredServer
from bench.servers import Measured, kinds_to_measure

_START, _DECISIONS = "start", "decisions"
_MEASURED: Mapping[str, Sequence[Callable[[SecuredServer, float], list[Figure]]]] = {
    "connections": (rows.connections, rows.logins, rows.idle),
    "tls": (rows.over_tls, rows.requests),
    "quotas": (quotas.throttled,),
}
_ROWS = (_START, *_MEASURED, _DECISIONS)
_RESULTS = Path(__file__).parent / "results.md"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.security", description=__doc__)
    parser.add_argument("--only", choices=["kafka", "barnabas"], help="measure one server alone")
    parser.add_argument("--rounds", type=int, default=1, help="how often the servers take turns")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies what is sent")
    parser.add_argument("--rows", choices=_ROWS, nargs="+", default=[*_ROWS], help="groups of rows")
    parser.add_argument("--no-write", dest="write", action="store_false")
    given = parser.parse_args()
    kinds = kinds_to_measure(given.only)
    runs: dict[str, list[Figure]] = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as directory:
        keys = Keys.make(Path(directory))
        for number in range(given.rounds):
            for kind, server in kinds.items():
                print(f"round {number + 1} of {given.rounds}, {kind}", file=sys.stderr)
                if _START in given.rows:
                    runs[kind] += _started(server())
                secured = SecuredServer(server(), keys)
                runs[kind] += _round(secured, given.rows, given.scale)
    if _DECISIONS in given.rows:
        runs.setdefault("barnabas", []).extend(rows.decisions())
    print(report.table(runs))
    if given.write:
        _RESULTS.write_text(f"{report.heading(given.rounds)}\n\n{report.table(runs)}\n")
    return 0


def _started(server: Measured) -> list[Figure]:
    """Measure the start of a server without security."""
    try:
        return start(Bench(server))[:1]
    finally:
        server.close()


def _round(secured: SecuredServer, groups: Collection[str], scale: float) -> list[Figure]:
    server = secured.server
    try:
        (started, *_) = start(Bench(server))
        secured.add_user()
        rows.warm_up(secured)
        found: list[Figure] = []
        if _START in groups:
            name = "start with TLS and SCRAM"
            found.append(Figure(name, started.unit, started.better, started.value))
        for group, measured in _MEASURED.items():
            if group in groups:
                found += [figure for each in measured for figure in each(secured, scale)]
        return found
    finally:
        server.close()


if __name__ == "__main__":
    sys.exit(main())
