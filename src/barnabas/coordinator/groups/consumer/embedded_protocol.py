"""Subscriptions and assignments that consumers embed in the classic protocol, with versions.

Kafka: clients' ConsumerProtocol. Bytes of a later version are read as the newest known one.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Any

from barnabas.cluster.metadata.image import MetadataImage
from barnabas.coordinator.groups.consumer.consumer_member import Assignment
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from barnabas.protocol.types import Uuid

_VERSION = Struct(">h")
_VERSION_MAX = 3


def version_of(data: bytes) -> int:
    """Return the version of the bytes, at most the newest known. Raises ProtocolError."""
    if len(data) < _VERSION.size:
        raise ProtocolError("consumer protocol data has no version")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise ProtocolError(f"unknown version of the consumer protocol: {version}")
    return min(version, _VERSION_MAX)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """Return a consumer's subscription. Raises ProtocolError."""
    found, _ = ConsumerProtocolSubscription.decode_from(data, _VERSION.size, version_of(data))
    return found


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """Return a consumer's assignment, an empty one for no bytes. Raises ProtocolError."""
    if not data:
        return ConsumerProtocolAssignment()
    found, _ = ConsumerProtocolAssignment.decode_from(data, _VERSION.size, version_of(data))
    return found


def write_assignment(assignment: Assignment, image: MetadataImage, version: int) -> bytes:
    """Encode an assignment in the version of its consumer, without topics that are deleted."""
    partition_type = ConsumerProtocolAssignment.TopicPartition
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            partition_type(topic=topic.name, partitions=sorted(partitions))
            for topic_id, partitions in assignment.items()
            if (topic := image.topics_by_id.get(topic_id)) is not None
        ]
    )
    return _VERSION.pack(version) + message.encode(version)


def by_topic_id(partitions: Iterable[Any], image: MetadataImage) -> dict[Uuid, frozenset[int]]:
    """Return partitions given with topic names, by the ids of the topics that exist."""
    found: dict[Uuid, frozenset[int]] = {}
    for one in partitions:
        topic = image.topics_by_name.get(one.topic)
        if topic is not None:
            found[topic.id] = frozenset(one.partitions)
    return found
