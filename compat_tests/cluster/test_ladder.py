"""The short form of steps 1 to 6 and 10 of the ladder: each once, on three barnabas processes.

`make ladder` runs the steps repeatedly and beside Apache Kafka. `make ladder-secured` runs this
module with SASL_SSL on each listener. Bounds here are wide, as the
machine of a CI run is shared: what must hold exactly is asserted by the steps themselves.
"""

from collections.abc import Iterator

import pytest

from compat_tests.cluster.clusters import BarnabasCluster, SecuredCluster, TrialCluster
from compat_tests.cluster.steps import (
    coordinators,
    kills,
    production,
    restarts,
    suspensions,
)
from compat_tests.cluster.steps.trial import Figure

pytestmark = [pytest.mark.barnabas_only, pytest.mark.timeout(240)]

GAP_S = 6.0


@pytest.fixture(scope="module")
def kind(request: pytest.FixtureRequest) -> type[BarnabasCluster]:
    """The kind of the cluster: PLAINTEXT, or SASL_SSL with --secured."""
    return SecuredCluster if request.config.getoption("--secured") else BarnabasCluster


@pytest.fixture(scope="module")
def cluster(kind: type[BarnabasCluster]) -> Iterator[TrialCluster]:
    trial = kind()
    trial.start()
    yield trial
    trial.close()


def gap(figures: list[Figure]) -> float:
    return next(each.value for each in figures if "longest gap" in each.name)


def test_start_of_three_new_nodes(kind: type[BarnabasCluster]) -> None:
    trial = kind()
    try:
        figures = {each.name: each.value for each in production.start(trial)}
    finally:
        trial.close()
    assert figures["memory of each node, idle"] <= 60


def test_steady_production_keeps_all_replicas_in_sync(cluster: TrialCluster) -> None:
    production.throughput(cluster, 3)


def test_single_record_in_flight_is_acked_at_its_offset(cluster: TrialCluster) -> None:
    production.ack_latency(cluster, 2)


def test_kill_of_a_leader_loses_nothing(cluster: TrialCluster) -> None:
    assert gap(kills.kill_leader(cluster)) < GAP_S


def test_kill_of_the_active_controller_loses_nothing(cluster: TrialCluster) -> None:
    assert gap(kills.kill_controller(cluster)) < GAP_S


def test_kill_of_all_nodes_loses_nothing(cluster: TrialCluster) -> None:
    kills.kill_all(cluster)


def test_suspended_leader_acks_nothing_false(cluster: TrialCluster) -> None:
    suspensions.suspend_leader(cluster, 5)


def test_suspended_controller_loses_nothing(cluster: TrialCluster) -> None:
    suspensions.suspend_controller(cluster, 5)


def test_minority_of_the_voters_decides_nothing(cluster: TrialCluster) -> None:
    suspensions.minority_is_refused(cluster)


def test_rolling_restart_shows_no_error_to_four_kinds_of_clients(cluster: TrialCluster) -> None:
    restarts.rolling_restart(cluster)


def test_groups_and_copies_are_exact_while_coordinators_are_killed(cluster: TrialCluster) -> None:
    coordinators.kill_coordinators(cluster, 3)


def test_replicas_are_byte_equal(cluster: TrialCluster) -> None:
    kills.equal_replicas(cluster)
