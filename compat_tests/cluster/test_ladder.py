"""The short form of the ladder: each step once, against three barnabas processes.

`make ladder` runs the steps repeatedly and beside Apache Kafka. Bounds here are wide, as the
machine of a CI run is shared: what must hold exactly is asserted by the steps themselves.
"""

from collections.abc import Iterator

import pytest

from compat_tests.cluster import steps
from compat_tests.cluster.clusters import BarnabasCluster, ProxiedCluster, TrialCluster

pytestmark = [pytest.mark.barnabas_only, pytest.mark.timeout(240)]

GAP_S = 6.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[TrialCluster]:
    trial = BarnabasCluster()
    trial.start()
    yield trial
    trial.close()


def gap(figures: list[steps.Figure]) -> float:
    return next(each.value for each in figures if "longest gap" in each.name)


def test_start_of_three_new_nodes() -> None:
    trial = BarnabasCluster()
    try:
        figures = {each.name: each.value for each in steps.start(trial)}
    finally:
        trial.close()
    assert figures["memory of each node, idle"] <= 60


def test_steady_production_keeps_all_replicas_in_sync(cluster: TrialCluster) -> None:
    steps.throughput(cluster, 3)


def test_single_record_in_flight_is_acked_at_its_offset(cluster: TrialCluster) -> None:
    steps.ack_latency(cluster, 2)


def test_kill_of_a_leader_loses_nothing(cluster: TrialCluster) -> None:
    assert gap(steps.kill_leader(cluster)) < GAP_S


def test_kill_of_the_active_controller_loses_nothing(cluster: TrialCluster) -> None:
    assert gap(steps.kill_controller(cluster)) < GAP_S


def test_kill_of_all_nodes_loses_nothing(cluster: TrialCluster) -> None:
    steps.kill_all(cluster)


def test_suspended_leader_acks_nothing_false(cluster: TrialCluster) -> None:
    steps.suspend_leader(cluster, 5)


def test_suspended_controller_loses_nothing(cluster: TrialCluster) -> None:
    steps.suspend_controller(cluster, 5)


@pytest.mark.parametrize("is_controller", [True, False], ids=["controller", "broker only"])
def test_leader_that_is_cut_off_acks_nothing_false(*, is_controller: bool) -> None:
    trial = ProxiedCluster()
    try:
        trial.start()
        steps.cut_leader(trial, is_controller=is_controller)
    finally:
        trial.close()


def test_rolling_restart_shows_clients_no_error(cluster: TrialCluster) -> None:
    steps.rolling_restart(cluster)


def test_transactional_copy_is_exactly_once_while_nodes_are_killed(cluster: TrialCluster) -> None:
    steps.kill_coordinator(cluster)


def test_minority_of_the_voters_decides_nothing(cluster: TrialCluster) -> None:
    steps.minority_is_refused(cluster)


def test_replicas_are_byte_equal(cluster: TrialCluster) -> None:
    steps.equal_replicas(cluster)
