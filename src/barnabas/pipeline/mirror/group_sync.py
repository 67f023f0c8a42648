"""Offsets of groups at the source, written at the target.

With identical offsets they are written as numbers, otherwise translated by offset syncs. Groups
that have members at the target keep their offsets.
"""

import logging
from collections.abc import Collection
from typing import Final

from barnabas.client import KafkaClient
from barnabas.client.admin_calls import LATEST
from barnabas.pipeline.delivery.driver.group_offsets import (
    GroupEntry,
    GroupOffsets,
    GroupOffsetsError,
)
from barnabas.pipeline.mirror import cluster_queries
from barnabas.pipeline.mirror.flow_connector import FlowSettings
from barnabas.pipeline.mirror.flow_values import Partition
from barnabas.pipeline.mirror.group_following import offsets_to_write
from barnabas.pipeline.mirror.mirrormaker.maker_topics import OffsetSyncs
from barnabas.pipeline.mirror.name_patterns import is_selected
from barnabas.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)

_REFUSALS: Final = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.POLICY_VIOLATION,
)


class GroupSync:
    """Makes offsets of groups follow."""

    def __init__(
        self,
        settings: FlowSettings,
        source: KafkaClient,
        target: KafkaClient,
        syncs: OffsetSyncs | None,
    ) -> None:
        """`syncs` translate offsets; None when they are the same at both clusters."""
        self._settings = settings
        self._source = source
        self._target = target
        self._syncs = syncs
        self._group = GroupOffsets(target)
        self._is_refused = False

    async def follow(self, partitions: Collection[Partition]) -> None:
        """Write the offsets that the target lacks.

        Raises KafkaError, ClientError, GroupOffsetsError.
        """
        if self._syncs is not None and not await self._has_syncs(self._syncs):
            return
        settings = self._settings
        if not (settings.copies_groups and partitions):
            return
        names = [
            name
            for name in await cluster_queries.groups(self._source)
            if is_selected(name, settings.groups, settings.groups_exclude)
        ]
        source_group = GroupOffsets(self._source)
        ends: dict[Partition, int] | None = None
        for name in names:
            entries = await source_group.entries(name)
            found = self._translated(
                {where: entry for where, entry in entries.items() if where in partitions}
            )
            if not found:
                continue
            if ends is None:
                there = [settings.at_target(where) for where in partitions]
                ends = await cluster_queries.offsets(self._target, there, LATEST)
            present = await self._group.entries(name)
            if changed := offsets_to_write(found, present, ends):
                await self._write(name, changed)

    def _translated(self, entries: dict[Partition, GroupEntry]) -> dict[Partition, GroupEntry]:
        """Return offsets as the target has them; without those that no offset sync reaches."""
        if self._syncs is None:
            return entries
        found: dict[Partition, GroupEntry] = {}
        for where, entry in entries.items():
            offset = self._syncs.translate(where, entry.offset)
            if offset is not None and offset >= 0:
                found[self._settings.at_target(where)] = GroupEntry(offset, entry.metadata)
        return found

    async def _has_syncs(self, syncs: OffsetSyncs) -> bool:
        """Write pending offset syncs; False when the cluster refuses the topic of them."""
        try:
            await syncs.follow()
        except KafkaError as error:
            if error.code not in _REFUSALS:
                raise
            if not self._is_refused:
                logger.warning(
                    "group offsets are not translated, because the topic of offset syncs cannot "
                    "be created, read or written flow=%s topic=%s error=%s",
                    self._settings.flow,
                    syncs.topic.name,
                    error,
                )
            self._is_refused = True
            return False
        self._is_refused = False
        return True

    async def _write(self, name: str, changed: dict[Partition, GroupEntry]) -> None:
        """Write offsets; a group with members refuses them, and keeps its own."""
        try:
            await self._group.commit(name, changed)
        except GroupOffsetsError as error:
            logger.debug("group offsets were not copied group=%s error=%s", name, error)
