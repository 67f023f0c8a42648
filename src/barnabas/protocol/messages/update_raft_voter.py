"""UpdateRaftVoter: update a voter's endpoints and supported versions."""

from __future__ import annotations

from barnabas.protocol.fields import array, int16, int32, string, struct, uint16, uuid
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid


class UpdateRaftVoterRequest(Message, api="UpdateRaftVoter"):
    """The voter's current endpoints and versions."""

    class Listener(Struct):
        name: str = string()
        host: str = string()
        port: int = uint16()

    class KRaftVersionFeature(Struct):
        min_supported_version: int = int16()
        max_supported_version: int = int16()

    cluster_id: str | None = string(nullable=True)
    current_leader_epoch: int = int32()
    voter_id: int = int32()
    voter_directory_id: Uuid = uuid()
    listeners: list[UpdateRaftVoterRequest.Listener] = array("Listener")
    kraft_version_feature: UpdateRaftVoterRequest.KRaftVersionFeature = struct(
        "KRaftVersionFeature"
    )


class UpdateRaftVoterResponse(Message, api="UpdateRaftVoter"):
    """The result: whether the update was recorded; and the current leader."""

    class CurrentLeader(Struct):
        leader_id: int = int32(default=-1)
        leader_epoch: int = int32(default=-1)
        host: str = string()
        port: int = int32()

    throttle_time_ms: int = int32()
    error_code: int = int16()
    current_leader: UpdateRaftVoterResponse.CurrentLeader = struct("CurrentLeader", tag=0)
