"""Which runner of a group is active: the one that owns partition 0 of the configs topic.

Runners are members of an ordinary consumer group, protocol type `consumer`. A member's metadata has
its URLs and whether it owns the partition already; the group's leader leaves the partition with its
owner, so that a runner that joins moves nothing. Each member's assignment has the owner's URLs.

Java's workers are members of protocol type `connect`: a group with such members refuses runners,
and a group with runners refuses Java's workers.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import attrs

from barnabas.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from barnabas.protocol.messages_base import Message

PROTOCOL_TYPE: Final = "consumer"
PROTOCOL_NAME: Final = "barnabas-active-runner"

_VERSION: Final = 1
_VERSION_BYTES: Final = 2
_PARTITION: Final = 0

R = TypeVar("R", bound=Message)


@attrs.frozen
class Role:
    """The group's decision for one runner."""

    is_active: bool
    active_url: str
    """The URL of the active runner."""

    active_sql_url: str = ""
    """Where the active runner serves SQL, empty when it does not."""


@attrs.frozen
class GroupRunner:
    """One runner of a group."""

    url: str
    sql_url: str
    """Where it serves SQL, empty when it does not."""
    is_active: bool


class ActivityProtocol:
    """The group protocol of one runner."""

    def __init__(self, topic: str, url: str, sql_url: str = "") -> None:
        self.is_active = False
        """True while this runner owns the partition."""
        self._topic = topic
        self._urls = " ".join((url, sql_url)).rstrip()

    def protocols(self) -> Sequence[tuple[str, bytes]]:
        """Return the protocol with this member's metadata."""
        owned = ConsumerProtocolSubscription.TopicPartition(
            topic=self._topic, partitions=[_PARTITION]
        )
        subscription = ConsumerProtocolSubscription(
            topics=[self._topic],
            user_data=self._urls.encode(),
            owned_partitions=[owned] if self.is_active else [],
        )
        return [(PROTOCOL_NAME, _encoded(subscription))]

    def assign(self, protocol: str, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Return every member's assignment: the partition for one of them."""
        del protocol
        found = {
            member: _decoded(metadata, ConsumerProtocolSubscription)
            for member, metadata in members.items()
        }
        owner = min(found, key=lambda member: (not found[member].owned_partitions, member))
        urls = found[owner].user_data
        part = ConsumerProtocolAssignment.TopicPartition(topic=self._topic, partitions=[_PARTITION])
        return {
            member: _encoded(
                ConsumerProtocolAssignment(
                    assigned_partitions=[part] if member == owner else [], user_data=urls
                )
            )
            for member in members
        }


def role_of(assignment: bytes) -> Role:
    """Return a member's role from its assignment."""
    if not assignment:
        return Role(False, "")
    found = _decoded(assignment, ConsumerProtocolAssignment)
    return Role(bool(found.assigned_partitions), *_urls(found.user_data))


def runner_of(metadata: bytes, assignment: bytes) -> GroupRunner:
    """Return a member with its own URLs."""
    urls = _urls(_decoded(metadata, ConsumerProtocolSubscription).user_data)
    return GroupRunner(*urls, role_of(assignment).is_active)


def _urls(user_data: bytes | None) -> tuple[str, str]:
    url, _, sql_url = (user_data or b"").decode(errors="replace").partition(" ")
    return url, sql_url


def _encoded(message: Message) -> bytes:
    return _VERSION.to_bytes(_VERSION_BYTES, "big") + message.encode(_VERSION)


def _decoded(data: bytes, kind: type[R]) -> R:
    version = int.from_bytes(data[:_VERSION_BYTES], "big")
    return kind.decode(data[_VERSION_BYTES:], min(version, _VERSION))
