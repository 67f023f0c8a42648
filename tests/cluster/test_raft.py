"""The Raft core: elections, replication, and invariants under simulated faults."""

import os

import pytest

from barnabas.cluster.metadata.image import Endpoint
from barnabas.cluster.quorum.epoch_history import EpochHistory, OffsetAndEpoch
from barnabas.cluster.quorum.quorum_state import QuorumState
from barnabas.cluster.quorum.raft import RaftCore
from barnabas.cluster.quorum.raft_messages import (
    BeginQuorumEpoch,
    EndQuorumEpoch,
    FetchRequest,
    FetchResponse,
    VoteRequest,
    VoteResponse,
)
from barnabas.cluster.quorum.raft_state import QuorumDataLossError, Role, Timeouts
from barnabas.cluster.quorum.voter_changes import add_voter, remove_voter
from barnabas.cluster.quorum.voters import ReplicaKey, Voter, VoterSet
from barnabas.cluster.quorum.voters_history import StatedVoters
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.records.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    VotersRecord,
)
from tests.cluster import voter_seeds
from tests.cluster.quorum_simulation import Simulation
from tests.cluster.raft_seeds import run, settled
from tests.cluster.states import uuid

SEEDS = int(os.environ.get("BARNABAS_SEEDS", "1000"))
CHUNK = 125


def voter(node: int, port: int = 9093) -> Voter:
    return Voter(ReplicaKey(node, uuid(node)), (Endpoint("CONTROLLER", "localhost", port),))


def core(
    *,
    size: int = 1,
    state: QuorumState | None = None,
    epochs: list[tuple[int, int]] | None = None,
    end: int = 0,
    voters_offset: int = -1,
    local: Voter | None = None,
    kraft_version: int = 1,
) -> RaftCore:
    made = RaftCore(
        local=local or voter(1),
        voters=VoterSet.of(*(voter(node) for node in range(1, size + 1))),
        voters_offset=voters_offset,
        kraft_version=kraft_version,
        state=state or QuorumState(),
        log=EpochHistory(epochs or [], end),
        random=lambda below: 0,
        timeouts=Timeouts(),
    )
    made.start(0)
    return made


# A single voter


def test_start_of_a_single_voter_leads_and_appends_the_voters() -> None:
    lone = core()
    ready = lone.take_ready()
    assert ready.quorum_state == QuorumState(epoch=1, leader_id=1)
    assert ready.leadership == (1, 1)
    (entry,) = ready.entries
    assert (entry.base_offset, entry.epoch) == (0, 1)
    kinds = [type(message) for message in entry.control]
    assert kinds == [LeaderChangeMessage, KRaftVersionRecord, VotersRecord]


def test_upgrade_kraft_version_appends_the_configured_voters() -> None:
    lone = core(kraft_version=0)
    (opening,) = lone.take_ready().entries
    assert [type(message) for message in opening.control] == [LeaderChangeMessage]
    entry = lone.upgrade_kraft_version(1, lone.voters, 5)
    assert entry.base_offset == opening.next_offset
    assert entry.control == (KRaftVersionRecord(kraft_version=1), lone.voters.record())
    assert (lone.kraft_version, lone.voters_offset) == (1, entry.base_offset + 1)


def test_start_of_an_epoch_appends_voters_only_when_missing_or_moved() -> None:
    (entry,) = core(voters_offset=2, epochs=[(1, 0)], end=3).take_ready().entries
    assert [type(message) for message in entry.control] == [LeaderChangeMessage]
    moved = core(voters_offset=2, epochs=[(1, 0)], end=3, local=voter(1, port=9999))
    (entry,) = moved.take_ready().entries
    assert len(entry.control) == 3
    assert moved.voters.voters[1].endpoints[0].port == 9999


def test_start_without_the_state_file_uses_a_new_epoch() -> None:
    again = core(state=QuorumState(epoch=4, leader_id=1), epochs=[(4, 0)], end=9)
    assert again.epoch == 5
    lost = core(epochs=[(2, 0), (7, 5)], end=9)
    assert lost.epoch == 8
    assert lost.take_ready().entries[0].base_offset == 9


