"""The records of `__cluster_metadata`, and how they are framed.

Replayed in order over an empty image they give the cluster's topics, partitions, brokers and
configuration.
"""

from __future__ import annotations

from typing import Final

from barnabas.protocol.codec.runtime import read_varint, varint
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.fields import (
    Kind,
    array,
    binary,
    boolean,
    float64,
    int8,
    int16,
    int32,
    int64,
    string,
    uint16,
    uuid,
)
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid


class RegisterBrokerRecord(Message, record_type=0, versions="0-4", flexible="0+"):
    """A broker has registered, with its addresses, features and directories."""

    class BrokerEndpoint(Struct):
        name: str = string()
        host: str = string()
        port: int = uint16()
        security_protocol: int = int16()

    class BrokerFeature(Struct):
        name: str = string()
        min_supported_version: int = int16()
        max_supported_version: int = int16()

    broker_id: int = int32()
    is_migrating_zk_broker: bool = boolean(versions="2+")
    incarnation_id: Uuid = uuid()
    broker_epoch: int = int64()
    end_points: list[RegisterBrokerRecord.BrokerEndpoint] = array("BrokerEndpoint")
    features: list[RegisterBrokerRecord.BrokerFeature] = array("BrokerFeature")
    rack: str | None = string(nullable=True)
    fenced: bool = boolean(default=True)
    in_controlled_shutdown: bool = boolean(versions="1+")
    log_dirs: list[Uuid] = array(Kind.UUID, versions="3+", tag=0)
    cordoned_log_dirs: list[Uuid] | None = array(
        Kind.UUID, versions="4+", nullable=True, default=None, tag=1
    )


class UnregisterBrokerRecord(Message, record_type=1, versions="0", flexible="0+"):
    """A broker has left for good."""

    broker_id: int = int32()
    broker_epoch: int = int64()


class TopicRecord(Message, record_type=2, versions="0", flexible="0+"):
    """A topic has been created."""

    name: str = string()
    topic_id: Uuid = uuid()


class PartitionRecord(Message, record_type=3, versions="0-2", flexible="0+"):
    """A partition has been created, or is written whole into a snapshot."""

    partition_id: int = int32(default=-1)
    topic_id: Uuid = uuid()
    replicas: list[int] = array(Kind.INT32)
    isr: list[int] = array(Kind.INT32)
    removing_replicas: list[int] = array(Kind.INT32)
    adding_replicas: list[int] = array(Kind.INT32)
    leader: int = int32(default=-1)
    leader_recovery_state: int = int8(tag=0)
    leader_epoch: int = int32(default=-1)
    partition_epoch: int = int32(default=-1)
    directories: list[Uuid] = array(Kind.UUID, versions="1+")
    eligible_leader_replicas: list[int] | None = array(
        Kind.INT32, versions="2+", nullable=True, default=None, tag=1
    )
    last_known_elr: list[int] | None = array(
        Kind.INT32, versions="2+", nullable=True, default=None, tag=2
    )


class ConfigRecord(Message, record_type=4, versions="0", flexible="0+"):
    """A property of a resource has been set, or removed with a null value."""

    resource_type: int = int8()
    resource_name: str = string()
    name: str = string()
    value: str | None = string(nullable=True)


class PartitionChangeRecord(Message, record_type=5, versions="0-2", flexible="0+"):
    """Some of a partition's state has changed; what is left out stays."""

    partition_id: int = int32(default=-1)
    topic_id: Uuid = uuid()
    isr: list[int] | None = array(Kind.INT32, nullable=True, default=None, tag=0)
    leader: int = int32(default=-2, tag=1)
    replicas: list[int] | None = array(Kind.INT32, nullable=True, default=None, tag=2)
    removing_replicas: list[int] | None = array(Kind.INT32, nullable=True, default=None, tag=3)
    adding_replicas: list[int] | None = array(Kind.INT32, nullable=True, default=None, tag=4)
    leader_recovery_state: int = int8(default=-1, tag=5)
    directories: list[Uuid] | None = array(
        Kind.UUID, versions="1+", nullable=True, default=None, tag=8
    )
    eligible_leader_replicas: list[int] | None = array(
        Kind.INT32, versions="2+", nullable=True, default=None, tag=6
    )
    last_known_elr: list[int] | None = array(
        Kind.INT32, versions="2+", nullable=True, default=None, tag=7
    )


