"""The driver's side of a flow: topics, positions and ends at both clusters.

On the first `follow`, and then every few seconds, the topics of the target are made to follow those
of the source. A partition is taken up once: its position is decided, and committed with the ids of
the topic and of the source's cluster, before a task copies anything.
"""

import logging
import time
from collections.abc import Iterable, Mapping

import attrs

from barnabas.client import KafkaClient
from barnabas.client.admin_calls import EARLIEST, LATEST, ensure_topic
from barnabas.pipeline.delivery.driver.group_offsets import GroupEntry, GroupOffsets
from barnabas.pipeline.delivery.plan.job_plan import OnTrim, RecordPosition
from barnabas.pipeline.delivery.plan.offset_metadata import OffsetMetadata, decode
from barnabas.pipeline.mirror import cluster_queries
from barnabas.pipeline.mirror.cluster_queries import Topic
from barnabas.pipeline.mirror.flow_connector import FlowSettings
from barnabas.pipeline.mirror.flow_starts import (
    PartitionView,
    diverged_text,
    recreated_text,
    start_of,
)
from barnabas.pipeline.mirror.flow_values import NO_EPOCH, CopyFigures, FlowPlan, Partition
from barnabas.pipeline.mirror.group_sync import GroupSync
from barnabas.pipeline.mirror.lag_sizes import LagSizes
from barnabas.pipeline.mirror.mirrormaker.maker_topics import OffsetSyncs
from barnabas.pipeline.mirror.mirrormaker.source_positions import SourcePositions
from barnabas.pipeline.mirror.source_fetches import SourceFetches, first_offset
from barnabas.pipeline.mirror.topic_acls import AclsNotCopiedError, add_acls, missing_acls
from barnabas.pipeline.mirror.topic_following import (
    MIRROR_SOURCE,
    AlterStep,
    CreateStep,
    FlowRefusedError,
    FollowingRules,
    GrowStep,
    Step,
    TopicView,
    is_match,
    selected,
    steps,
)
from barnabas.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)


@attrs.frozen
class FlowTopics:
    """The topics that a flow reads: names, or a pattern."""

    names: tuple[str, ...]
    pattern: str | None