def test_high_watermark_of_a_single_voter_follows_the_flush() -> None:
    lone = core()
    lone.take_ready()
    entry = lone.propose([b"a", b"b"], 5)
    assert (entry.base_offset, entry.next_offset) == (3, 5)
    lone.on_flushed(3)
    assert lone.take_ready().high_watermark == 3
    lone.on_flushed(5)
    assert lone.take_ready().high_watermark == 5


def test_propose_without_leadership_raises_not_controller() -> None:
    lone = core()
    lone.resign(5)
    with pytest.raises(KafkaError) as refusal:
        lone.propose([b"a"], 5)
    assert refusal.value.code is ErrorCode.NOT_CONTROLLER


# Votes


def ask(candidate: int, epoch: int, last_epoch: int = 0, end: int = 0, **more: bool) -> VoteRequest:
    key = ReplicaKey(candidate, uuid(candidate))
    return VoteRequest(1, epoch, key, last_epoch, end, more.get("pre_vote", False))


def answer(replica: RaftCore, request: VoteRequest) -> VoteResponse:
    replica.on_vote_request(request, 10)
    ready = replica.take_ready()
    (response,) = [m for m in ready.messages if isinstance(m, VoteResponse)]
    if response.granted and not request.pre_vote:
        assert replica.state.voted is not None
        assert replica.state.may_vote_for(request.candidate)
    return response


def test_vote_is_granted_once_in_an_epoch() -> None:
    replica = core(size=3)
    assert answer(replica, ask(2, 5)).granted
    assert not answer(replica, ask(3, 5)).granted
    assert answer(replica, ask(2, 5)).granted
    assert answer(replica, ask(3, 6)).granted


@pytest.mark.parametrize("kraft_version", [0, 1])
def test_vote_survives_a_restart(kraft_version: int) -> None:
    replica = core(size=3)
    answer(replica, ask(2, 5))
    content = replica.state.encode(kraft_version, replica.voters.voters)
    again = core(size=3, state=QuorumState.decode(content))
    assert not answer(again, ask(3, 5)).granted
    assert answer(again, ask(2, 5)).granted


def test_vote_for_a_shorter_log_is_refused() -> None:
    replica = core(size=3, epochs=[(2, 0)], end=10, state=QuorumState(epoch=2))
    assert not answer(replica, ask(2, 5, last_epoch=2, end=9)).granted
    assert not answer(replica, ask(2, 5, last_epoch=1, end=99)).granted
    assert answer(replica, ask(2, 5, last_epoch=2, end=10)).granted


def test_pre_vote_does_not_count_as_a_vote() -> None:
    replica = core(size=3)
    assert answer(replica, ask(2, 0, pre_vote=True)).granted
    assert answer(replica, ask(3, 0, pre_vote=True)).granted
    assert replica.state.voted is None


def test_candidate_leads_with_a_majority() -> None:
    replica = core(size=5)
    replica.tick(5000)
    assert replica.role is Role.PROSPECTIVE
    for asking in (Role.PROSPECTIVE, Role.CANDIDATE):
        assert replica.role is asking
        requests = [m for m in replica.take_ready().messages if isinstance(m, VoteRequest)]
        assert len(requests) == 4
        for request in requests[:2]:
            assert replica.role is asking
            response = VoteResponse(request, request.to, replica.epoch, None, True)
            replica.on_vote_response(response, 5001)
    assert replica.role is Role.LEADER


# Errors, fetches and time


def leading(
    size: int = 3, *, epochs: list[tuple[int, int]] | None = None, end: int = 0
) -> RaftCore:
    """Return a leader of `size` voters in the epoch after the log's last one."""
    state = QuorumState(epoch=epochs[-1][0]) if epochs else None
    leader = core(size=size, epochs=epochs, end=end, state=state)
    leader.tick(5000)
    for _ in range(2):
        for request in [m for m in leader.take_ready().messages if isinstance(m, VoteRequest)]:
            leader.on_vote_response(
                VoteResponse(request, request.to, leader.epoch, None, True), 5000
            )
    assert leader.role is Role.LEADER
    return leader


def fetch(node: int, epoch: int, offset: int, last_epoch: int) -> FetchRequest:
    return FetchRequest(1, epoch, ReplicaKey(node, uuid(node)), offset, last_epoch)


