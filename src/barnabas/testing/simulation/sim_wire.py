"""Messages between simulated nodes as bytes, in the highest version that both nodes have.

The plain simulation passes messages as objects. A seed may have an old peer, which has no later
versions than an older Kafka, and may send a share of all messages through the real codecs. What an
object does not carry over to bytes, or what a version lacks, changes the run then.
"""

from collections.abc import Callable, Mapping
from functools import singledispatchmethod
from typing import Any, Final, TypeVar

from barnabas.cluster.quorum import raft_wire, snapshot_wire
from barnabas.cluster.quorum.fetched_batches import read_fetched
from barnabas.cluster.quorum.raft_messages import (
    BeginQuorumEpoch,
    EndQuorumEpoch,
    FetchRequest,
    VoteRequest,
    VoteResponse,
)
from barnabas.cluster.quorum.raft_wire import FetchLimits, LeaderState
from barnabas.cluster.quorum.snapshot_wire import SnapshotPart
from barnabas.protocol.apis import API
from barnabas.protocol.messages.begin_quorum_epoch import BeginQuorumEpochResponse
from barnabas.protocol.messages.end_quorum_epoch import EndQuorumEpochResponse
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.messages_base import Message
from barnabas.testing.simulation.network import Carried
from barnabas.testing.simulation.quorum_disk import CLUSTER_ID, encoded_entry
from barnabas.testing.simulation.quorum_fetches import FETCH_WAIT_MS, EpochStated, FetchedEntries
from barnabas.testing.simulation.quorum_format import controller_endpoint
from barnabas.testing.simulation.sim_partition_log import take_bytes
from barnabas.testing.simulation.snapshot_downloads import SentPart
from barnabas.testing.simulation.world import World

_FETCH_BYTES_MAX: Final = 1 << 20
_FETCH, _LIST_OFFSETS, _WRITE_TXN_MARKERS = 1, 2, 27
_VOTE, _BROKER_HEARTBEAT, _ADD_RAFT_VOTER = 52, 63, 80

_VERSIONS_4_0: Final = {
    _FETCH: 17,
    _LIST_OFFSETS: 10,
    _WRITE_TXN_MARKERS: 1,
    _BROKER_HEARTBEAT: 1,
    _ADD_RAFT_VOTER: 0,
}
RELEASES: Final[Mapping[str, Mapping[int, int]]] = {
    "4.0": _VERSIONS_4_0,
    "3.9": {**_VERSIONS_4_0, _LIST_OFFSETS: 9, _VOTE: 1},
}
"""The highest versions of older releases of Apache Kafka, where they are below ours.

Before 4.0 a Vote cannot be a pre-vote, and before 4.1 a Fetch does not state a high watermark.
"""

M = TypeVar("M", bound=Message)
Read = Callable[[Any], Any]


