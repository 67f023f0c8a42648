"""The short form of the steps that need other clusters: proxies, failing disks, more nodes, racks.

See `test_ladder` for the others.
"""

from collections.abc import Iterator

import pytest

from compat_tests.cluster.clusters import ProxiedCluster
from compat_tests.cluster.faulty_disks import EIO, ENOSPC, FaultyCluster
from compat_tests.cluster.steps import disks, network, racks, reassignments, voters

pytestmark = [pytest.mark.barnabas_only, pytest.mark.timeout(240)]

# A slow follower leaves the ISR sooner than after 30 s.
QUICK_ISR = {"replica.lag.time.max.ms": "5000"}


@pytest.mark.parametrize("is_controller", [True, False], ids=["controller", "broker only"])
def test_leader_that_is_cut_off_acks_nothing_false(*, is_controller: bool) -> None:
    with ProxiedCluster() as trial:
        network.cut_leader(trial, is_controller=is_controller)


def test_slow_follower_leaves_the_isr_and_returns_under_load() -> None:
    with network.far_nodes(QUICK_ISR) as trial:
        network.far_follower(trial, 40)


@pytest.fixture(scope="module")
def faulty() -> Iterator[FaultyCluster]:
    with FaultyCluster() as trial:
        yield trial


@pytest.mark.parametrize("fault", [ENOSPC, EIO])
def test_failed_log_directory_moves_its_leaders(faulty: FaultyCluster, fault: str) -> None:
    disks.fail_log_directory(faulty, fault)


def test_slow_syncs_of_one_voter_delay_no_client(faulty: FaultyCluster) -> None:
    disks.slow_syncs(faulty, 2)


def test_failed_metadata_directory_ends_one_node_only(faulty: FaultyCluster) -> None:
    disks.fail_metadata_directory(faulty)


def test_throttled_reassignment_survives_the_kill_of_its_target() -> None:
    with reassignments.four_nodes() as trial:
        reassignments.throttled_reassignment(trial, 12)


def test_voters_are_changed_under_admin_load() -> None:
    with voters.five_nodes() as trial:
        voters.change_voters(trial)


def test_consumer_reads_from_its_rack_and_survives_a_kill_there() -> None:
    with racks.RackedCluster() as trial:
        racks.follower_reads(trial, 3)
