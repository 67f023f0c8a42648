"""Voters of the simulation that keep their entry current, and controllers that join by themselves.

The requests of `voter_upkeep` pass as Kafka's messages. A controller has another address after each
start, so its voters' record must be updated.
"""

from collections.abc import Callable
from typing import Any, Final

from barnabas.cluster.metadata.image import Endpoint
from barnabas.cluster.quorum.raft import RaftCore
from barnabas.cluster.quorum.voter_upkeep import UpkeepRequest, next_upkeep, oldest_form
from barnabas.cluster.quorum.voters import ReplicaKey, Voter
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from barnabas.protocol.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from barnabas.protocol.messages.update_raft_voter import (
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from barnabas.testing.simulation.network import Failure, Network, Respond
from barnabas.testing.simulation.quorum_disk import CLUSTER_ID
from barnabas.testing.simulation.quorum_format import PORT, controller_endpoint
from barnabas.testing.simulation.voter_operations import (
    AddVoter,
    RemoveVoter,
    UpdateVoter,
    VoterOperations,
)
from barnabas.testing.simulation.world import Process

VoterRequest = AddVoter | RemoveVoter | UpkeepRequest

_INTERVAL_MS: Final = 2_000
_TIMEOUT_MS: Final = 35_000
_PORTS: Final = 3


def endpoint_of(process: Process, *, moves: bool) -> Endpoint:
    """Return the address of a controller; one that moves has another after its next start."""
    return controller_endpoint(process.node_id, PORT + process.life % _PORTS if moves else PORT)


class VoterUpkeep:
    """Sends the requests of one life of a controller to the leader."""

    def __init__(self, process: Process, network: Network, core: RaftCore) -> None:
        self._process = process
        self._network = network
        self._core = core
        self._is_waiting = False
        self._reported_epoch = -1
        process.after_ms(_INTERVAL_MS, self._look)

    def _look(self) -> None:
        core = self._core
        request = next_upkeep(core, CLUSTER_ID, _INTERVAL_MS, auto_join=True)
        # Without a record of the voters, each leader gets one report.
        is_reported = core.kraft_version == 0 and self._reported_epoch == core.epoch
        if request is not None and not is_reported and not self._is_waiting:
            self._send(request)
        self._process.after_ms(_INTERVAL_MS, self._look)

    def _send(self, request: UpkeepRequest) -> None:
        leader_id = self._core.leader_id
        if leader_id is None:
            return
        self._is_waiting, epoch = True, self._core.epoch

        def answered(response: Any) -> None:
            self._is_waiting = False
            if response.error_code == ErrorCode.NONE:
                self._reported_epoch = epoch

        def failed(failure: Failure) -> None:
            self._is_waiting = False
            if failure is Failure.TOO_OLD:
                self._send(oldest_form(request))

        self._network.ask(
            self._process,
            leader_id,
            "controller",
            request,
            answered,
            failed,
            purpose="raft-upkeep",
            timeout_ms=_TIMEOUT_MS,
        )


def submit_request(operations: VoterOperations, request: VoterRequest, respond: Respond) -> None:
    """Have the leader carry out a request of an administrator, or of a controller about itself."""
    match request:
        case AddVoter() | RemoveVoter():
            operations.submit(request, respond)
        case RemoveRaftVoterRequest():
            change = RemoveVoter(_key(request))
            operations.submit(change, _answer(RemoveRaftVoterResponse, respond))
        case AddRaftVoterRequest():
            endpoints = _endpoints(request.listeners)
            change = AddVoter(_key(request), endpoints, waits_for_commit=request.ack_when_committed)
            operations.submit(change, _answer(AddRaftVoterResponse, respond))
        case UpdateRaftVoterRequest():
            versions = request.kraft_version_feature
            low, high = versions.min_supported_version, versions.max_supported_version
            voter = Voter(_key(request), _endpoints(request.listeners), low, high)
            operations.submit(UpdateVoter(voter), _answer(UpdateRaftVoterResponse, respond))


def _key(request: UpkeepRequest) -> ReplicaKey:
    return ReplicaKey(request.voter_id, request.voter_directory_id)


def _answer(response_type: Callable[..., Any], respond: Respond) -> Callable[[ErrorCode], None]:
    return lambda code: respond(response_type(error_code=code))


def _endpoints(listeners: list[Any]) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(each.name, each.host, each.port) for each in listeners)