def following(*, epochs: list[tuple[int, int]], end: int, high_watermark: int = 0) -> RaftCore:
    """Return a follower of leader 2 in the epoch of its log."""
    replica = core(
        size=3, epochs=epochs, end=end, state=QuorumState(epoch=epochs[-1][0], leader_id=2)
    )
    replica.on_appended([], high_watermark)
    replica.take_ready()
    return replica


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (ask(2, 2, last_epoch=1), ErrorCode.FENCED_LEADER_EPOCH),
        (ask(2, 5, last_epoch=5), ErrorCode.INVALID_REQUEST),
        (ask(2, 5, last_epoch=6, pre_vote=True), ErrorCode.INVALID_REQUEST),
        (ask(2, 5, last_epoch=1, end=-1), ErrorCode.INVALID_REQUEST),
    ],
)
def test_vote_request_that_is_stale_or_impossible_gets_an_error(
    request_: VoteRequest, error: ErrorCode
) -> None:
    replica = core(size=3, state=QuorumState(epoch=3))
    replica.on_vote_request(request_, 10)
    (response,) = replica.take_ready().messages
    assert isinstance(response, VoteResponse)
    assert (response.error, response.granted, replica.epoch) == (error, False, 3)


@pytest.mark.parametrize(
    ("epoch", "error"),
    [(0, ErrorCode.FENCED_LEADER_EPOCH), (9, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_fetch_with_another_epoch_gets_an_error_and_deposes_no_leader(
    epoch: int, error: ErrorCode
) -> None:
    leader = leading()
    assert leader.on_fetch(fetch(2, epoch, 0, 0), 5001).error is error
    assert leader.is_leader


def test_fetch_from_a_replica_that_does_not_lead_names_the_leader() -> None:
    replica = following(epochs=[(4, 0)], end=3)
    response = replica.on_fetch(fetch(3, 4, 0, 0), 10)
    assert (response.error, response.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2)


def test_fetch_of_a_diverged_follower_does_not_count_as_progress() -> None:
    leader = leading(epochs=[(2, 0)], end=5)
    leader.on_flushed(leader.log_end_offset)
    response = leader.on_fetch(fetch(2, leader.epoch, 9, 1), 5001)
    assert response.diverging is not None
    assert leader.progress_of(ReplicaKey(2, uuid(2))).end_offset == -1
    assert leader.high_watermark == 0


def test_high_watermark_needs_a_record_of_the_leaders_epoch() -> None:
    """Figure 8 of the Raft paper: a record of an earlier epoch may still be overwritten."""
    leader = leading(epochs=[(2, 0)], end=5)
    leader.on_flushed(leader.log_end_offset)
    assert leader.on_fetch(fetch(2, leader.epoch, 5, 2), 5001).high_watermark == -1
    assert leader.high_watermark == 0
    response = leader.on_fetch(fetch(2, leader.epoch, 6, leader.epoch), 5002)
    assert response.high_watermark == leader.high_watermark == 6


def test_new_leader_reports_no_high_watermark_of_its_time_as_follower() -> None:
    leader = leading(epochs=[(2, 0)], end=5)
    leader.on_appended([], 4)
    assert leader.high_watermark == 4
    assert leader.on_fetch(fetch(2, leader.epoch, 5, 2), 5001).high_watermark == -1


def test_fetch_below_the_log_start_gets_the_snapshot() -> None:
    leader = leading(epochs=[(2, 10)], end=15)
    leader.log.log_start = snapshot = OffsetAndEpoch(10, 1)
    for offset, last_epoch in ((0, 0), (9, 1), (10, 0)):
        response = leader.on_fetch(fetch(2, leader.epoch, offset, last_epoch), 5001)
        assert (response.snapshot, response.has_records) == (snapshot, False)
    assert leader.on_fetch(fetch(2, leader.epoch, 10, 1), 5001).has_records


def test_follower_downloads_a_snapshot_and_continues_after_it() -> None:
    replica = following(epochs=[(1, 0)], end=3)
    snapshot = OffsetAndEpoch(10, 1)
    assert not replica.on_fetch_response(FetchResponse(1, 2, snapshot=snapshot), 10)
    assert replica.take_ready().fetch_snapshot == snapshot
    assert replica.fetch_request() is None
    replica.on_snapshot_installed(snapshot, StatedVoters(replica.voters, 1))
    request = replica.fetch_request()
    assert request is not None
    assert (request.offset, request.last_epoch) == (10, 1)
    assert replica.take_ready().high_watermark == 10


def test_truncation_below_the_high_watermark_raises() -> None:
    replica = following(epochs=[(1, 0), (3, 5)], end=8, high_watermark=7)
    diverging = FetchResponse(3, 2, diverging=OffsetAndEpoch(6, 3))
    with pytest.raises(QuorumDataLossError, match="offset 6, below the high watermark 7"):
        replica.on_fetch_response(diverging, 10)


def test_truncation_keeps_the_largest_common_epoch() -> None:
    replica = following(epochs=[(1, 0), (3, 5), (4, 7)], end=8)
    assert not replica.on_fetch_response(FetchResponse(4, 2, diverging=OffsetAndEpoch(9, 3)), 10)
    assert replica.take_ready().truncate_to == 7
    assert not replica.on_fetch_response(FetchResponse(4, 2, diverging=OffsetAndEpoch(6, 2)), 10)
    assert replica.take_ready().truncate_to == 5


def test_leader_that_resigns_names_no_leader_and_leaves_its_epoch() -> None:
    leader = leading()
    epoch = leader.epoch
    leader.take_ready()
    leader.resign(6000)
    assert (leader.leader_id, leader.epoch, leader.fetch_request()) == (None, epoch, None)
    assert not answer(leader, ask(2, epoch, last_epoch=epoch - 1, end=99)).granted
    leader.tick(20_000)
    assert (leader.role, leader.epoch) == (Role.UNATTACHED, epoch + 1)


def test_leader_that_restarts_does_not_vote_in_its_epoch() -> None:
    again = core(size=3, epochs=[(3, 0)], end=4, state=QuorumState(epoch=4, leader_id=1))
    assert (again.role, again.epoch, again.leader_id) == (Role.UNATTACHED, 5, None)
    assert not answer(again, ask(2, 4, last_epoch=3, end=9)).granted


def test_leader_announces_itself_to_voters_that_do_not_fetch() -> None:
    leader = leading()
    leader.take_ready()
    leader.on_fetch(fetch(2, leader.epoch, 0, 0), 5900)
    leader.tick(6000)
    announced = BeginQuorumEpoch(3, leader.epoch, 1, ReplicaKey(3, uuid(3)))
    assert leader.take_ready().messages == [announced]


def test_leader_without_fetches_of_a_majority_resigns() -> None:
    leader = leading()
    leader.on_fetch(fetch(2, leader.epoch, 0, 0), 6000)
    leader.tick(8999)
    assert leader.is_leader
    leader.tick(9000)
    assert leader.role is Role.RESIGNED


def test_vote_request_without_a_response_is_sent_again() -> None:
    replica = core(size=3)
    replica.tick(5000)
    requests = replica.take_ready().messages
    replica.on_request_failed(requests[0], 5100)
    assert replica.wakeup_ms() == 5120
    replica.tick(5120)
    assert replica.take_ready().messages == [requests[0]]


def test_follower_that_has_fetched_grants_no_pre_vote_until_the_leader_ends() -> None:
    replica = following(epochs=[(4, 0)], end=3)
    replica.on_fetch_response(FetchResponse(4, 2), 10)
    pre_vote = ask(3, 4, last_epoch=4, end=3, pre_vote=True)
    assert not answer(replica, pre_vote).granted
    replica.on_leader_unreachable(20)
    assert answer(replica, pre_vote).granted


def test_candidate_that_keeps_losing_waits_for_a_whole_election() -> None:
    """The other voters are too old for pre-votes, and have longer logs."""
    losing, now_ms, waits = core(size=3), 0, list[int]()
    for _ in range(8):
        now_ms = losing.wakeup_ms() or now_ms
        losing.tick(now_ms)
        for granted in (True, False):
            for request in losing.take_ready().messages:
                assert isinstance(request, VoteRequest)
                answer = VoteResponse(request, request.to, losing.epoch, None, granted)
                losing.on_vote_response(answer, now_ms)
        waits.append((losing.wakeup_ms() or 0) - now_ms)

    assert losing.role is Role.CANDIDATE
    assert max(waits[:3]) < 200
    assert min(waits[-3:]) >= Timeouts().election_ms


def test_survivors_of_a_leader_campaign_one_after_the_other() -> None:
    deadlines = []
    for node in (1, 3):
        replica = core(
            size=3, state=QuorumState(epoch=4, leader_id=2), epochs=[(4, 0)], local=voter(node)
        )
        replica.on_leader_unreachable(1000)
        deadlines.append(replica.wakeup_ms())
    assert deadlines == [1000, 1050]


def test_leader_that_answers_again_is_not_gone_and_may_end_later() -> None:
    """Planted once: the second report was ignored, and the fetch timeout waited for."""
    replica = following(epochs=[(4, 0)], end=3)
    replica.on_leader_unreachable(1000)
    replica.on_fetch_response(FetchResponse(4, 2, high_watermark=3), 1010)
    assert replica.wakeup_ms() == 3010
    replica.on_leader_unreachable(1500)
    assert replica.wakeup_ms() == 1500


@pytest.mark.parametrize(("preferred", "delay"), [((1, 3), 0), ((3, 1), 500), ((3,), 1000)])
def test_end_quorum_epoch_delays_by_the_position_among_successors(
    preferred: tuple[int, ...], delay: int
) -> None:
    replica = following(epochs=[(4, 0)], end=3)
    replica.on_end_quorum_epoch(
        EndQuorumEpoch(1, 4, 2, tuple(ReplicaKey(node, uuid(node)) for node in preferred)), 1000
    )
    assert replica.wakeup_ms() == 1000 + delay


@pytest.mark.parametrize(
    "observer",
    [ReplicaKey(9, uuid(9)), ReplicaKey(2, uuid(9))],
    ids=["another node", "a replaced disk of a voter"],
)
def test_observer_progress_counts_neither_for_the_high_watermark_nor_for_the_majority(
    observer: ReplicaKey,
) -> None:
    leader = leading()
    leader.on_flushed(leader.log_end_offset)
    end = leader.log_end_offset
    leader.on_fetch(FetchRequest(1, leader.epoch, observer, end, leader.epoch), 7000)
    assert leader.high_watermark == 0
    progress = leader.progress_of(observer)
    assert (progress.end_offset, progress.caught_up_ms) == (end, 7000)
    assert leader.observers(7001) == [observer]
    assert leader.observers(400_000) == []
    leader.tick(8000)
    assert leader.role is Role.RESIGNED


def test_unattached_replica_fetches_from_a_bootstrap_server_and_learns_the_leader() -> None:
    replica = core(size=3, local=voter(9))
    request = replica.fetch_request()
    assert request is not None
    assert (request.to, replica.is_voter) == (None, False)
    replica.on_fetch_response(FetchResponse(7, 2, ErrorCode.FENCED_LEADER_EPOCH), 10)
    assert (replica.role, replica.leader_id, replica.epoch) == (Role.FOLLOWER, 2, 7)


# Epochs of a log


def test_end_of_returns_the_end_of_each_epoch() -> None:
    history = EpochHistory([(1, 0), (3, 10), (4, 12)], 20)
    ends = [OffsetAndEpoch(10, 1), OffsetAndEpoch(12, 3), OffsetAndEpoch(20, 4)]
    assert [history.end_of(epoch) for epoch in (1, 2, 3, 4, 9)] == [
        ends[0],
        ends[0],
        ends[1],
        ends[2],
        ends[2],
    ]
    history.truncate(11)
    assert (history.last_epoch, history.end_offset) == (3, 11)
    assert history.end_of(3) == OffsetAndEpoch(11, 3)


# Simulated clusters


def test_quorum_elects_one_leader_and_commits() -> None:
    simulation = Simulation(seed=1)
    settled(simulation)
    assert simulation.propose(b"x")
    simulation.run(1000)
    assert simulation.committed[-1].records == (b"x",)
    assert all(r.core.high_watermark == r.end_offset for r in simulation.replicas.values())


def test_leader_of_a_minority_commits_nothing_and_resigns() -> None:
    simulation = Simulation(seed=2)
    old = settled(simulation)
    simulation.propose(b"before")
    simulation.run(1000)
    simulation.cut = {old}
    core_of_old = simulation.replicas[old].core
    assert core_of_old is not None
    core_of_old.propose([b"lost"], simulation.now_ms)
    simulation.settle(simulation.replicas[old])
    simulation.run(20_000)
    assert not core_of_old.is_leader
    assert simulation.propose(b"after")
    simulation.run(1000)
    simulation.cut = set()
    settled(simulation)
    values = [entry.records for entry in simulation.replicas[old].log if entry.records]
    assert values == [(b"before",), (b"after",)]


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_random_faults_keep_the_invariants(first: int) -> None:
    for seed in range(first, first + CHUNK):
        try:
            run(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error


@pytest.mark.parametrize("first", range(0, 100, 50))
def test_random_changes_of_voters_keep_the_invariants(first: int) -> None:
    for seed in range(first, first + 50):
        try:
            voter_seeds.run(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error


def test_leader_that_removed_itself_leads_until_the_commit_and_then_follows() -> None:
    leader = leading()
    leader.on_flushed(leader.log_end_offset)
    leader.on_fetch(fetch(2, leader.epoch, leader.log_end_offset, leader.epoch), 5000)
    leader.take_ready()
    epoch = leader.epoch
    entry = remove_voter(leader, leader.local.key, 5000)
    leader.on_flushed(entry.next_offset)
    leader.on_fetch(fetch(2, epoch, entry.next_offset, epoch), 5000)
    leader.tick(5000)
    assert leader.is_leader, "one of two voters has the change"
    leader.on_fetch(fetch(3, epoch, entry.next_offset, epoch), 5001)
    leader.tick(5001)
    assert leader.role is Role.RESIGNED
    leader.tick(5001)
    assert (leader.role, leader.epoch) == (Role.UNATTACHED, epoch + 1)
    assert not leader.is_voter


def test_voters_change_only_one_at_a_time_after_the_commit() -> None:
    leader = leading()
    with pytest.raises(KafkaError) as early:
        remove_voter(leader, ReplicaKey(3, uuid(3)), 5000)
    assert early.value.code is ErrorCode.REQUEST_TIMED_OUT
    leader.on_flushed(leader.log_end_offset)
    leader.on_fetch(fetch(2, leader.epoch, leader.log_end_offset, leader.epoch), 5000)
    with pytest.raises(KafkaError) as unknown:
        remove_voter(leader, ReplicaKey(3, uuid(9)), 5000)
    assert unknown.value.code is ErrorCode.VOTER_NOT_FOUND
    with pytest.raises(KafkaError) as lagging:
        add_voter(leader, voter(4), 5000)
    assert lagging.value.code is ErrorCode.REQUEST_TIMED_OUT
    remove_voter(leader, ReplicaKey(3, uuid(3)), 5000)
    with pytest.raises(KafkaError) as second:
        remove_voter(leader, ReplicaKey(2, uuid(2)), 5000)
    assert second.value.code is ErrorCode.REQUEST_TIMED_OUT
    leader.on_fetch(fetch(4, leader.epoch, leader.log_end_offset, leader.epoch), 5000)
    leader.on_flushed(leader.log_end_offset)
    leader.on_fetch(fetch(2, leader.epoch, leader.log_end_offset, leader.epoch), 5000)
    assert add_voter(leader, voter(4), 5000).control == (leader.voters.record(),)
    assert [key.id for key in leader.voters.replica_keys] == [1, 2, 4]


def test_prospective_refused_by_a_voter_that_still_follows_asks_again_soon() -> None:
    replica = following(epochs=[(4, 0)], end=3)
    replica.on_leader_unreachable(1000)
    replica.tick(replica.wakeup_ms() or 0)
    requests = [each for each in replica.take_ready().messages if isinstance(each, VoteRequest)]
    asked = next(each for each in requests if each.to == 3)
    assert asked.pre_vote
    replica.on_vote_response(VoteResponse(asked, 3, replica.epoch, 2, granted=False), 1100)
    due = replica.wakeup_ms()
    assert due is not None
    assert due <= 1300
    replica.tick(due)
    again = [each for each in replica.take_ready().messages if isinstance(each, VoteRequest)]
    assert 3 in {each.to for each in again}
