"""Report to the controller which directory each replica is in, and which directories failed.

This is the broker's side of KIP-858 (Kafka's `AssignmentsManager`). With several log directories, a
replica is assigned to one as soon as the metadata have it, although its log is created on first
use.
"""

import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Protocol

from barnabas import tasks
from barnabas.cluster.metadata.delta import MetadataDelta
from barnabas.cluster.metadata.feature_levels import METADATA_VERSION, supports_directories
from barnabas.cluster.metadata.image import NO_DIRECTORY, MetadataImage, TopicImage
from barnabas.log import PartitionLog, Volume
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from barnabas.protocol.types import Uuid
from barnabas.server.node_failures import raise_error

if TYPE_CHECKING:
    from barnabas.cluster.broker.broker_lifecycle import BrokerLifecycle
    from barnabas.log import LogManager

logger = logging.getLogger(__name__)

_RETRY_S: Final = 1.0

_REPLICAS_PER_REQUEST_MAX: Final = 2250
"""As Kafka's `AssignmentsManager`: a controller refuses what does not fit into one batch."""

DirectoryData = AssignReplicasToDirsRequest.DirectoryData
TopicData = AssignReplicasToDirsRequest.TopicData
PartitionData = AssignReplicasToDirsRequest.PartitionData


class AssignmentsChannel(Protocol):
    """Carries the reports to the active controller."""

    async def send(
        self,
        request: AssignReplicasToDirsRequest,
        response_type: type[AssignReplicasToDirsResponse],
        /,
    ) -> AssignReplicasToDirsResponse:
        """Return the response. Raises KafkaError when no controller answers."""
        ...


class PublishedMetadata(Protocol):
    """Calls subscribers with each new image."""

    def subscribe(
        self, name: str, callback: Callable[[MetadataImage, MetadataDelta], None]
    ) -> None:
        """Call `callback` with each new image and what changed in it."""
        ...


class FailureReports(Protocol):
    """Reports failed directories to the controller with the next heartbeat."""

    def report_offline(self, directories: Iterable[Uuid]) -> None:
        """Report failed log directories to the controller."""
        ...


class QuorumView(Protocol):
    """The published metadata, and the reports to the controller."""

    @property
    def image(self) -> MetadataImage:
        """The newest metadata that are published."""
        ...

    @property
    def publisher(self) -> PublishedMetadata:
        """The metadata to follow."""
        ...

    @property
    def lifecycle(self) -> FailureReports:
        """The reports of failed directories."""
        ...


