"""BrokerRegistration: register a broker with the controller."""

from __future__ import annotations

from barnabas.protocol.fields import Kind, array, boolean, int16, int32, int64, string, uint16, uuid
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid


class BrokerRegistrationRequest(Message, api="BrokerRegistration"):
    """A broker with its listeners, features and directories."""

    class Listener(Struct):
        name: str = string()
        host: str = string()
        port: int = uint16()
        security_protocol: int = int16()

    class Feature(Struct):
        name: str = string()
        min_supported_version: int = int16()
        max_supported_version: int = int16()

    broker_id: int = int32()
    cluster_id: str = string()
    incarnation_id: Uuid = uuid()
    listeners: list[BrokerRegistrationRequest.Listener] = array("Listener")
    features: list[BrokerRegistrationRequest.Feature] = array("Feature")
    rack: str | None = string(nullable=True)
    is_migrating_zk_broker: bool = boolean(versions="1+")
    log_dirs: list[Uuid] = array(Kind.UUID, versions="2+", ignorable=True)
    previous_broker_epoch: int = int64(versions="3+", default=-1, ignorable=True)


class BrokerRegistrationResponse(Message, api="BrokerRegistration"):
    """The broker epoch."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    broker_epoch: int = int64(default=-1)
