"""FindCoordinator: find the coordinator of groups, transactional ids or share partitions."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, int8, int16, int32, string
from barnabas.protocol.messages_base import Message, Struct


class FindCoordinatorRequest(Message, api="FindCoordinator"):
    """One key or, from version 4 on, several keys of one type."""

    key: str = string(versions="0-3")
    key_type: int = int8(versions="1+")
    coordinator_keys: list[str] = array(Kind.STRING, versions="4+")


class FindCoordinatorResponse(Message, api="FindCoordinator"):
    """The coordinator's node id, host and port for each key."""

    class Coordinator(Struct):
        key: str = string()
        node_id: int = int32()
        host: str = string()
        port: int = int32()
        error_code: int = int16()
        error_message: str | None = string(nullable=True, ignorable=True)

    throttle_time_ms: int = int32(versions="1+", ignorable=True)
    error_code: int = int16(versions="0-3")
    error_message: str | None = string(versions="1-3", nullable=True, ignorable=True)
    node_id: int = int32(versions="0-3")
    host: str = string(versions="0-3")
    port: int = int32(versions="0-3")
    coordinators: list[FindCoordinatorResponse.Coordinator] = array("Coordinator", versions="4+")
