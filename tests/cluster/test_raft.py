"""The quorum elects, replicates and forgets nothing, whatever happens to its nodes and messages."""

import random

import pytest

from barnabas.cluster.metadata.image import Endpoint
from barnabas.cluster.quorum.quorum_state import QuorumState
from barnabas.cluster.quorum.raft import RaftCore, Role, Timeouts
from barnabas.cluster.quorum.raft_messages import EpochHistory, VoteRequest, VoteResponse
from barnabas.cluster.quorum.voters import ReplicaKey, Voter, VoterSet
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.records.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    VotersRecord,
)
from tests.cluster.quorum_simulation import Simulation
from tests.cluster.states import uuid


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


# One voter


def test_an_only_voter_leads_at_once_and_states_the_voters_in_the_log() -> None:
    lone = core()
    ready = lone.take_ready()
    assert ready.quorum_state == QuorumState(epoch=1, leader_id=1)
    assert ready.leadership == (1, 1)
    (entry,) = ready.entries
    assert (entry.base_offset, entry.epoch) == (0, 1)
    kinds = [type(message) for message in entry.control]
    assert kinds == [LeaderChangeMessage, KRaftVersionRecord, VotersRecord]


def test_voters_of_the_configuration_are_stated_once_the_kraft_version_is_raised() -> None:
    lone = core(kraft_version=0)
    (opening,) = lone.take_ready().entries
    assert [type(message) for message in opening.control] == [LeaderChangeMessage]
    entry = lone.upgrade_kraft_version(1, 5)
    assert entry.base_offset == opening.next_offset
    assert entry.control == (KRaftVersionRecord(kraft_version=1), lone.voters.record())
    assert (lone.kraft_version, lone.voters_offset) == (1, entry.base_offset + 1)


def test_voters_that_the_log_has_are_not_stated_again_unless_the_leader_moved() -> None:
    (entry,) = core(voters_offset=2, epochs=[(1, 0)], end=3).take_ready().entries
    assert [type(message) for message in entry.control] == [LeaderChangeMessage]
    moved = core(voters_offset=2, epochs=[(1, 0)], end=3, local=voter(1, port=9999))
    (entry,) = moved.take_ready().entries
    assert len(entry.control) == 3
    assert moved.voters.voters[1].endpoints[0].port == 9999


def test_each_start_is_a_new_epoch_even_if_the_state_was_lost() -> None:
    again = core(state=QuorumState(epoch=4, leader_id=1), epochs=[(4, 0)], end=9)
    assert again.epoch == 5
    lost = core(epochs=[(2, 0), (7, 5)], end=9)
    assert lost.epoch == 8
    assert lost.take_ready().entries[0].base_offset == 9


def test_nothing_is_committed_before_it_is_durable() -> None:
    lone = core()
    lone.take_ready()
    entry = lone.propose([b"a", b"b"], 5)
    assert (entry.base_offset, entry.next_offset) == (3, 5)
    lone.on_flushed(3)
    assert lone.take_ready().high_watermark == 3
    lone.on_flushed(5)
    assert lone.take_ready().high_watermark == 5


def test_who_does_not_lead_appends_nothing() -> None:
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
        assert replica.state.voted == request.candidate
    return response


def test_a_vote_is_given_once_in_an_epoch() -> None:
    replica = core(size=3)
    assert answer(replica, ask(2, 5)).granted
    assert not answer(replica, ask(3, 5)).granted
    assert answer(replica, ask(2, 5)).granted
    assert answer(replica, ask(3, 6)).granted


def test_a_vote_survives_a_restart() -> None:
    replica = core(size=3)
    answer(replica, ask(2, 5))
    again = core(size=3, state=QuorumState.decode(replica.state.encode()))
    assert not answer(again, ask(3, 5)).granted


def test_who_lacks_records_gets_no_vote() -> None:
    replica = core(size=3, epochs=[(2, 0)], end=10, state=QuorumState(epoch=2))
    assert not answer(replica, ask(2, 5, last_epoch=2, end=9)).granted
    assert not answer(replica, ask(2, 5, last_epoch=1, end=99)).granted
    assert answer(replica, ask(2, 5, last_epoch=2, end=10)).granted


def test_a_pre_vote_binds_nobody() -> None:
    replica = core(size=3)
    assert answer(replica, ask(2, 0, pre_vote=True)).granted
    assert answer(replica, ask(3, 0, pre_vote=True)).granted
    assert replica.state.voted is None


def test_a_candidate_leads_with_a_majority_only() -> None:
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


# Epochs of a log


def test_a_history_tells_where_each_epoch_ends() -> None:
    history = EpochHistory([(1, 0), (3, 10), (4, 12)], 20)
    assert [history.end_of(epoch) for epoch in (1, 2, 3, 4, 9)] == [
        (1, 10),
        (1, 10),
        (3, 12),
        (4, 20),
        (4, 20),
    ]
    history.truncate(11)
    assert (history.last_epoch, history.end_offset, history.end_of(3)) == (3, 11, (3, 11))


# Simulated clusters


def settled(simulation: Simulation) -> int:
    """Let a majority agree (R5): the leader's id."""
    simulation.run(20_000)
    leaders = [r.id for r in simulation.replicas.values() if r.core and r.core.is_leader]
    assert len(leaders) == 1
    return leaders[0]


def test_a_quorum_elects_one_leader_and_commits() -> None:
    simulation = Simulation(seed=1)
    settled(simulation)
    assert simulation.propose(b"x")
    simulation.run(1000)
    assert simulation.committed[-1].records == (b"x",)
    assert all(r.core.high_watermark == r.end_offset for r in simulation.replicas.values())


def test_a_minority_cannot_commit_and_its_leader_steps_down() -> None:
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


@pytest.mark.parametrize("seed", range(40))
def test_no_fault_breaks_the_invariants(seed: int) -> None:
    chance = random.Random(seed)
    simulation = Simulation(seed, size=chance.choice([3, 3, 5]), loss=chance.choice([0.0, 0.1]))
    for number in range(40):
        action = chance.randrange(6)
        node = chance.randrange(1, len(simulation.replicas) + 1)
        if action == 0 and simulation.replicas[node].core is not None:
            simulation.crash(node)
        elif action == 1 and simulation.replicas[node].core is None:
            simulation.start(node)
        elif action == 2:
            simulation.cut = {node} if chance.random() < 0.5 else set()
        else:
            simulation.propose(b"%d" % number)
        simulation.run(chance.randrange(2000))
    simulation.cut, simulation.loss = set(), 0.0
    for node, replica in simulation.replicas.items():
        if replica.core is None:
            simulation.start(node)
    settled(simulation)
    assert simulation.propose(b"last")
    simulation.run(2000)
    assert simulation.committed[-1].records == (b"last",)
    for replica in simulation.replicas.values():
        assert replica.log == simulation.committed
