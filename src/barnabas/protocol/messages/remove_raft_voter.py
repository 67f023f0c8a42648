"""RemoveRaftVoter: remove a voter from the quorum."""

from __future__ import annotations

from barnabas.protocol.fields import int16, int32, string, uuid
from barnabas.protocol.messages_base import Message
from barnabas.protocol.types import Uuid


class RemoveRaftVoterRequest(Message, api="RemoveRaftVoter"):
    """The voter and its directory."""

    cluster_id: str | None = string(nullable=True)
    voter_id: int = int32()
    voter_directory_id: Uuid = uuid()


class RemoveRaftVoterResponse(Message, api="RemoveRaftVoter"):
    """The result: whether the voter was removed."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, ignorable=True)
