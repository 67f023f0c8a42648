"""Requests of a replica about itself: update its entry among the voters, or join them.

A voter whose endpoints or versions differ from its record asks the leader to update the record.
With `controller.quorum.auto.join.enable`, a controller that is not a voter joins: it first removes
the voter with its id and another directory, which was its replaced disk (KIP-1186).
"""

import copy

from barnabas.cluster.quorum.raft import RaftCore
from barnabas.cluster.quorum.raft_state import Role
from barnabas.protocol.messages.add_raft_voter import AddRaftVoterRequest
from barnabas.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from barnabas.protocol.messages.update_raft_voter import UpdateRaftVoterRequest

UpkeepRequest = AddRaftVoterRequest | RemoveRaftVoterRequest | UpdateRaftVoterRequest


def next_upkeep(
    core: RaftCore, cluster_id: str, timeout_ms: int, *, auto_join: bool
) -> UpkeepRequest | None:
    """Return the request that is due while this replica follows a leader; None for none."""
    local = core.local
    if core.role is not Role.FOLLOWER or not local.endpoints:
        return None
    known = core.voters.voters.get(local.key.id)
    if core.is_voter:
        is_reported = core.kraft_version > 0 and known == local
        return None if is_reported else _update(core, cluster_id)
    if not auto_join or core.kraft_version == 0:
        return None
    if known is not None:
        return RemoveRaftVoterRequest(
            cluster_id=cluster_id,
            voter_id=known.key.id,
            voter_directory_id=known.key.directory_id,
        )
    listener = AddRaftVoterRequest.Listener
    return AddRaftVoterRequest(
        cluster_id=cluster_id,
        timeout_ms=timeout_ms,
        voter_id=local.key.id,
        voter_directory_id=local.key.directory_id,
        listeners=[listener(name=e.name, host=e.host, port=e.port) for e in local.endpoints],
        ack_when_committed=False,
    )


def oldest_form(request: UpkeepRequest) -> UpkeepRequest:
    """Return the request for a leader whose versions cannot carry it.

    AddRaftVoter v0 is always answered after the commit.
    """
    if not isinstance(request, AddRaftVoterRequest):
        return request
    older = copy.copy(request)
    older.ack_when_committed = True
    return older


def _update(core: RaftCore, cluster_id: str) -> UpdateRaftVoterRequest:
    local, request = core.local, UpdateRaftVoterRequest
    return request(
        cluster_id=cluster_id,
        current_leader_epoch=core.epoch,
        voter_id=local.key.id,
        voter_directory_id=local.key.directory_id,
        listeners=[
            request.Listener(name=e.name, host=e.host, port=e.port) for e in local.endpoints
        ],
        kraft_version_feature=request.KRaftVersionFeature(
            min_supported_version=local.kraft_version_min,
            max_supported_version=local.kraft_version_max,
        ),
    )