class DirectoryAssignments:
    """Keeps the directories in the metadata equal to those of this node's replicas."""

    def __init__(
        self,
        logs: "LogManager",
        broker: "BrokerLifecycle",
        quorum: QuorumView,
        channel: AssignmentsChannel,
    ) -> None:
        self._logs = logs
        self._broker = broker
        self._quorum = quorum
        self._channel = channel
        self._unreported: dict[tuple[Uuid, int], Uuid] = {}
        self._moving: dict[tuple[Uuid, int], Uuid] = {}  # the directories of moves in the last step
        self._wanted = tasks.event()

    async def run(self) -> None:
        """Follow the metadata and report to the controller, until cancelled."""
        self._quorum.publisher.subscribe("directory assignments", self.follow)
        self.check_all(self._quorum.image)
        while True:
            await self._wanted.wait()
            try:
                await self.report()
            except KafkaError as error:
                logger.warning("cannot report directory assignments error=%s", error)
                await tasks.sleep(_RETRY_S)
                self._wanted.set()

    def failed(self) -> None:
        """Report failed directories soon."""
        self._wanted.set()

    async def report(self) -> None:
        """Report what is not reported yet; it waits only for the channel. Raises KafkaError."""
        self._wanted = tasks.event()
        self._report_failures()
        await self._report_assignments()

    @asynccontextmanager
    async def moving(self, log: PartitionLog, target: Volume) -> AsyncGenerator[None]:
        """Have the metadata name `target` within the block, where the log moves there.

        If the metadata changed only afterwards, a node that ends in between, and starts without the
        new directory, would create the log again in the old one. After the block, the log's real
        directory is reported if it differs.
        """
        image = self._quorum.image
        topic = image.topics_by_name.get(log.topic)
        directory = target.directory_id
        if topic is None or directory is None or not supports_directories(image.features):
            yield
            return
        key = (topic.id, log.partition)
        self._moving[key] = directory
        try:
            await self._report_until_accepted({key: directory})
            yield
        finally:
            if self._moving.get(key) == directory:
                del self._moving[key]
            image = self._quorum.image
            topic = image.topics_by_id.get(topic.id)
            if topic is not None:
                self._check(image, [(topic, [log.partition])])

    # Find what to report

    def follow(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Find what to report after a change of the metadata."""
        if METADATA_VERSION in delta.features:
            self.check_all(image)
        self._check(
            image,
            ((image.topics_by_id[each.id], each.changed) for each in delta.topics.values()),
        )

    def check_all(self, image: MetadataImage) -> None:
        """Find what to report in a whole image."""
        self._check(image, ((each, each.partitions) for each in image.topics_by_id.values()))

    def _check(
        self, image: MetadataImage, wanted: Iterable[tuple[TopicImage, Iterable[int]]]
    ) -> None:
        if not supports_directories(image.features):
            return
        node_id = self._broker.identity.id
        reserved: Counter[Uuid] | None = None
        for topic, number in ((topic, number) for topic, numbers in wanted for number in numbers):
            partition = topic.partitions[number]
            if node_id not in partition.replicas:
                continue
            assigned = partition.directory(node_id)
            log = self._logs.known(topic.name, number)
            if log is not None:
                # Also for a failed directory, so that no leader is elected on this replica.
                place = self._moving.get((topic.id, number), log.volume.directory_id)
            elif assigned in NO_DIRECTORY:
                if reserved is None:
                    reserved = self._reserved(image)
                place = self._emptiest(reserved)
            else:
                continue
            if place is not None and place != assigned:
                self._unreported[topic.id, number] = place
                self._wanted.set()

    def _reserved(self, image: MetadataImage) -> "Counter[Uuid]":
        """Return the number of replicas that each directory has or is assigned."""
        node_id = self._broker.identity.id
        counts = Counter(
            partition.directory(node_id)
            for topic in image.topics_by_id.values()
            for partition in topic.partitions.values()
            if node_id in partition.replicas
        )
        counts.update(self._unreported.values())
        return counts

    def _emptiest(self, reserved: "Counter[Uuid]") -> Uuid | None:
        """Return the directory for a new log with the fewest replicas, and count one more there."""
        ids = [volume.directory_id for volume in self._logs.volumes_of_new_logs()]
        known = [directory for directory in ids if directory is not None]
        chosen = min(known, key=reserved.__getitem__, default=None)
        if chosen is not None:
            reserved[chosen] += 1
        return chosen

    # Report

    def _report_failures(self) -> None:
        failed = [
            volume.directory_id
            for volume in self._logs.volumes
            if volume.failure is not None and volume.directory_id is not None
        ]
        if failed:
            self._quorum.lifecycle.report_offline(failed)

    async def _report_assignments(self) -> None:
        """Report all that differs from the metadata. Raises KafkaError."""
        self._drop_reported()
        reported = list(self._unreported.items())
        for start in range(0, len(reported), _REPLICAS_PER_REQUEST_MAX):
            part = dict(reported[start : start + _REPLICAS_PER_REQUEST_MAX])
            await self._report(part)
            for key, directory in part.items():
                if self._unreported.get(key) == directory:
                    del self._unreported[key]

    def _drop_reported(self) -> None:
        """Forget the replicas that have their directory in the metadata, or were removed."""
        node_id = self._broker.identity.id
        topics = self._quorum.image.topics_by_id
        for (topic_id, number), directory in list(self._unreported.items()):
            topic = topics.get(topic_id)
            partition = topic.partitions.get(number) if topic is not None else None
            if (
                partition is None
                or node_id not in partition.replicas
                or partition.directory(node_id) == directory
            ):
                del self._unreported[topic_id, number]

    async def _report_until_accepted(self, assigned: dict[tuple[Uuid, int], Uuid]) -> None:
        while True:
            try:
                return await self._report(assigned)
            except KafkaError as error:
                logger.warning("cannot report the directory of a move error=%s", error)
                await tasks.sleep(_RETRY_S)

    async def _report(self, assigned: dict[tuple[Uuid, int], Uuid]) -> None:
        """Send the directories of these replicas to the controller. Raises KafkaError."""
        identity = self._broker.identity
        request = AssignReplicasToDirsRequest(
            broker_id=identity.id,
            broker_epoch=identity.epoch,
            directories=_by_directory(assigned),
        )
        raise_error(await self._channel.send(request, AssignReplicasToDirsResponse))


def _by_directory(assigned: dict[tuple[Uuid, int], Uuid]) -> list[DirectoryData]:
    topics: dict[Uuid, dict[Uuid, list[PartitionData]]] = {}
    for (topic_id, number), directory in assigned.items():
        partitions = topics.setdefault(directory, {}).setdefault(topic_id, [])
        partitions.append(PartitionData(partition_index=number))
    return [
        DirectoryData(
            id=directory,
            topics=[
                TopicData(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in by_topic.items()
            ],
        )
        for directory, by_topic in topics.items()
    ]