class FenceBrokerRecord(Message, record_type=7, versions="0", flexible="0+"):
    """A broker has been fenced; newer controllers write BrokerRegistrationChangeRecord."""

    id: int = int32()
    epoch: int = int64()


class UnfenceBrokerRecord(Message, record_type=8, versions="0", flexible="0+"):
    """A broker has been unfenced; newer controllers write BrokerRegistrationChangeRecord."""

    id: int = int32()
    epoch: int = int64()


class RemoveTopicRecord(Message, record_type=9, versions="0", flexible="0+"):
    """A topic has been deleted, with all that belongs to it."""

    topic_id: Uuid = uuid()


class DelegationTokenRecord(Message, record_type=10, versions="0", flexible="0+"):
    """A delegation token has been issued or prolonged."""

    owner: str = string()
    requester: str = string()
    renewers: list[str] = array(Kind.STRING)
    issue_timestamp: int = int64()
    max_timestamp: int = int64()
    expiration_timestamp: int = int64()
    token_id: str = string()


class UserScramCredentialRecord(Message, record_type=11, versions="0", flexible="0+"):
    """A user's SCRAM credential has been set."""

    name: str = string()
    mechanism: int = int8()
    salt: bytes = binary(secret=True)
    stored_key: bytes = binary(secret=True)
    server_key: bytes = binary(secret=True)
    iterations: int = int32()


class FeatureLevelRecord(Message, record_type=12, versions="0", flexible="0+"):
    """A feature has been finalized at a level; level 0 removes it."""

    name: str = string()
    feature_level: int = int16()


class ClientQuotaRecord(Message, record_type=14, versions="0", flexible="0+"):
    """A quota of an entity has been set or removed."""

    class EntityData(Struct):
        entity_type: str = string()
        entity_name: str | None = string(nullable=True)

    entity: list[ClientQuotaRecord.EntityData] = array("EntityData")
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


class ProducerIdsRecord(Message, record_type=15, versions="0", flexible="0+"):
    """A broker was given a block of producer ids; tells where the next block begins."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    next_producer_id: int = int64()


class BrokerRegistrationChangeRecord(Message, record_type=17, versions="0-3", flexible="0+"):
    """A broker's fencing, shutdown or directories have changed."""

    broker_id: int = int32()
    broker_epoch: int = int64()
    fenced: int = int8(tag=0)
    in_controlled_shutdown: int = int8(versions="1+", tag=1)
    log_dirs: list[Uuid] = array(Kind.UUID, versions="2+", tag=2)
    cordoned_log_dirs: list[Uuid] | None = array(
        Kind.UUID, versions="3+", nullable=True, default=None, tag=3
    )


class AccessControlEntryRecord(Message, record_type=18, versions="0", flexible="0+"):
    """An access rule has been added."""

    id: Uuid = uuid()
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8()
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class RemoveAccessControlEntryRecord(Message, record_type=19, versions="0", flexible="0+"):
    """An access rule has been removed."""

    id: Uuid = uuid()


class NoOpRecord(Message, record_type=20, versions="0", flexible="0+"):
    """Nothing has happened; keeps the quorum's high watermark moving."""


class ZkMigrationStateRecord(Message, record_type=21, versions="0", flexible="0+"):
    """How far a migration from ZooKeeper has come."""

    zk_migration_state: int = int8()


class RemoveUserScramCredentialRecord(Message, record_type=22, versions="0", flexible="0+"):
    """A user's SCRAM credential has been removed."""

    name: str = string()
    mechanism: int = int8()


