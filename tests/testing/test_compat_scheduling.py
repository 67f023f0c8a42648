"""The division of the modules of `make compat` among processes."""

from collections import Counter
from pathlib import Path

import pytest

from compat_tests.scheduling import (
    CLUSTERS,
    LONG,
    NODES,
    PIPELINES,
    home_of,
    next_of,
    part_of,
    part_to_take,
)

COMPAT_TESTS = Path(__file__).parents[2] / "compat_tests"


@pytest.mark.parametrize(
    ("module", "part"),
    [
        ("compat_tests/cluster/test_ladder.py", CLUSTERS),
        ("compat_tests/clients/test_suites_on_three_nodes.py", CLUSTERS),
        ("compat_tests/test_spark_tokens.py", CLUSTERS),
        ("compat_tests/pipeline/test_spark_format.py", PIPELINES),
        ("compat_tests/pipeline/streams_parity/test_streams_skew.py", PIPELINES),
        ("compat_tests/pipeline/test_forward_kills.py", NODES),
        ("compat_tests/test_acls.py", NODES),
    ],
)
def test_module_is_of_its_part(module: str, part: str) -> None:
    assert part_of(module) == part


def test_each_part_has_a_process_and_single_nodes_the_rest() -> None:
    assert [home_of(worker, 4) for worker in range(4)] == [NODES, PIPELINES, CLUSTERS, PIPELINES]
    assert home_of(0, 1) == NODES


def test_process_takes_of_its_part_then_of_the_longest_and_clusters_last() -> None:
    workers = Counter({NODES: 2, PIPELINES: 1, CLUSTERS: 1})

    left = Counter({NODES: 9, PIPELINES: 5, CLUSTERS: 7})
    assert part_to_take(CLUSTERS, left, workers) == CLUSTERS
    del left[CLUSTERS]
    assert part_to_take(CLUSTERS, left, workers) == PIPELINES
    left[PIPELINES] = 4
    assert part_to_take(CLUSTERS, left, workers) == NODES
    assert part_to_take(NODES, Counter({CLUSTERS: 3}), workers) == CLUSTERS


def test_long_modules_of_a_part_are_its_first_and_the_others_keep_their_order() -> None:
    first, second, long = (f"compat_tests/{name}.py" for name in ("test_a", "test_b", "test_flink"))
    modules = [first, "compat_tests/pipeline/test_mirror.py", second, long]
    order = []
    while of_part := [module for module in modules if part_of(module) == NODES]:
        order.append(next_of(modules, NODES))
        modules.remove(order[-1])
        assert order[-1] in of_part
    assert order == [long, first, second]


def test_long_modules_exist() -> None:
    assert {path.stem for path in COMPAT_TESTS.rglob("test_*.py")} >= LONG
