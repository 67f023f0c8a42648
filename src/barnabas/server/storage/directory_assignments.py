"""Tells the controller in which directories the replicas are, and which directories failed.

The broker's side of KIP-858 (Kafka's `AssignmentsManager`): with
several log directories a replica is given one as soon as the metadata has it, though its log is
made when it is first used.
"""

import logging
from collections import Counter
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import trio

from barnabas.cluster.metadata.delta import MetadataDelta
from barnabas.cluster.metadata.feature_levels import METADATA_VERSION, states_directories
from barnabas.cluster.metadata.image import NO_DIRECTORY, MetadataImage, TopicImage
from barnabas.log import PartitionLog, Volume
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from barnabas.protocol.types import Uuid
from barnabas.server.quorum.controller_channel import raise_error

if TYPE_CHECKING:
    from barnabas.server.node.node import Node

logger = logging.getLogger(__name__)

_RETRY_S: Final = 1.0

DirectoryData = AssignReplicasToDirsRequest.DirectoryData
TopicData = AssignReplicasToDirsRequest.TopicData
PartitionData = AssignReplicasToDirsRequest.PartitionData


class DirectoryAssignments:
    """Keeps the metadata in step with where this node's replicas are."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._assigned: dict[tuple[Uuid, int], Uuid] = {}  # to be told
        self._moving: dict[tuple[Uuid, int], Uuid] = {}  # where logs will be in a moment
        self._wanted = trio.Event()

    async def run(self) -> None:
        """Follow the metadata and tell the controller, until cancelled."""
        quorum = self._node.quorum
        quorum.publisher.subscribe("directory assignments", self._follow)
        self._look_at_all(quorum.image)
        while True:
            await self._wanted.wait()
            self._wanted = trio.Event()
            try:
                self._report_failures()
                await self._tell_of_assignments()
            except KafkaError as error:
                logger.warning("the controller was not told of directories error=%s", error)
                await trio.sleep(_RETRY_S)
                self._wanted.set()

    def failed(self) -> None:
        """A directory has failed."""
        self._wanted.set()

    @asynccontextmanager
    async def moving(self, log: PartitionLog, target: Volume) -> AsyncGenerator[None]:
        """Within, the metadata name the directory that a log is about to be in.

        If that failed at once with the node, one told only afterwards would begin the log anew in
        the old directory. What is so in the end is told again, if it is not the same.
        """
        image = self._node.image
        topic = image.topics_by_name.get(log.topic)
        directory = target.directory_id
        if topic is None or directory is None or not states_directories(image.features):
            yield
            return
        key = (topic.id, log.partition)
        self._moving[key] = directory
        try:
            await self._tell_until_it_is_known({key: directory})
            yield
        finally:
            if self._moving.get(key) == directory:
                del self._moving[key]
            image = self._node.image
            topic = image.topics_by_id.get(topic.id)
            if topic is not None:
                self._look_at(image, [(topic, [log.partition])])

    # What there is to tell

    def _follow(self, image: MetadataImage, delta: MetadataDelta) -> None:
        if METADATA_VERSION in delta.features:
            self._look_at_all(image)
        self._look_at(
            image,
            ((image.topics_by_id[each.id], each.changed) for each in delta.topics.values()),
        )

    def _look_at_all(self, image: MetadataImage) -> None:
        self._look_at(image, ((each, each.partitions) for each in image.topics_by_id.values()))

    def _look_at(
        self, image: MetadataImage, wanted: Iterable[tuple[TopicImage, Iterable[int]]]
    ) -> None:
        if not states_directories(image.features):
            return
        node = self._node
        reserved: Counter[Uuid] | None = None
        for topic, number in ((topic, number) for topic, numbers in wanted for number in numbers):
            partition = topic.partitions[number]
            if node.node_id not in partition.replicas:
                continue
            assigned = partition.directory(node.node_id)
            log = node.logs.known(topic.name, number)
            if log is not None:  # in a directory that failed, perhaps: nobody is to lead from there
                place = self._moving.get((topic.id, number), log.volume.directory_id)
            elif assigned in NO_DIRECTORY:
                if reserved is None:
                    reserved = self._reserved(image)
                place = self._emptiest(reserved)
            else:
                continue
            if place is not None and place != assigned:
                self._assigned[topic.id, number] = place
                self._wanted.set()

    def _reserved(self, image: MetadataImage) -> "Counter[Uuid]":
        """How many replicas each directory has or will have."""
        node_id = self._node.node_id
        counts = Counter(
            partition.directory(node_id)
            for topic in image.topics_by_id.values()
            for partition in topic.partitions.values()
            if node_id in partition.replicas
        )
        counts.update(self._assigned.values())
        return counts

    def _emptiest(self, reserved: "Counter[Uuid]") -> Uuid | None:
        """The working directory with the fewest replicas, which gets another one."""
        volumes = [each for each in self._node.logs.volumes if each.failure is None]
        ids = [volume.directory_id for volume in volumes]
        known = [directory for directory in ids if directory is not None]
        chosen = min(known, key=reserved.__getitem__, default=None)
        if chosen is not None:
            reserved[chosen] += 1
        return chosen

    # Telling

    def _report_failures(self) -> None:
        failed = [
            volume.directory_id
            for volume in self._node.logs.volumes
            if volume.failure is not None and volume.directory_id is not None
        ]
        if failed:
            self._node.quorum.lifecycle.report_offline(failed)

    async def _tell_of_assignments(self) -> None:
        told = dict(self._assigned)
        if not told:
            return
        await self._tell(told)
        for key, directory in told.items():
            if self._assigned.get(key) == directory:
                del self._assigned[key]

    async def _tell_until_it_is_known(self, assigned: dict[tuple[Uuid, int], Uuid]) -> None:
        while True:
            try:
                return await self._tell(assigned)
            except KafkaError as error:
                logger.warning("the controller was not told of a move error=%s", error)
                await trio.sleep(_RETRY_S)

    async def _tell(self, assigned: dict[tuple[Uuid, int], Uuid]) -> None:
        """Have the metadata say where these replicas are; KafkaError."""
        node = self._node
        request = AssignReplicasToDirsRequest(
            broker_id=node.node_id,
            broker_epoch=node.quorum.identity.epoch,
            directories=_by_directory(assigned),
        )
        raise_error(await node.channel.send(request, AssignReplicasToDirsResponse))


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
