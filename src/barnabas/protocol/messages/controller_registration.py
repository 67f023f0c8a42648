"""ControllerRegistration: register a controller with the active controller."""

from __future__ import annotations

from barnabas.protocol.fields import array, boolean, int16, int32, string, uint16, uuid
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid


class ControllerRegistrationRequest(Message, api="ControllerRegistration"):
    """A controller with its listeners and features."""

    class Listener(Struct):
        name: str = string()
        host: str = string()
        port: int = uint16()
        security_protocol: int = int16()

    class Feature(Struct):
        name: str = string()
        min_supported_version: int = int16()
        max_supported_version: int = int16()

    controller_id: int = int32()
    incarnation_id: Uuid = uuid()
    zk_migration_ready: bool = boolean()
    listeners: list[ControllerRegistrationRequest.Listener] = array("Listener")
    features: list[ControllerRegistrationRequest.Feature] = array("Feature")


class ControllerRegistrationResponse(Message, api="ControllerRegistration"):
    """The result: whether the registration was accepted."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