class SimWire:
    """Carries messages between nodes; `old` has the highest versions of the old nodes.

    `share` is the part of the messages between the other nodes that pass as bytes.
    """

    def __init__(self, world: World, old: Mapping[int, Mapping[int, int]], share: float) -> None:
        self._random = world.stream("wire")
        self._old = old
        self._share = share
        self.carried = 0
        self._nodes = (0, 0)

    def carry(self, sender: int, to: int, request: Any) -> Carried | None:
        """Return a request as bytes carry it, or None when it passes as an object.

        Raises EncodingError when the versions of the two nodes cannot carry it.
        """
        is_old = sender in self._old or to in self._old
        if not is_old and self._random.random() >= self._share:
            return None
        self._nodes = sender, to
        match request:
            case (FetchRequest() as fetch, int(high_watermark)):
                return self._metadata_fetch(fetch, high_watermark)
            case (Message() as message, int(version)):
                version = self._version(message.API_KEY, version)
                return Carried((_passed(message, version), version), self._response(version))
            case _:
                return self._carry(request)

    def _version(self, key: int, wanted: int | None = None) -> int:
        limits = [self._old[node].get(key) for node in self._nodes if node in self._old]
        known = [API[key].advertised[1], wanted, *limits]
        return min(version for version in known if version is not None)

    def _response(self, version: int) -> Read:
        """Return how a response of a version is read; errors of the whole request stay objects."""

        def read(response: Any) -> Any:
            return _passed(response, version) if isinstance(response, Message) else response

        return read

    @singledispatchmethod
    def _carry(self, request: Any) -> Carried | None:
        """Return None: a request of the simulation that Kafka's protocol does not have."""
        del request
        return None

    @_carry.register
    def _message(self, request: Message) -> Carried:
        version = self._version(request.API_KEY)

        def read(response: Any) -> Any:
            if isinstance(response, FetchResponse):
                take_bytes(response)
            return _passed(response, version)

        return Carried(_passed(request, version), read)

    @_carry.register
    def _vote(self, request: VoteRequest) -> Carried:
        version = self._version(_VOTE)
        wire = _passed(raft_wire.vote_request(request, CLUSTER_ID), version)

        def read(response: VoteResponse) -> VoteResponse | None:
            leader = _leader_state(response.epoch, response.leader_id)
            answer = _passed(raft_wire.vote_response(response, leader), version)
            return raft_wire.read_vote_response(request, answer)

        return Carried(raft_wire.read_vote_request(wire, CLUSTER_ID, request.to), read)

    @_carry.register
    def _begin(self, request: BeginQuorumEpoch) -> Carried:
        message = raft_wire.begin_request(
            request, CLUSTER_ID, [controller_endpoint(request.leader_id)]
        )
        wire = _passed(message, self._version(message.API_KEY))
        read = self._epoch_response(BeginQuorumEpochResponse)
        return Carried(raft_wire.read_begin_request(wire, CLUSTER_ID, request.to), read)

    @_carry.register
    def _end(self, request: EndQuorumEpoch) -> Carried:
        message = raft_wire.end_request(
            request, CLUSTER_ID, [controller_endpoint(request.leader_id)]
        )
        wire = _passed(message, self._version(message.API_KEY))
        read = self._epoch_response(EndQuorumEpochResponse)
        return Carried(raft_wire.read_end_request(wire, CLUSTER_ID, request.to), read)

    def _epoch_response(self, response_type: Any) -> Read:
        version = self._version(response_type.API_KEY)

        def read(stated: EpochStated) -> EpochStated | None:
            leader = _leader_state(stated.epoch, stated.leader_id)
            answer = raft_wire.epoch_response(response_type, stated.error, leader)
            found = raft_wire.read_epoch_response(_passed(answer, version))
            return None if found is None else EpochStated(stated.error, *found)

        return read

    def _metadata_fetch(self, request: FetchRequest, high_watermark: int) -> Carried:
        version = self._version(_FETCH)
        limits = FetchLimits(_FETCH_BYTES_MAX, FETCH_WAIT_MS, high_watermark)
        wire = _passed(raft_wire.fetch_request(request, CLUSTER_ID, limits), version)
        found, read_limits = raft_wire.read_fetch_request(wire, CLUSTER_ID)

        def read(fetched: FetchedEntries) -> FetchedEntries | None:
            response = fetched.response
            leader = _leader_state(response.epoch, response.leader_id)
            records = b"".join(bytes(encoded_entry(entry)) for entry in fetched.entries)
            message = raft_wire.fetch_response(response, records, 0, leader)
            answer = raft_wire.read_fetch_response(_passed(message, version))
            if answer is None:
                return None
            response, data = answer
            if not data:
                return FetchedEntries(response, ())
            batches = read_fetched(data, request.offset, response.epoch)
            return FetchedEntries(response, tuple(batch.entry for batch in batches))

        return Carried((found, read_limits.high_watermark), read)

    @_carry.register
    def _snapshot_part(self, request: SnapshotPart) -> Carried:
        message = snapshot_wire.snapshot_request(request, CLUSTER_ID)
        version = self._version(message.API_KEY)
        part = snapshot_wire.read_snapshot_request(_passed(message, version), CLUSTER_ID)

        def read(sent: SentPart) -> SentPart | None:
            leader = _leader_state(sent.epoch, sent.leader_id)
            answer = snapshot_wire.snapshot_response(request, sent.bytes, leader)
            found = snapshot_wire.read_snapshot_response(request, _passed(answer, version))
            return None if found is None else SentPart(*found)

        return Carried(part, read)


def _passed(message: M, version: int) -> M:
    return type(message).decode(message.encode(version), version)


def _leader_state(epoch: int, leader_id: int | None) -> LeaderState:
    """Return a leader with its address: every node knows those of the others."""
    return LeaderState(
        epoch, leader_id, None if leader_id is None else controller_endpoint(leader_id)
    )
