"""`python -m compat_tests.clients`: run whole suites of clients on three nodes; print a table.

Each suite has a new cluster. The exit status is 1 when a test fails that passes on Apache Kafka;
the logs of the nodes are then kept in a directory that the output names.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from compat_tests import jars
from compat_tests.client_security import security_of
from compat_tests.clients import franz_suites, java_tools, python_suites
from compat_tests.clients.franz_suites import ClientFiles, ScramUser
from compat_tests.clients.known_failures import KNOWN, unexpected
from compat_tests.clients.outcomes import Outcome, Result, counts, failures
from compat_tests.clients.three_nodes import keep_logs, logs_kept, three_nodes, throttle_all
from compat_tests.cluster.clusters import CLUSTERS, TrialCluster

_RECORDS_PER_SECOND = 1000
_SUITE_TIMEOUT_S = 3600.0


@dataclass(frozen=True)
class Extent:
    """Numbers of records of the suites that have a length."""

    kgo_records: int
    java_records: int


@dataclass(frozen=True)
class Suite:
    """One suite: how it runs, why it cannot, and the partitions of automatic topics."""

    run: Callable[[TrialCluster, Extent], list[Outcome]]
    missing: Callable[[], str | None]
    partitions: int = 4


def _franz(package: str) -> Suite:
    def run(cluster: TrialCluster, extent: Extent) -> list[Outcome]:
        security = security_of(cluster.bootstrap)
        return franz_suites.run(
            package,
            cluster.bootstrap,
            records=extent.kgo_records,
            timeout_s=_SUITE_TIMEOUT_S,
            tls=ClientFiles(security.authority) if security else None,
            user=ScramUser(security.username, security.password) if security else None,
        )

    return Suite(run, franz_suites.missing)


def _kafka_python(cluster: TrialCluster, _: Extent) -> list[Outcome]:
    return python_suites.run_kafka_python(cluster.addresses[1], timeout_s=_SUITE_TIMEOUT_S)


def _aiokafka(cluster: TrialCluster, _: Extent) -> list[Outcome]:
    return python_suites.run_aiokafka(cluster.addresses[1], timeout_s=_SUITE_TIMEOUT_S)


def _java(cluster: TrialCluster, extent: Extent) -> list[Outcome]:
    return java_tools.run(cluster.bootstrap, extent.java_records)


SUITES: Mapping[str, Suite] = {
    "kgo": _franz("kgo"),
    "kadm": _franz("kadm"),
    "kafka-python": Suite(_kafka_python, python_suites.missing_kafka_python),
    "aiokafka": Suite(_aiokafka, python_suites.missing_aiokafka, partitions=2),
    "java": Suite(_java, jars.missing),
}


def _run(
    name: str, server: str, extent: Extent, *, is_secured: bool, is_throttled: bool
) -> list[Outcome] | None:
    """Run a suite on one kind of server; return None when it cannot run here."""
    suite = SUITES[name]
    if reason := suite.missing():
        print(f"skipping {name}: {reason}", flush=True)
        return None
    with (
        three_nodes(server, suite.partitions, is_secured=is_secured) as cluster,
        logs_kept(cluster.logs),
    ):
        if is_throttled:
            throttle_all(cluster)
        outcomes = suite.run(cluster, extent)
        if unexpected(outcomes):
            keep_logs(cluster.logs())
    seconds = sum(each.seconds for each in outcomes if "/" not in each.name)
    print(f"{name} on {server}: {counts(outcomes)}, {seconds:.0f} s of tests", flush=True)
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m compat_tests.clients")
    parser.add_argument("--server", nargs="+", choices=CLUSTERS, default=["barnabas"])
    parser.add_argument("--suites", nargs="+", choices=SUITES, default=list(SUITES))
    parser.add_argument("--records", type=int, default=50_000, help="records of kgo's tests")
    parser.add_argument("--seconds", type=int, default=60, help="length of Java's tools")
    parser.add_argument("--secured", action="store_true", help="kgo, with SCRAM over TLS")
    parser.add_argument("--quotas", action="store_true", help="low quotas of all clients")
    arguments = parser.parse_args()
    if arguments.secured and arguments.suites != ["kgo"]:
        parser.error("--secured is for --suites kgo")
    extent = Extent(arguments.records, arguments.seconds * _RECORDS_PER_SECOND)
    rows: list[str] = []
    wrong: list[str] = []
    for name in arguments.suites:
        cells: list[str] = []
        for server in arguments.server:
            outcomes = _run(
                name,
                server,
                extent,
                is_secured=arguments.secured,
                is_throttled=arguments.quotas,
            )
            cells.append(counts(outcomes) if outcomes is not None else "-")
            for each in outcomes or []:
                if each.result is Result.FAILED and each.name in KNOWN:
                    print(f"  known: {each.name}: {KNOWN[each.name]}")
            if failed := unexpected(outcomes or []):
                wrong.append(f"{name} on {server}:\n{failures(failed)}")
        rows.append(f"| {name} | {' | '.join(cells)} |")
    print(f"\n| suite | {' | '.join(arguments.server)} |")
    print(f"| --- |{' --- |' * len(arguments.server)}", *rows, sep="\n")
    if wrong:
        print("\nTests that are not known to fail:", *wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
