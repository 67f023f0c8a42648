"""The division of the tests of `make compat` among its processes.

A module runs in one process, because its tests share servers and sessions. The modules form four
parts: clusters have one process, pipelines two, single nodes one, and those that mostly wait one,
so that the others can keep both cores busy. The modules of pipelines share one JVM of Spark for
each process, which costs half a minute of CPU until it is warm. Modules that start Spark with other
settings need a process without that JVM, so they are with the clusters. A process whose part has no
module left takes one of the part with the most modules left for each of its processes, of clusters
last; only the one of modules that wait ends, since a further JVM would cost more than it saves.
Long modules start first in their part, so that no process runs one while the others have ended.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

CLUSTERS, PIPELINES, NODES, WAITING = "clusters", "pipelines", "nodes", "waiting"
# A process knows its next test before it starts one.
PENDING_MIN = 2
FIRST = (
    *("test_streams_skew", "test_streams", "test_flink", "test_suites_on_three_nodes"),
    *("test_streams_chains", "test_sql_replacement", "test_groups_churn", "test_ladder_special"),
    *("test_pipelines_docs", "test_mirror", "test_streams_driver", "test_spark", "test_ladder"),
    *("test_mirror_drill", "test_backlogs", "test_sql_queries", "test_streams_docs"),
    "test_migration",
    *("test_sql_rest", "test_sql_scripts", "test_spark_cluster", "test_streams_upgrade"),
    *("test_hosted_java_rights", "test_connect_oracle", "test_spark_format"),
    *("test_transactions", "test_disk_interchange", "test_java_tools", "test_security_page"),
    *("test_kerberos_page", "test_spark_tokens", "test_sasl", "test_authorizer"),
)
"""Modules that take long, in the order in which they start within their part. Those that keep both
cores busy alternate with those that mostly wait."""

_WAITS = (
    *("test_groups_churn", "test_sql_replacement", "test_spark_format", "test_disk_interchange"),
    *("test_streams_upgrade", "test_sql_jobs", "test_sql_replaced_shapes", "test_sql_faults"),
)
"""Modules that compute for less than a seventh of their time, beside kills of jobs."""

_RANKS = {name: rank for rank, name in enumerate(FIRST)}


def part_of(module: str) -> str:
    """Return the part of a module."""
    path = PurePosixPath(module)
    is_pipeline = path.is_relative_to("compat_tests/pipeline")
    if path.stem in _WAITS or (is_pipeline and "kill" in path.name):
        return WAITING
    if path.parts[1] in ("cluster", "clients") or path.match("compat_tests/test_spark*"):
        return CLUSTERS
    return PIPELINES if is_pipeline else NODES


def home_of(worker: int, workers: int) -> str:
    """Return the part whose modules process `worker` of `workers` runs first."""
    homes = [NODES, PIPELINES, CLUSTERS, PIPELINES, WAITING]
    return homes[worker] if worker < min(workers, len(homes)) else NODES


def part_to_take(home: str, left: Counter[str], workers: Counter[str]) -> str:
    """Return the part of a process's next module, of which at least one is left."""
    if left[home]:
        return home
    others = [part for part in left if left[part] and part != CLUSTERS] or [CLUSTERS]
    return max(others, key=lambda part: left[part] / max(1, workers[part]))


def next_of(modules: Iterable[str], part: str) -> str:
    """Return the next module of a part: the first of `FIRST` that is left, else the first."""
    of_part = (module for module in modules if part_of(module) == part)
    return min(of_part, key=lambda module: _RANKS.get(PurePosixPath(module).stem, len(FIRST)))


class PartScheduling(LoadFileScheduling):
    """Assigns modules by part; see the docstring of this module."""

    def _home(self, node: Any) -> str:
        return home_of(int(node.gateway.id.removeprefix("gw")), self.numnodes)

    def _assign_work_unit(self, node: Any) -> None:
        left = Counter(part_of(module) for module in self.workqueue)
        part = part_to_take(self._home(node), left, Counter(map(self._home, self.nodes)))
        self.workqueue.move_to_end(next_of(self.workqueue, part), last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node: Any) -> None:
        if self.workqueue and self._pending_of(self.assigned_work[node]) >= PENDING_MIN:
            return
        parts = {part_of(module) for module in self.workqueue}
        if self._home(node) == WAITING and WAITING not in parts and not node.shutting_down:
            node.shutdown()
            return
        super()._reschedule(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> PartScheduling | None:
    """Divide by part when modules run in one process each (`--dist loadfile`)."""
    return PartScheduling(config, log) if config.getoption("dist") == "loadfile" else None
