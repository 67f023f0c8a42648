"""The division of the modules of `make compat` among processes."""

from collections import Counter

import pytest

from compat_tests.scheduling import CLUSTERS, NODES, PIPELINES, home_of, part_of, part_to_take


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
