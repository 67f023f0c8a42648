"""The parts of the node that each family of handlers uses.

A family is a package of `handlers`. Its handlers find these parts in `context.services`;
`server.node.api_wiring` fills them in.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import attrs

from barnabas.server.api.context import AnyContext, RequestContext

if TYPE_CHECKING:
    from barnabas.clock import Clock
    from barnabas.cluster.metadata.image import MetadataImage
    from barnabas.cluster.replication import ReplicaManager
    from barnabas.config.subscriptions import ConfigSubscriptions
    from barnabas.log import LogManager
    from barnabas.log.directories.log_relocation import LogRelocation
    from barnabas.protocol.errors import ErrorCode
    from barnabas.server.api.dispatch import Dispatcher
    from barnabas.server.api.node_quotas import ClientQuotas
    from barnabas.server.controller_channel.controller_channel import ControllerChannel
    from barnabas.server.coordinators.group_service import GroupCoordinator
    from barnabas.server.coordinators.transactions.transaction_service import (
        TransactionCoordinator,
    )
    from barnabas.server.coordinators.transactions.transaction_verification import (
        Admission,
        Support,
    )
    from barnabas.server.replication.commit_wait import CommitWaits
    from barnabas.server.replication.fetch_sessions import FetchSessionCache
    from barnabas.server.storage.disk_threads import DiskThreads
    from barnabas.server.storage.record_worker import RecordWorker


if TYPE_CHECKING:
    PrepareAdmission: TypeAlias = Callable[
        [Support, str, int, int, Iterable[tuple[str, int]]], Admission
    ]
    """Prepares a transaction's first writes: support, transactional id, producer, partitions."""


@attrs.frozen
class AdminServices:
    """For the apis that a broker forwards to the controller."""

    node_id: int
    channel: "ControllerChannel"
    settings: "ConfigSubscriptions"


@attrs.frozen
class ConfigServices:
    """For DescribeConfigs and ListConfigResources."""

    node_id: int
    settings: "ConfigSubscriptions"
    image: "Callable[[], MetadataImage]"
    """Returns the committed metadata."""


@attrs.frozen
class DataServices:
    """For Produce, Fetch, ListOffsets, DeleteRecords and OffsetForLeaderEpoch."""

    replicas: "ReplicaManager"
    records: "RecordWorker"
    fetch_sessions: "FetchSessionCache"
    settings: "ConfigSubscriptions"
    clock: "Clock"
    admission: "PrepareAdmission"
    commits: "CommitWaits"
    checkpoint_log_starts: Callable[[], Awaitable[object]]
    quotas: "ClientQuotas"


@attrs.frozen
class EnvelopeServices:
    """For Envelope."""

    dispatcher: "Callable[[], Dispatcher]"
    """Returns the dispatcher of the controller listeners, which answers the embedded requests."""


@attrs.frozen
class GroupServices:
    """For the apis of groups and their offsets, and FindCoordinator."""

    image: "Callable[[], MetadataImage]"
    """Returns the committed metadata."""
    groups: "GroupCoordinator"
    create_internal_topic: Callable[[str], Awaitable[None]]
    """Creates a coordinator's topic, if it does not exist."""


@attrs.frozen
class LogDirServices:
    """For DescribeLogDirs and AlterReplicaLogDirs."""

    node_id: int
    replicas: "ReplicaManager"
    logs: "LogManager"
    disk: "DiskThreads"
    start_relocation: "Callable[[LogRelocation], object]"
    """Starts to copy a log to its new directory."""


@attrs.frozen
class SecurityServices:
    """For the apis of users, quotas and delegation tokens."""

    image: "Callable[[], MetadataImage]"
    """Returns the committed metadata."""
    settings: "ConfigSubscriptions"


@attrs.frozen
class MetadataServices:
    """For ApiVersions, Metadata, DescribeCluster, DescribeTopicPartitions."""

    image: "Callable[[], MetadataImage]"
    """Returns the committed metadata."""
    settle_failures: "Callable[[], Awaitable[None]]"
    """Waits shortly for the next leaders of a broker that has just ended."""
    just_ended: Callable[[], frozenset[int]]
    """Returns the brokers that stay listed for some seconds after their end."""
    kraft_version: Callable[[], int]
    """Returns the finalized kraft.version, which is not part of the metadata records."""
    settings: "ConfigSubscriptions"
    controller_versions: "Callable[[], Mapping[int, tuple[int, int]] | None]"
    """Returns the versions that the active controller of another node serves, by api key."""
    create_topics: "Callable[[list[str], AnyContext], Awaitable[dict[str, ErrorCode]]]"
    """Creates topics for a client, with default settings; returns the error of each that was not
    created.
    """


@attrs.frozen
class TransactionServices:
    """For the apis of idempotent producers and transactions."""

    image: "Callable[[], MetadataImage]"
    """Returns the committed metadata."""
    transactions: "TransactionCoordinator"
    groups: "GroupCoordinator"
    replicas: "ReplicaManager"
    settings: "ConfigSubscriptions"
    admission: "PrepareAdmission"


AdminContext: TypeAlias = RequestContext[AdminServices]
ConfigContext: TypeAlias = RequestContext[ConfigServices]
DataContext: TypeAlias = RequestContext[DataServices]
EnvelopeContext: TypeAlias = RequestContext[EnvelopeServices]
GroupsContext: TypeAlias = RequestContext[GroupServices]
LogDirContext: TypeAlias = RequestContext[LogDirServices]
MetadataContext: TypeAlias = RequestContext[MetadataServices]
SecurityContext: TypeAlias = RequestContext[SecurityServices]
TransactionsContext: TypeAlias = RequestContext[TransactionServices]
