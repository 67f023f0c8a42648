"""ksqlDB's REST tests: their requests to a runner with SQL, and its answers.

The cases are ksqlDB's `rest-query-validation-tests`, JSON files under its own licence, so a person
names the directory that has them:

    make sql-rest-cases ARGS="--cases DIR"
    make sql-rest-cases ARGS="--cases DIR --sample 100 --seed 1"

A node, a schema registry and a runner start; each case creates its topics, and removes them. Rows
of a table without LIMIT have no order, and are compared without one.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.testing.free_ports import free_ports
from compat_tests.pipeline.connect_workers import RunnerProcess
from compat_tests.servers import BarnabasProcess, started
from compat_tests.sql_case_files import rest_cases_of
from compat_tests.sql_cases import case_arguments, chosen, run
from compat_tests.sql_rest_case_runs import RestServers
from tests.registry.live_registry import live_registry

if TYPE_CHECKING:
    from collections.abc import Generator


class _CaseRunner(RunnerProcess):
    """A runner with SQL and a registry."""

    registry = ""
    sql_port = 0

    def command(self) -> list[str]:
        given = {
            "checkpoint.dir": str(self.directory / "checkpoints"),
            "view.dir": str(self.directory / "views"),
            "ksql.schema.registry.url": self.registry,
        }
        more = [f"--set={name}={value}" for name, value in given.items()]
        listen = ("--sql", "--sql-listen", f"127.0.0.1:{self.sql_port}")
        spark = ("--spark=spark.sql.shuffle.partitions=1",)
        return [*super().command(), *more, *listen, *spark]


@contextmanager
def rest_servers() -> Generator[RestServers]:
    """Start a node, a registry and a runner, and stop them at the end."""
    # Records of cases have times of 1970, which retention would remove.
    server = BarnabasProcess({"log.retention.ms": "-1"})
    with (
        tempfile.TemporaryDirectory() as directory,
        started(server),
        live_registry(server.bootstrap) as registry,
    ):
        runner = _CaseRunner(server.bootstrap, Path(directory), "sql-rest-cases")
        runner.registry = registry
        (runner.sql_port,) = free_ports(1)
        runner.start()
        try:
            url = f"http://127.0.0.1:{runner.sql_port}"
            with RestServers(server.bootstrap, registry, url) as servers:
                yield servers
        finally:
            runner.stop()


def main() -> None:
    """Run the cases."""
    given = case_arguments("ksqlDB's REST tests.").parse_args()
    cases = chosen(rest_cases_of(given.cases), given)
    with rest_servers() as servers:
        run(cases, [servers.failure_of], given.results)


if __name__ == "__main__":
    main()
