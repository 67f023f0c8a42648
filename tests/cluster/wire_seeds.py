"""Seeds of the Raft core whose messages pass as bytes, in the versions that both peers have.

The state file is bytes too. A leader that describes the quorum must not claim for a replica what
that does not have durably (`DQ`).

Some replicas are old peers, with the versions of a Kafka before pre-votes (KIP-996): a candidate
takes such a voter for one that grants them, as the shell does, and an old candidate asks for none.

`run(seed)` returns the rare states that it reached; it raises AssertionError with the names of
`quorum_simulation` and `raft_seeds`.
"""

from typing import Any

import attrs

from barnabas.cluster.metadata.image import METADATA_TOPIC, Endpoint
from barnabas.cluster.quorum import raft_wire
from barnabas.cluster.quorum.quorum_description import describe_quorum
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
from barnabas.cluster.quorum.raft_wire import FetchLimits, LeaderState
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.begin_quorum_epoch import BeginQuorumEpochResponse
from barnabas.protocol.messages.describe_quorum import DescribeQuorumRequest
from barnabas.protocol.messages.end_quorum_epoch import EndQuorumEpochResponse
from barnabas.protocol.messages_base import Message
from barnabas.testing.simulation.rare_states import RareStates
from tests.cluster import raft_seeds
from tests.cluster.quorum_simulation import Entry, Replica, Simulation
from tests.cluster.states import CLUSTER_ID

_ENDPOINT = Endpoint("CONTROLLER", "localhost", 9093)
_VOTE, _FETCH = 2, 18
_OLD_VOTE, _OLD_FETCH = 1, 17
_EPOCH = 1
_LIMITS = FetchLimits(1 << 20, 500, -1)


def run(seed: int) -> RareStates:
    """Run a seed; raises AssertionError."""
    return raft_seeds.run(seed, WireSimulation)


class WireSimulation(Simulation):
    """A quorum with none to two old peers, by the seed."""

    def __init__(self, seed: int, size: int = 3, **options: Any) -> None:
        self.old = set(range(1, size + 1)[: seed % 3])
        super().__init__(seed, size, **options)

    @property
    def has_pre_votes(self) -> bool:
        """True when a candidate needs the pre-votes of a majority."""
        return not self.old

    def write_state(self, replica: Replica, state: QuorumState) -> None:
        """Write the state file as bytes."""
        read = QuorumState.decode(state.encode(1, ()))
        assert read == state, "R2: the state file has another state"
        super().write_state(replica, read)

    def settle(self, replica: Replica) -> None:
        super().settle(replica)
        if replica.core is not None:
            self._check_description(replica.core)

    def _check_description(self, core: RaftCore) -> None:
        """Check what the node answers to DescribeQuorum; only a leader knows the replicas."""
        data = DescribeQuorumRequest.PartitionData(partition_index=0)
        topic = DescribeQuorumRequest.TopicData(topic_name=METADATA_TOPIC, partitions=[data])
        response = describe_quorum(core, DescribeQuorumRequest(topics=[topic]), 2, self.now_ms)
        partition = _carried(response, 2).topics[0].partitions[0]
        assert (partition.error_code == 0) == core.is_leader, "DQ: a replica describes the quorum"
        for state in (*partition.current_voters, *partition.observers):
            described = self.replicas[state.replica_id]
            is_leader = state.replica_id == core.local.key.id
            end = described.end_offset if is_leader else described.synced_end_offset
            assert state.log_end_offset <= end, f"DQ: {state} of a log that ends at {end}"

    def _send(self, replica: Replica, message: Any) -> None:
        is_pre_vote = isinstance(message, VoteRequest) and message.pre_vote
        if not is_pre_vote or not self.old & {replica.id, message.to}:
            super()._send(replica, message)
            return
        granted = VoteResponse(message, message.to, message.epoch, None, True)
        life = replica.life

        def take() -> None:
            if replica.core is not None and replica.life == life:
                replica.core.on_vote_response(granted, self.now_ms)
                self.settle(replica)

        self.at(1, take)

    def _receive(self, replica: Replica, message: Any) -> None:
        """Receive a message as it is read from its bytes; answer what the shell answers."""
        core = replica.core
        assert core is not None
        match message:
            case VoteRequest():
                request = raft_wire.vote_request(message, CLUSTER_ID)
                version = self._version(message.candidate.id, replica.id, _VOTE, _OLD_VOTE)
                carried = _carried(request, version)
                message = raft_wire.read_vote_request(carried, CLUSTER_ID, replica.id)
            case VoteResponse():
                state = LeaderState(message.epoch, message.leader_id, _ENDPOINT)
                version = self._version(message.voter_id, replica.id, _VOTE, _OLD_VOTE)
                carried = _carried(raft_wire.vote_response(message, state), version)
                read = raft_wire.read_vote_response(message.request, carried)
                if read is None:
                    return
                message = read
            case BeginQuorumEpoch():
                request = raft_wire.begin_request(message, CLUSTER_ID, [_ENDPOINT])
                carried = _carried(request, _EPOCH)
                message = raft_wire.read_begin_request(carried, CLUSTER_ID, replica.id)
                error = core.on_begin_quorum_epoch(message, self.now_ms)
                self._answer_epoch(replica, message.leader_id, BeginQuorumEpochResponse, error)
                return
            case EndQuorumEpoch():
                request = raft_wire.end_request(message, CLUSTER_ID, [_ENDPOINT])
                carried = _carried(request, _EPOCH)
                message = raft_wire.read_end_request(carried, CLUSTER_ID, replica.id)
                error = core.on_end_quorum_epoch(message, self.now_ms)
                self._answer_epoch(replica, message.leader_id, EndQuorumEpochResponse, error)
                return
        super()._receive(replica, message)

    def _version(self, one: int, other: int, new: int, old: int) -> int:
        return old if self.old & {one, other} else new

    def _answer_epoch(self, replica: Replica, to: int, answer: type[Any], error: ErrorCode) -> None:
        assert replica.core is not None
        state = LeaderState(replica.core.epoch, replica.core.leader_id, _ENDPOINT)
        response = _carried(raft_wire.epoch_response(answer, error, state), _EPOCH)

        def take(receiver: Replica) -> None:
            stated = raft_wire.read_epoch_response(response)
            if stated is not None and receiver.core is not None:
                receiver.core.on_epoch(*stated, self.now_ms)

        self.settle(replica)
        self.send(replica.id, to, take)

    def _answer_fetch(self, leader: Replica, request: FetchRequest) -> None:
        version = self._version(request.replica.id, leader.id, _FETCH, _OLD_FETCH)
        carried = _carried(raft_wire.fetch_request(request, CLUSTER_ID, _LIMITS), version)
        read, _ = raft_wire.read_fetch_request(carried, CLUSTER_ID)
        super()._answer_fetch(leader, attrs.evolve(read, to=request.to))

    def _take_fetch(
        self,
        replica: Replica,
        request: FetchRequest,
        response: FetchResponse,
        entries: list[Entry],
    ) -> None:
        state = LeaderState(response.epoch, response.leader_id, _ENDPOINT)
        made = raft_wire.fetch_response(response, b"", 0, state)
        version = _OLD_FETCH if self.old else _FETCH
        read = raft_wire.read_fetch_response(_carried(made, version))
        assert read is not None
        super()._take_fetch(replica, request, read[0], entries)


def _carried(message: Message, version: int) -> Any:
    return type(message).decode(message.encode(version), version)
