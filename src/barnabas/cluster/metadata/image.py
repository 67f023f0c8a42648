"""The metadata image: the state after the committed records of `__cluster_metadata`.

Images are values. A `delta.MetadataDelta` replays records over an image and makes the next one,
which shares what did not change. A handler that holds an image sees one consistent state. Names
follow Kafka's `MetadataImage` and its parts.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import attrs

from barnabas.cluster.metadata.acls import AclsImage
from barnabas.cluster.metadata.scram_credentials import ScramCredential, ScramKey
from barnabas.protocol.types import ZERO_UUID, Uuid

if TYPE_CHECKING:
    from barnabas.cluster.metadata.client_quotas import QuotaKey
    from barnabas.cluster.metadata.delegation_tokens import DelegationToken
    from barnabas.cluster.metadata.partition_index import PartitionIndex

NO_LEADER: Final = -1
METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_TOPIC_ID: Final = Uuid(b"\x00" * 15 + b"\x01")
# org.apache.kafka.common.DirectoryId
DIRECTORY_MIGRATING: Final = ZERO_UUID
DIRECTORY_UNASSIGNED: Final = Uuid(b"\x00" * 15 + b"\x01")
DIRECTORY_LOST: Final = Uuid(b"\x00" * 15 + b"\x02")
# Values that name no real directory.
NO_DIRECTORY: Final = frozenset({DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED, DIRECTORY_LOST})

# org.apache.kafka.common.config.ConfigResource.Type
RESOURCE_TOPIC: Final = 2
RESOURCE_BROKER: Final = 4
RESOURCE_BROKER_LOGGER: Final = 8
RESOURCE_CLIENT_METRICS: Final = 16
RESOURCE_GROUP: Final = 32

INTERNAL_TOPICS: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state"}
)


@attrs.frozen(slots=True)
class Endpoint:
    """The address of a listener of a broker or controller."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


@attrs.frozen(slots=True)
class PartitionImage:
    """One partition: its replicas and its leader (Kafka's `PartitionRegistration`)."""

    replicas: tuple[int, ...]
    directories: tuple[Uuid, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    leader_recovery_state: int = 0

    def directory(self, replica: int) -> Uuid:
        """Return the log directory of a replica; unassigned when the broker is not a replica."""
        for candidate, directory in zip(self.replicas, self.directories, strict=False):
            if candidate == replica:
                return directory
        return DIRECTORY_UNASSIGNED

    def with_directory(self, replica: int, directory: Uuid) -> "PartitionImage":
        """Return the partition with a replica in another log directory."""
        return attrs.evolve(
            self,
            directories=tuple(
                directory if each == replica else self.directory(each) for each in self.replicas
            ),
        )


@attrs.frozen(slots=True)
class TopicImage:
    """A topic and its partitions by number."""

    name: str
    id: Uuid
    partitions: Mapping[int, PartitionImage]

    @property
    def is_internal(self) -> bool:
        """True when Kafka stores its own state in the topic."""
        return self.name in INTERNAL_TOPICS


@attrs.frozen(slots=True)
class BrokerImage:
    """A registered broker (Kafka's `BrokerRegistration`)."""

    id: int
    epoch: int
    incarnation_id: Uuid
    endpoints: Mapping[str, Endpoint]
    features: Mapping[str, tuple[int, int]]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    directories: tuple[Uuid, ...]
    cordoned_directories: tuple[Uuid, ...] = ()

    @property
    def is_active(self) -> bool:
        """True when the broker may lead partitions: neither fenced nor in controlled shutdown."""
        return not self.fenced and not self.in_controlled_shutdown

    def has_online(self, directory: Uuid) -> bool:
        """True when a replica in this directory is online (`DirectoryId.isOnline`)."""
        if directory in (DIRECTORY_UNASSIGNED, DIRECTORY_MIGRATING):
            return True
        if directory == DIRECTORY_LOST:
            return False
        return not self.directories or directory in self.directories


@attrs.frozen(slots=True)
class ControllerImage:
    """A registered controller (Kafka's `ControllerRegistration`)."""

    id: int
    incarnation_id: Uuid
    endpoints: Mapping[str, Endpoint]
    features: Mapping[str, tuple[int, int]]


@attrs.frozen(slots=True)
class MetadataImage:
    """All metadata up to and including `offset`.

    `controller_id` and `epoch` are the quorum's leader (-1: unknown) and its epoch;
    `record_epoch` is the epoch of the last record. `configs` maps (resource type, name) to the
    overrides set there. `scram` has the SCRAM credentials of users, `acls` the ACLs,
    `client_quotas` the quotas of clients, `tokens` the delegation tokens by their ids.
    """

    cluster_id: str = ""
    offset: int = -1
    record_epoch: int = 0
    controller_id: int = -1
    epoch: int = 0
    topics_by_name: Mapping[str, TopicImage] = attrs.field(factory=dict[str, TopicImage])
    topics_by_id: Mapping[Uuid, TopicImage] = attrs.field(factory=dict[Uuid, TopicImage])
    brokers: Mapping[int, BrokerImage] = attrs.field(factory=dict[int, BrokerImage])
    controllers: Mapping[int, ControllerImage] = attrs.field(factory=dict[int, ControllerImage])
    configs: Mapping[tuple[int, str], Mapping[str, str]] = attrs.field(
        factory=dict[tuple[int, str], Mapping[str, str]]
    )
    features: Mapping[str, int] = attrs.field(factory=dict[str, int])
    scram: Mapping[ScramKey, ScramCredential] = attrs.field(factory=dict[ScramKey, ScramCredential])
    acls: AclsImage = attrs.field(factory=AclsImage)
    client_quotas: "Mapping[QuotaKey, float]" = attrs.field(factory=dict["QuotaKey", float])
    tokens: "Mapping[str, DelegationToken]" = attrs.field(factory=dict[str, "DelegationToken"])
    next_producer_id: int = 0
    _partition_index: "PartitionIndex | None" = attrs.field(default=None, eq=False, repr=False)

    @property
    def partition_index(self) -> "PartitionIndex":
        """The partitions by broker, directory and condition.

        It is made on first use, so only the active controller has one. A delta then brings it up to
        date with the image.
        """
        from barnabas.cluster.metadata.partition_index import PartitionIndex

        index = self._partition_index
        if index is None or index.topics is not self.topics_by_id:
            index = PartitionIndex.of(self.topics_by_id)
            object.__setattr__(self, "_partition_index", index)
        return index

    @property
    def has_partition_index(self) -> bool:
        """True when the index was made already."""
        index = self._partition_index
        return index is not None and index.topics is self.topics_by_id

    @property
    def active_brokers(self) -> set[int]:
        """The ids of the brokers that are active."""
        return {broker.id for broker in self.brokers.values() if broker.is_active}

    def partition(self, topic: str, partition: int) -> PartitionImage | None:
        """Return the partition, or None when the topic or the partition is unknown."""
        image = self.topics_by_name.get(topic)
        return image.partitions.get(partition) if image else None

    def topic_config(self, topic: str) -> Mapping[str, str]:
        """Return the overrides of the topic's configuration."""
        return self.configs.get((RESOURCE_TOPIC, topic), {})

    def broker_config(self, broker_id: int | None) -> Mapping[str, str]:
        """Return the dynamic configuration of one broker, or (None) of all brokers."""
        name = "" if broker_id is None else str(broker_id)
        return self.configs.get((RESOURCE_BROKER, name), {})

    @property
    def is_empty(self) -> bool:
        """True when no metadata record was replayed; the first controller then bootstraps."""
        return not self.features
