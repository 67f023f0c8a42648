"""The job of MirrorMaker 2's checkpoint connector: positions of groups at both clusters."""

import logging
import time

from barnabas.client import KafkaClient
from barnabas.pipeline.delivery.driver.group_offsets import (
    GroupEntry,
    GroupOffsets,
    GroupOffsetsError,
)
from barnabas.pipeline.delivery.driver.spark_library import SparkSession
from barnabas.pipeline.delivery.plan.job_plan import JobPlan
from barnabas.pipeline.mirror import cluster_queries
from barnabas.pipeline.mirror.flow_values import Partition
from barnabas.pipeline.mirror.mirrormaker.checkpoint_book import CheckpointBook
from barnabas.pipeline.mirror.mirrormaker.maker_settings import CheckpointSettings
from barnabas.pipeline.mirror.mirrormaker.maker_topics import InternalTopic, OffsetSyncs
from barnabas.pipeline.mirror.mirrormaker.timed_job import TimedJob
from barnabas.pipeline.mirror.name_patterns import is_selected

logger = logging.getLogger(__name__)


class Checkpoints:
    """Writes checkpoints, and the offsets that they give for groups without members."""

    def __init__(
        self, settings: CheckpointSettings, source: KafkaClient, target: KafkaClient
    ) -> None:
        self._settings = settings
        self._source = source
        self._group_offsets = GroupOffsets(source)
        self._target_offsets = GroupOffsets(target)
        self._syncs = OffsetSyncs.of(settings.syncs, source, target)
        self._topic = InternalTopic(
            target, settings.common.policy.checkpoints_topic, settings.replication_factor
        )
        self._book = CheckpointBook(settings.topics)
        self._is_loaded = False

    async def write(self) -> int:
        """Write the checkpoints that are new; return their number.

        Raises KafkaError, ClientError, GroupOffsetsError.
        """
        settings = self._settings
        if not self._is_loaded:
            await self._topic.create()
            self._book.load(await self._topic.new_records())
            self._is_loaded = True
        await self._source.refresh_metadata()
        await self._syncs.refresh()
        count = 0
        for group in await cluster_queries.groups(self._source):
            if not is_selected(group, settings.groups, settings.groups_exclude):
                continue
            entries = await self._group_offsets.entries(group)
            found = self._book.update(group, entries, self._syncs)
            if settings.emits:
                await self._topic.write(found)
                count += len(found)
        return count

    async def write_groups(self) -> None:
        """Write offsets that are ahead of those of the target's groups.

        A group with members refuses them, and keeps its own. Raises GroupOffsetsError.
        """
        settings = self._settings
        for group, wanted in self._book.offsets().items():
            if not is_selected(group, settings.groups, settings.groups_exclude):
                continue
            present = await self._target_offsets.entries(group)
            ahead = offsets_ahead(wanted, present)
            if not ahead:
                continue
            try:
                await self._target_offsets.commit(group, ahead)
            except GroupOffsetsError as error:
                logger.debug("group offsets were not written group=%s error=%s", group, error)


def offsets_ahead(
    wanted: dict[Partition, GroupEntry], present: dict[Partition, GroupEntry]
) -> dict[Partition, GroupEntry]:
    """Return the offsets that are ahead of a group's own, or that it does not have."""
    return {
        where: entry
        for where, entry in wanted.items()
        if where not in present or entry.offset > present[where].offset
    }


class CheckpointJob(TimedJob):
    """Writes checkpoints and offsets of groups, each at its interval."""

    def __init__(self, session: SparkSession, plan: JobPlan, settings: CheckpointSettings) -> None:
        super().__init__(session, plan, settings.common)
        self._settings = settings
        self._checkpoints = Checkpoints(settings, *self.clients.clients)
        self._write_at_s = time.monotonic() + settings.write_interval_s

    async def work(self) -> int:
        """Write what is due."""
        settings = self._settings
        if not (settings.emits or settings.writes_groups):
            return 0
        count = await self._checkpoints.write()
        if settings.writes_groups and time.monotonic() >= self._write_at_s:
            await self._checkpoints.write_groups()
            self._write_at_s = time.monotonic() + settings.write_interval_s
        return count

    def wait_s(self) -> float:
        """Return the time until checkpoints or offsets are due."""
        settings = self._settings
        found = settings.interval_s
        if settings.writes_groups:
            found = min(found, self._write_at_s - time.monotonic())
        return found
