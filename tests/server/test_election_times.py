"""Elections of the quorum's leader, as a node counts them."""

from barnabas.cluster.quorum.raft_state import Role
from barnabas.server.quorum.election_times import ElectionTimes


def test_election_times_measure_from_the_first_request_for_votes() -> None:
    times = ElectionTimes()
    times.follow(Role.UNATTACHED, None, 0, 1_000)
    times.follow(Role.PROSPECTIVE, None, 0, 2_000)
    times.follow(Role.CANDIDATE, None, 1, 2_100)
    times.follow(Role.PROSPECTIVE, None, 1, 2_300)
    times.follow(Role.UNATTACHED, None, 2, 2_400)
    times.follow(Role.FOLLOWER, 2, 2, 2_500)
    times.follow(Role.FOLLOWER, 2, 2, 9_000)
    assert (times.new_controllers, times.elections, times.seconds) == (1, 1, 0.5)


def test_election_times_count_leaderships_that_others_decided() -> None:
    times = ElectionTimes()
    times.follow(Role.FOLLOWER, 2, 2, 100)
    times.follow(Role.FOLLOWER, 2, 3, 200)
    assert (times.new_controllers, times.elections, times.seconds) == (2, 0, 0.0)