class FlowDriver:
    """Positions by partition, and the requests that they need."""

    def __init__(
        self,
        settings: FlowSettings,
        wanted: FlowTopics,
        on_trim: OnTrim,
        source: KafkaClient,
        target: KafkaClient,
    ) -> None:
        self._settings = settings
        self._wanted = wanted
        self._on_trim = on_trim
        self._source = source
        self._target = target
        self._group = GroupOffsets(target)
        self._syncs: OffsetSyncs | None = None
        if (topic := settings.offset_syncs) is not None:
            self._syncs = OffsetSyncs.of(topic, source, target)
        self._groups = GroupSync(settings, source, target, self._syncs)
        self._positions_topic: SourcePositions | None = None
        if settings.positions_topic is not None:
            self._positions_topic = SourcePositions(settings.positions_topic, target)
        self._taken_over: set[Partition] = set()
        self._rules = FollowingRules(
            settings.flow,
            settings.is_identical,
            settings.copies_configs,
            settings.configs_exclude,
        )
        self.positions: dict[Partition, int] = {}
        """The source's offset to copy next."""
        self.epochs: dict[Partition, int] = {}
        """The source's leader epoch of the batch before the position, where it is known."""
        self.topic_ids: dict[str, str] = {}
        self.trimmed = 0
        """Offsets that retention had deleted when a partition was taken up."""
        self.source_cluster_id = ""
        self.deleted: set[str] = set()
        """Topics that the flow has copied, and that the source does not have any longer."""
        self.sizes = LagSizes(source)
        self._entries: dict[Partition, GroupEntry] = {}
        self._committed: dict[Partition, int] = {}

    @classmethod
    def of(
        cls, settings: FlowSettings, wanted: FlowTopics, source: KafkaClient, target: KafkaClient
    ) -> "FlowDriver":
        """Return a driver that only looks: it takes no partition up."""
        return cls(settings, wanted, OnTrim.FAIL, source, target)

    async def follow(self) -> None:
        """Make the target's topics follow, and take up new partitions.

        Raises FlowRefusedError, KafkaError, ClientError, GroupOffsetsError.
        """
        chosen, present = await self._chosen()
        await self._apply(await self._steps(chosen, present))
        self.topic_ids |= {topic.name: topic.topic_id for topic in chosen.values()}
        await self._take_up(chosen.values())
        await self._check_epochs()

    def take_in(self, done: CopyFigures) -> None:
        """Note where a copy has ended."""
        self.sizes.take_in(done, self.positions[done.where])
        self.positions[done.where] = done.position
        self.epochs[done.where] = done.leader_epoch
        if self._syncs is not None:
            self._syncs.add(done.where, done.syncs)

    async def check(self) -> tuple[dict[str, Topic], dict[str, Topic]]:
        """Return the topics of the source, and those of them that the target has, by their names.

        Raises FlowRefusedError where `follow` would, except for positions.
        """
        chosen, present = await self._chosen()
        await self._steps(chosen, present)
        return chosen, present

    async def _chosen(self) -> tuple[dict[str, Topic], dict[str, Topic]]:
        """Return the topics of the flow at both sides. Raises FlowRefusedError."""
        existing = await cluster_queries.topics(self._source)
        self._check_clusters_known()
        if not self.positions:
            await self._read_entries()
        await self._leave_deleted(existing)
        names = self._selected(existing)
        chosen = {name: existing[name] for name in names}
        self._check_same(existing)
        remotes = {self._settings.remote(name): name for name in names}
        present = await cluster_queries.topics(self._target, remotes)
        self._check_clusters()
        return chosen, {remotes[name]: topic for name, topic in present.items()}

    async def _read_entries(self) -> None:
        """Read the positions that are committed at the target.

        Those of MirrorMaker 2 count only until the flow has positions.
        """
        entries = await self._group.entries(self._settings.group_id)
        self._entries = {
            (self._settings.at_source(topic), number): entry
            for (topic, number), entry in entries.items()
        }
        if self._positions_topic is None or self.positions:
            return
        # Where MirrorMaker 2 is ahead, the flow begins where it has ended.
        for where, position in (await self._positions_topic.read()).items():
            entry = self._entries.get(where)
            if entry is None or entry.offset < position:
                self._entries[where] = GroupEntry(position)
                self._taken_over.add(where)

    async def give_back(self) -> None:
        """Write where MirrorMaker 2 shall begin; called after the last copy.

        Raises KafkaError, ClientError.
        """
        if self._positions_topic is not None:
            count = await self._positions_topic.write(self.positions)
            if count:
                logger.info("wrote positions flow=%s partitions=%d", self._settings.flow, count)

    def _selected(self, existing: dict[str, Topic]) -> list[str]:
        """Return the source's topics that the flow copies. Raises FlowRefusedError."""
        internal = {topic.name: topic.is_internal for topic in existing.values()}
        if (chosen := self._settings.topic_filter) is not None:
            return sorted(
                name
                for name, is_internal in internal.items()
                if not is_internal and chosen.accepts(name)
            )
        names = [name for name in self._wanted.names if name not in self.deleted]
        return selected(names, self._wanted.pattern, internal)

    async def _leave_deleted(self, existing: dict[str, Topic]) -> None:
        """Note which topics the source has deleted; they have no positions until they return.

        A topic that was deleted at the target, too, is forgotten, so that it may be recreated.
        """
        known = self.topic_ids.keys() | {name for name, _ in self._entries}
        gone = {name for name in known if name not in existing and self._is_wanted(name)}
        if gone or self.deleted:
            await self._read_entries()
        for name in gone - {name for name, _ in self._entries}:
            self.topic_ids.pop(name, None)
        for name in sorted(gone - self.deleted):
            logger.warning(
                "a topic was deleted at the source, and stays at the target flow=%s topic=%s",
                self._settings.flow,
                name,
            )
        self.deleted = gone
        for where in [where for where in self.positions if where[0] in gone]:
            del self.positions[where]
            self.epochs.pop(where, None)

    def _is_wanted(self, name: str) -> bool:
        if (chosen := self._settings.topic_filter) is not None:
            return chosen.accepts(name)
        pattern = self._wanted.pattern
        return name in self._wanted.names if pattern is None else is_match(pattern, name)

    async def ends(self) -> dict[Partition, int]:
        """Return the ends of the source's partitions, as far as the flow copies.

        Partitions of a topic that was deleted are missing.
        """
        return await cluster_queries.offsets(
            self._source,
            self.positions,
            LATEST,
            read_committed=not self._settings.is_identical,
            may_be_deleted=True,
        )

    async def follow_log_starts(self) -> None:
        """Have mirror topics start where the source's logs start."""
        if not self._settings.is_identical:
            return
        starts = await cluster_queries.offsets(self._source, self.positions, EARLIEST)
        own = await cluster_queries.offsets(self._target, self.positions, EARLIEST)
        ends = await cluster_queries.offsets(self._target, self.positions, LATEST)
        late = {
            where: start for where, start in starts.items() if own[where] < start <= ends[where]
        }
        await cluster_queries.delete_records(self._target, late)

    async def follow_groups(self) -> None:
        """Copy the offsets of groups where the target's group has no members.

        Raises KafkaError, ClientError, GroupOffsetsError.
        """
        await self._groups.follow(self.positions.keys())

    async def follow_acls(self) -> None:
        """Add the ACLs of topics that the target lacks.

        The flow continues where a cluster has no authorizer, or does not give it the rights.
        Raises KafkaError, ClientError.
        """
        if not self._settings.copies_acls:
            return
        try:
            names = {name: self._settings.remote(name) for name in self.topic_ids}
            missing = await missing_acls(self._source, self._target, names)
            if missing:
                await add_acls(self._target, missing)
                logger.info("added ACLs flow=%s count=%d", self._settings.flow, len(missing))
        except AclsNotCopiedError as error:
            logger.info("ACLs were not copied flow=%s reason=%s", self._settings.flow, error)

    async def commit_positions(self, *, again: bool) -> None:
        """Commit the positions of a flow with identical offsets, for tools that show the lag.

        The flow itself uses only the ids in their metadata. With `again` positions that have not
        changed are committed, too.
        """
        if not self._settings.is_identical or (not again and self.positions == self._committed):
            return
        found = dict(self.positions)
        entries = {where: self._entry(where, at) for where, at in found.items()}
        await self._commit(entries)
        self._committed = found

    def task_plan(self, *, transaction_timeout_ms: int) -> FlowPlan:
        """Return the flow as its tasks know it."""
        settings = self._settings
        return FlowPlan(
            settings.flow,
            settings.source,
            settings.target,
            settings.group_id,
            f"mirror-{settings.flow}",
            settings.is_identical,
            dict(self.topic_ids),
            self.source_cluster_id,
            skips_trimmed=self._on_trim is OnTrim.SKIP,
            transaction_timeout_ms=transaction_timeout_ms,
            sync_step=0 if self._syncs is None else settings.sync_step,
            policy=settings.policy,
        )

    def _check_clusters_known(self) -> None:
        """Raise FlowRefusedError when another cluster answers than before."""
        cluster_id = self._source.metadata.cluster_id or ""
        if self.source_cluster_id not in ("", cluster_id):
            raise FlowRefusedError(
                f"cluster {cluster_id} answers at the address of the source, and the flow has "
                f"copied from cluster {self.source_cluster_id}: correct source.bootstrap.servers"
            )
        self.source_cluster_id = cluster_id

    def _check_clusters(self) -> None:
        """Raise FlowRefusedError when both sides are one cluster."""
        if self.source_cluster_id and self.source_cluster_id == self._target.metadata.cluster_id:
            raise FlowRefusedError(
                f"source and target are one cluster, {self.source_cluster_id}: a flow keeps the "
                "names of topics, so it would copy its own records; correct "
                "source.bootstrap.servers or target.bootstrap.servers"
            )

    def _check_same(self, existing: dict[str, Topic]) -> None:
        """Raise FlowRefusedError for a topic that was recreated while the flow runs."""
        for name, known_id in self.topic_ids.items():
            topic = existing.get(name)
            if topic is not None and topic.topic_id != known_id:
                raise FlowRefusedError(recreated_text(name, known_id, topic.topic_id))

    async def _steps(self, chosen: dict[str, Topic], present: dict[str, Topic]) -> list[Step]:
        """Return what the target's topics need. Raises FlowRefusedError."""
        source_configs = await cluster_queries.topic_configs(self._source, chosen)
        names = [topic.name for topic in present.values()]
        target_configs = await cluster_queries.topic_configs(self._target, names)
        known = {name for name, _ in (*self._entries, *self.positions)}
        foreign = [topic for name, topic in present.items() if name not in known]
        pairs = [pair for topic in foreign for pair in topic.pairs]
        ends = await cluster_queries.offsets(self._target, pairs, LATEST)
        with_records = {name for (name, _), end in ends.items() if end > 0}
        found: list[Step] = []
        for name, topic in chosen.items():
            target = None
            if name in present:
                remote = present[name]
                configs = target_configs.get(remote.name, {})
                has_records = remote.name in with_records
                target = TopicView(remote.name, remote.partitions, configs, has_records=has_records)
            remote_name = self._settings.remote(name)
            view = TopicView(remote_name, topic.partitions, source_configs.get(name, {}))
            found += steps(view, target, self._rules, is_known=name in known)
        return found

    async def _apply(self, found: Iterable[Step]) -> None:
        for step in found:
            try:
                await self._apply_one(step)
            except KafkaError as error:
                if error.code is not ErrorCode.INVALID_CONFIG:
                    raise
                raise FlowRefusedError(_refused_config(step, error)) from error

    async def _apply_one(self, step: Step) -> None:
        if isinstance(step, CreateStep):
            logger.info(
                "creating a topic flow=%s topic=%s partitions=%d",
                self._settings.flow,
                step.topic,
                step.partitions,
            )
            await ensure_topic(
                self._target,
                step.topic,
                partitions=step.partitions,
                replication_factor=self._settings.replication_factor,
                configs=step.configs,
            )
        elif isinstance(step, GrowStep):
            await cluster_queries.add_partitions(self._target, step.topic, step.partitions)
        else:
            await cluster_queries.alter_configs(self._target, step.topic, step.changes)

    async def _take_up(self, chosen: Iterable[Topic]) -> None:
        """Decide and commit the positions of partitions that are new here."""
        new = [pair for topic in chosen for pair in topic.pairs if pair not in self.positions]
        if not new:
            return
        is_identical = self._settings.is_identical
        views = {(view.topic, view.partition): view for view in await self._views(new)}
        await self.sizes.read(views.values())
        starts = {
            where: start_of(view, self._on_trim, is_identical=is_identical)
            for where, view in views.items()
        }
        self.epochs |= {where: start.leader_epoch for where, start in starts.items()}
        fresh = {
            where: self._entry(where, start.position)
            for where, start in starts.items()
            if where not in self._entries
            or where in self._taken_over
            or start.leader_epoch != self._entries[where].leader_epoch
        }
        if fresh:
            await self._commit(fresh)
        found: dict[Partition, int] = {}
        for where, start in starts.items():
            found[where] = start.position
            if is_identical and start.position > views[where].target_end:
                found[where] = await self._moved_start(views[where], start.position)
            self.trimmed += start.trimmed
        self.positions |= found

    async def _check_epochs(self) -> None:
        """Raise FlowRefusedError where the source's log is not the one that was copied."""
        known = {where: epoch for where, epoch in self.epochs.items() if epoch != NO_EPOCH}
        ends = await cluster_queries.epoch_ends(self._source, known)
        for where, end in ends.items():
            position = self.positions[where]
            if end.leader_epoch < known[where] or end.offset < position:
                record = RecordPosition(*where, position)
                raise FlowRefusedError(diverged_text(record, end.offset))

    async def _moved_start(self, view: PartitionView, position: int) -> int:
        """Have the target's log begin at the first batch of the source; return its offset.

        The batch may begin before the log of the source does.
        """
        where = view.topic, view.partition
        fetches = SourceFetches(self._source, where, read_committed=False)
        data = b""
        if view.source_end > position:
            data = (await fetches.fetch(position)).data
        begin = min(first_offset(data, position), position)
        await cluster_queries.delete_records(self._target, {where: begin})
        return begin

    async def _views(self, pairs: list[Partition]) -> list[PartitionView]:
        source_starts = await cluster_queries.offsets(self._source, pairs, EARLIEST)
        source_ends = await cluster_queries.offsets(self._source, pairs, LATEST)
        there = [self._settings.at_target(where) for where in pairs]
        target_starts = await cluster_queries.offsets(self._target, there, EARLIEST)
        target_ends = await cluster_queries.offsets(self._target, there, LATEST)
        views: list[PartitionView] = []
        for where, remote in zip(pairs, there, strict=True):
            entry = self._entries.get(where)
            views.append(
                PartitionView(
                    *where,
                    topic_id=self.topic_ids[where[0]],
                    cluster_id=self.source_cluster_id,
                    source_start=source_starts[where],
                    source_end=source_ends[where],
                    target_start=target_starts[remote],
                    target_end=target_ends[remote],
                    committed=None if entry is None else entry.offset,
                    metadata=decode(None if entry is None else entry.metadata),
                    leader_epoch=NO_EPOCH if entry is None else entry.leader_epoch,
                )
            )
        return views

    async def _commit(self, entries: Mapping[Partition, GroupEntry]) -> None:
        """Commit positions, as those of the target's partitions."""
        there = {self._settings.at_target(where): entry for where, entry in entries.items()}
        await self._group.commit(self._settings.group_id, there)

    def _entry(self, where: Partition, position: int) -> GroupEntry:
        """Return a position to commit."""
        now_ms = int(time.time() * 1000)
        topic_id = self.topic_ids.get(where[0])
        metadata = OffsetMetadata(topic_id, self.source_cluster_id, now_ms).encode()
        return GroupEntry(position, metadata, self.epochs.get(where, NO_EPOCH))


def _refused_config(step: Step, error: KafkaError) -> str:
    """Return why the target refuses the properties of a topic, with a remedy."""
    names: list[str] = []
    if isinstance(step, CreateStep):
        names += step.configs
    elif isinstance(step, AlterStep):
        names += step.changes
    if MIRROR_SOURCE in names and MIRROR_SOURCE in str(error):
        return (
            "the target does not keep the offsets of the source, which only barnabas does "
            f"({error}): set offsets=assigned, or choose barnabas as the target"
        )
    return (
        f"the target refuses the properties of topic {step.topic}: {error}; name the property in "
        "config.properties.exclude, or set sync.topic.configs.enabled=false"
    )
