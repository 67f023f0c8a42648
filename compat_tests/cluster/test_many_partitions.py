"""A thousand partitions on three nodes: the short form of `make ladder-partitions`."""

import pytest

from compat_tests.cluster.many_partitions import MeteredCluster, many_partitions

pytestmark = [pytest.mark.barnabas_only, pytest.mark.timeout(240)]


def test_partitions_of_a_killed_controller_are_led_again() -> None:
    cluster = MeteredCluster()
    try:
        figures = many_partitions(cluster, 1000, of_controller=True)
    finally:
        cluster.close()
    assert any("longest hold" in each.name for each in figures)
