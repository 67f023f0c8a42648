"""Records of `__cluster_metadata`, and their encoding.

Replaying them in order over an empty image gives the cluster's topics, partitions, brokers and
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
    """A broker registers with its endpoints, features and directories."""

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
    """A broker is unregistered."""

    broker_id: int = int32()
    broker_epoch: int = int64()


class TopicRecord(Message, record_type=2, versions="0", flexible="0+"):
    """A topic is created."""

    name: str = string()
    topic_id: Uuid = uuid()


class PartitionRecord(Message, record_type=3, versions="0-2", flexible="0+"):
    """A partition is created; a snapshot holds its complete state."""

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
    """A property of a resource is set, or removed with a null value."""

    resource_type: int = int8()
    resource_name: str = string()
    name: str = string()
    value: str | None = string(nullable=True)


class PartitionChangeRecord(Message, record_type=5, versions="0-2", flexible="0+"):
    """Parts of a partition's state change; omitted fields stay."""

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
    """A broker is fenced; newer controllers write BrokerRegistrationChangeRecord."""

    id: int = int32()
    epoch: int = int64()


class UnfenceBrokerRecord(Message, record_type=8, versions="0", flexible="0+"):
    """A broker is unfenced; newer controllers write BrokerRegistrationChangeRecord."""

    id: int = int32()
    epoch: int = int64()


class RemoveTopicRecord(Message, record_type=9, versions="0", flexible="0+"):
    """A topic is deleted with its partitions and configuration."""

    topic_id: Uuid = uuid()


class DelegationTokenRecord(Message, record_type=10, versions="0", flexible="0+"):
    """A delegation token is issued or renewed."""

    owner: str = string()
    requester: str = string()
    renewers: list[str] = array(Kind.STRING)
    issue_timestamp: int = int64()
    max_timestamp: int = int64()
    expiration_timestamp: int = int64()
    token_id: str = string()


class UserScramCredentialRecord(Message, record_type=11, versions="0", flexible="0+"):
    """A user's SCRAM credential is set."""

    name: str = string()
    mechanism: int = int8()
    salt: bytes = binary(secret=True)
    stored_key: bytes = binary(secret=True)
    server_key: bytes = binary(secret=True)
    iterations: int = int32()


class FeatureLevelRecord(Message, record_type=12, versions="0", flexible="0+"):
    """A feature is finalized at a level; level 0 removes it."""

    name: str = string()
    feature_level: int = int16()


class ClientQuotaRecord(Message, record_type=14, versions="0", flexible="0+"):
    """A quota of an entity is set or removed."""

    class EntityData(Struct):
        entity_type: str = string()
        entity_name: str | None = string(nullable=True)

    entity: list[ClientQuotaRecord.EntityData] = array("EntityData")
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


class ProducerIdsRecord(Message, record_type=15, versions="0", flexible="0+"):
    """A broker gets a block of producer ids; states where the next block starts."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    next_producer_id: int = int64()


class BrokerRegistrationChangeRecord(Message, record_type=17, versions="0-3", flexible="0+"):
    """A broker's fencing, controlled shutdown or directories change."""

    broker_id: int = int32()
    broker_epoch: int = int64()
    fenced: int = int8(tag=0)
    in_controlled_shutdown: int = int8(versions="1+", tag=1)
    log_dirs: list[Uuid] = array(Kind.UUID, versions="2+", tag=2)
    cordoned_log_dirs: list[Uuid] | None = array(
        Kind.UUID, versions="3+", nullable=True, default=None, tag=3
    )


class AccessControlEntryRecord(Message, record_type=18, versions="0", flexible="0+"):
    """An ACL is added."""

    id: Uuid = uuid()
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8()
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class RemoveAccessControlEntryRecord(Message, record_type=19, versions="0", flexible="0+"):
    """An ACL is removed."""

    id: Uuid = uuid()


class NoOpRecord(Message, record_type=20, versions="0", flexible="0+"):
    """No change; keeps the high watermark of an idle quorum advancing."""


class ZkMigrationStateRecord(Message, record_type=21, versions="0", flexible="0+"):
    """The state of a migration from ZooKeeper."""

    zk_migration_state: int = int8()


class RemoveUserScramCredentialRecord(Message, record_type=22, versions="0", flexible="0+"):
    """A user's SCRAM credential is removed."""

    name: str = string()
    mechanism: int = int8()


class BeginTransactionRecord(Message, record_type=23, versions="0", flexible="0+"):
    """A metadata transaction begins; its records take effect when it ends."""

    name: str | None = string(nullable=True, default=None, tag=0)


class EndTransactionRecord(Message, record_type=24, versions="0", flexible="0+"):
    """The metadata transaction commits."""


class AbortTransactionRecord(Message, record_type=25, versions="0", flexible="0+"):
    """The metadata transaction aborts."""

    reason: str | None = string(nullable=True, default=None, tag=0)


class RemoveDelegationTokenRecord(Message, record_type=26, versions="0", flexible="0+"):
    """A delegation token is removed."""

    token_id: str = string()


class RegisterControllerRecord(Message, record_type=27, versions="0", flexible="0+"):
    """A controller registers with its endpoints and features."""

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
    """The ELR of one topic, or of all topics, is cleared."""

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
    """Return a record's value: frame version, type and version as varints, then the message.

    The default version is the highest. Source: `MetadataRecordSerde`.
    """
    if version is None:
        version = message.VERSIONS.high
    frame = varint(_FRAME_VERSION) + varint(message.RECORD_TYPE) + varint(version)
    return frame + message.encode(version)


def decode_metadata_record(data: bytes) -> Message:
    """Decode a record's value.

    Raises ProtocolError when it is not a record of Kafka 4.3.
    """
    try:
        frame_version, pos = read_varint(data, 0)
        record_type, pos = read_varint(data, pos)
        version, pos = read_varint(data, pos)
    except IndexError:
        raise ProtocolError("a truncated metadata record") from None
    if frame_version != _FRAME_VERSION:
        raise ProtocolError(f"a metadata record has frame version {frame_version}")
    found = _RECORDS.get(record_type)
    if found is None or not found.VERSIONS.has(version):
        raise ProtocolError(f"unknown metadata record type {record_type} v{version}")
    message, end = found.decode_from(data, pos, version)
    if end != len(data):
        raise ProtocolError(f"{len(data) - end} bytes follow a {found.__name__}")
    return message
