"""AddRaftVoter: add a voter to the quorum."""

from __future__ import annotations

from barnabas.protocol.fields import array, boolean, int16, int32, string, uint16, uuid
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid


class AddRaftVoterRequest(Message, api="AddRaftVoter"):
    """The new voter with its directory and endpoints."""

    class Listener(Struct):
        name: str = string()
        host: str = string()
        port: int = uint16()

    cluster_id: str | None = string(nullable=True)
    timeout_ms: int = int32()
    voter_id: int = int32()
    voter_directory_id: Uuid = uuid()
    listeners: list[AddRaftVoterRequest.Listener] = array("Listener")
    ack_when_committed: bool = boolean(versions="1+", default=True)


class AddRaftVoterResponse(Message, api="AddRaftVoter"):
    """The result: whether the voter was added."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, ignorable=True)
