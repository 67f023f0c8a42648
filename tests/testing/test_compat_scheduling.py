"""The division of the modules of `make compat` among processes."""

from collections import Counter
from pathlib import Path

import pytest

from compat_tests.scheduling import (
    CLUSTERS,
    FIRST,
    NODES,
    PIPELINES,
    WAITING,
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
        ("compat_tests/pipeline/test_spark_format.py", WAITING),
        ("compat_tests/pipeline/streams_parity/test_streams_skew.py", PIPELINES),
        ("compat_tests/pipeline/test_forward_kills.py", WAITING),
        ("compat_tests/test_acls.py", NODES),
    ],
)
def test_module_is_of_its_part(module: str, part: str) -> None:
    assert part_of(module) == part


def test_each_part_has_a_process_and_single_nodes_the_rest() -> None:
    homes = [NODES, PIPELINES, CLUSTERS, PIPELINES, WAITING, NODES]
    assert [home_of(worker, 6) for worker in range(6)] == homes
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


def test_long_modules_start_in_their_order_and_the_others_keep_theirs() -> None:
    names = ("test_a", "test_sasl", "test_b", "test_flink", "pipeline/test_mirror")
    modules = [f"compat_tests/{name}.py" for name in names]
    order = []
    while any(part_of(module) == NODES for module in modules):
        order.append(next_of(modules, NODES))
        modules.remove(order[-1])
    assert [Path(module).stem for module in order] == [
        "test_flink",
        "test_sasl",
        "test_a",
        "test_b",
    ]


def test_long_modules_exist_and_are_named_once() -> None:
    assert {path.stem for path in COMPAT_TESTS.rglob("test_*.py")} >= set(FIRST)
    assert len(set(FIRST)) == len(FIRST)