class BeginTransactionRecord(Message, record_type=23, versions="0", flexible="0+"):
    """The records that follow count only once their transaction ends."""

    name: str | None = string(nullable=True, default=None, tag=0)


class EndTransactionRecord(Message, record_type=24, versions="0", flexible="0+"):
    """The records since the transaction's begin count now."""


class AbortTransactionRecord(Message, record_type=25, versions="0", flexible="0+"):
    """The records since the transaction's begin do not count."""

    reason: str | None = string(nullable=True, default=None, tag=0)


class RemoveDelegationTokenRecord(Message, record_type=26, versions="0", flexible="0+"):
    """A delegation token has expired."""

    token_id: str = string()


class RegisterControllerRecord(Message, record_type=27, versions="0", flexible="0+"):
    """A controller has registered, with its addresses and features."""

    class ControllerEndpoint(Struct):
        name: str = string()
        host: str = string()
        port: int = uint16()
        security_protocol: int = int16()

    class ControllerFeature(Struct):
        name: str = string()
        min_supported_version: int = int16()
        max_supported_version: int = int16()

    controller_id: int = int32()
    incarnation_id: Uuid = uuid()
    zk_migration_ready: bool = boolean()
    end_points: list[RegisterControllerRecord.ControllerEndpoint] = array("ControllerEndpoint")
    features: list[RegisterControllerRecord.ControllerFeature] = array("ControllerFeature")


class ClearElrRecord(Message, record_type=28, versions="0", flexible="0+"):
    """Eligible leader replicas are forgotten, of one topic or of all."""

    topic_name: str = string()


_FRAME_VERSION: Final = 1

_RECORDS: Final[dict[int, type[Message]]] = {
    record.RECORD_TYPE: record
    for record in (
        RegisterBrokerRecord,
        UnregisterBrokerRecord,
        TopicRecord,
        PartitionRecord,
        ConfigRecord,
        PartitionChangeRecord,
        FenceBrokerRecord,
        UnfenceBrokerRecord,
        RemoveTopicRecord,
        DelegationTokenRecord,
        UserScramCredentialRecord,
        FeatureLevelRecord,
        ClientQuotaRecord,
        ProducerIdsRecord,
        BrokerRegistrationChangeRecord,
        AccessControlEntryRecord,
        RemoveAccessControlEntryRecord,
        NoOpRecord,
        ZkMigrationStateRecord,
        RemoveUserScramCredentialRecord,
        BeginTransactionRecord,
        EndTransactionRecord,
        AbortTransactionRecord,
        RemoveDelegationTokenRecord,
        RegisterControllerRecord,
        ClearElrRecord,
    )
}


def encode_metadata_record(message: Message, version: int | None = None) -> bytes:
    """A record's value: frame version, type and version as varints, then the message.

    Without a `version`, the highest is taken. As Kafka's `MetadataRecordSerde`.
    """
    if version is None:
        version = message.VERSIONS.high
    frame = varint(_FRAME_VERSION) + varint(message.RECORD_TYPE) + varint(version)
    return frame + message.encode(version)


def decode_metadata_record(data: bytes) -> Message:
    """Read a record's value; ProtocolError when it is none that Kafka 4.3 knows."""
    try:
        frame_version, pos = read_varint(data, 0)
        record_type, pos = read_varint(data, pos)
        version, pos = read_varint(data, pos)
    except IndexError:
        raise ProtocolError("a metadata record ends within its frame") from None
    if frame_version != _FRAME_VERSION:
        raise ProtocolError(f"a metadata record has frame version {frame_version}")
    found = _RECORDS.get(record_type)
    if found is None or not found.VERSIONS.has(version):
        raise ProtocolError(f"there is no metadata record {record_type} v{version}")
    message, end = found.decode_from(data, pos, version)
    if end != len(data):
        raise ProtocolError(f"{len(data) - end} bytes follow a {found.__name__}")
    return message
