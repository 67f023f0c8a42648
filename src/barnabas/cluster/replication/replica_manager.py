"""All partitions of this broker, in step with the metadata image (Kafka's `ReplicaManager`).

`apply` makes this broker leader or follower of its partitions, and starts and stops their fetches,
in one step: between two requests a partition is always in the state of one image.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import count, islice
from typing import Final

from barnabas.clock import Clock
from barnabas.cluster.metadata.delta import MetadataDelta
from barnabas.cluster.metadata.image import (
    DIRECTORY_UNASSIGNED,
    NO_LEADER,
    RESOURCE_TOPIC,
    BrokerImage,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from barnabas.cluster.metadata.stepwise import Steps
from barnabas.cluster.replication.fetcher_assignments import FetcherAssignments
from barnabas.cluster.replication.isr_manager import IsrManager, IsrProposal
from barnabas.cluster.replication.leader_state import NO_EPOCH
from barnabas.cluster.replication.line_budget import LineBudget
from barnabas.cluster.replication.partition import AppendResult, Partition, Records
from barnabas.cluster.replication.replication_quota import ReplicationQuota, throttled_partitions
from barnabas.config import NodeConfig, TopicConfig
from barnabas.log import LogConfig, LogManager, Origin, PartitionLog
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.types import Uuid

logger = logging.getLogger(__name__)

_PARTITIONS_PER_PART: Final = 100
_CHECKS_PER_STEP: Final = 10


class ReplicaManager:
    """Finds partitions, and creates, updates and deletes them by the metadata.

    `config` returns the node's current configuration. `isr_manager` has the changes of ISRs for the
    controller; `on_proposal` is called when one is added. With `on_unopened`, the logs of
    followers, and of leaders with followers, are not created or loaded at once: it is called when
    there are some for `open_next_log`.
    """

    def __init__(
        self,
        broker_id: int,
        logs: LogManager,
        config: Callable[[], NodeConfig],
        clock: Clock,
    ) -> None:
        self.broker_id = broker_id
        self.logs = logs
        self.image = MetadataImage()
        self._config = config
        self._by_name: dict[str, dict[int, Partition]] = {}
        self._by_id: dict[Uuid, dict[int, Partition]] = {}
        self._topic_configs: dict[str, TopicConfig] = {}
        self._is_started = False
        self.clock = clock
        self.isr_manager = IsrManager(broker_id)
        self.isr_lines = LineBudget()
        self.on_proposal: Callable[[], None] | None = None
        self.isr_expands = 0
        self.isr_shrinks = 0
        self._is_shutting_down = False
        self._unopened: dict[tuple[Uuid, int], Partition] = {}
        self.on_unopened: Callable[[], None] | None = None
        self.leader_quota, self.follower_quota = self._quota(), self._quota()
        self._set_rates()
        self.fetchers = FetcherAssignments(broker_id, self.follower_quota)

    # Finding partitions

    def partition(
        self, topic: str, partition: int, current_leader_epoch: int = NO_EPOCH
    ) -> Partition:
        """Return a partition that this broker leads.

        Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER when another broker
        leads or has it, FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH when the client has another
        epoch, or KAFKA_STORAGE_ERROR when its directory failed.
        """
        try:
            found = self._by_name[topic][partition]
        except KeyError:
            raise self._unknown(topic, partition) from None
        if not found.is_leader or current_leader_epoch >= 0:
            self._check_leader(found, current_leader_epoch)
        return found

    def partition_by_id(
        self, topic_id: Uuid, partition: int, current_leader_epoch: int = NO_EPOCH
    ) -> Partition:
        """Return a partition by topic id, as `partition`; raises UNKNOWN_TOPIC_ID for an unknown
        id.
        """
        try:
            found = self._by_id[topic_id][partition]
        except KeyError:
            raise self._unknown_id(topic_id, partition) from None
        if not found.is_leader or current_leader_epoch >= 0:
            self._check_leader(found, current_leader_epoch)
        return found

    def replica(
        self, topic: "str | Uuid", partition: int, current_leader_epoch: int = NO_EPOCH
    ) -> Partition:
        """Return a partition that this broker has, as its leader or a follower (KIP-392).

        `topic` is a name or an id. Raises KafkaError as `partition`.
        """
        try:
            if isinstance(topic, Uuid):
                found = self._by_id[topic][partition]
            else:
                found = self._by_name[topic][partition]
        except KeyError:
            if isinstance(topic, Uuid):
                raise self._unknown_id(topic, partition) from None
            raise self._unknown(topic, partition) from None
        if not found.is_leader:
            self._check_online(found)
        found.check_epoch(current_leader_epoch)
        return found

    def _check_leader(self, found: Partition, current_leader_epoch: int) -> None:
        self._check_online(found)
        found.check_leader(current_leader_epoch)

    def _check_online(self, found: Partition) -> None:
        """Raise KAFKA_STORAGE_ERROR for a replica in a failed directory (`HostedPartition`)."""
        log = self.logs.known(found.topic, found.partition)
        if log is not None and log.volume.failure is not None:
            raise log.volume.offline()

    def hosted(self, topic: str, partition: int) -> Partition | None:
        """Return the replica on this broker, as leader or follower, or None."""
        return self._by_name.get(topic, {}).get(partition)

    def partitions(self) -> Iterator[Partition]:
        """Yield every replica on this broker."""
        for topic in self._by_name.values():
            yield from topic.values()

    def _unknown_id(self, topic_id: Uuid, partition: int) -> KafkaError:
        topic = self.image.topics_by_id.get(topic_id)
        if topic is None:
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has the id {topic_id}")
        return self._unknown(topic.name, partition)

    def _unknown(self, topic: str, partition: int) -> KafkaError:
        if self.image.partition(topic, partition) is not None:
            return KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{topic}-{partition} is not on this broker"
            )
        return KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"unknown partition {topic}-{partition}"
        )

    def topic_config(self, topic: str) -> TopicConfig:
        """Return the effective configuration of a topic."""
        config = self._topic_configs.get(topic)
        if config is None:
            config = TopicConfig(self._config(), self.image.topic_config(topic))
            self._topic_configs[topic] = config
            self._throttle(topic, config)
        return config

    def _quota(self) -> ReplicationQuota:
        config = self._config()
        return ReplicationQuota(
            config.get_int("replication.quota.window.num"),
            config.get_int("replication.quota.window.size.seconds") * 1000,
        )

    def _set_rates(self) -> None:
        config = self._config()
        self.leader_quota.rate = config.get_int("leader.replication.throttled.rate")
        self.follower_quota.rate = config.get_int("follower.replication.throttled.rate")

    def _throttle(self, topic: str, config: TopicConfig) -> None:
        """Note which replicas of the topic are throttled on this broker."""
        for side, quota in (("leader", self.leader_quota), ("follower", self.follower_quota)):
            listed = config.get(f"{side}.replication.throttled.replicas")
            quota.throttle(topic, throttled_partitions(listed, self.broker_id))

    # Writing

    def append(
        self,
        topic: str,
        partition: int,
        records: Records,
        *,
        required_acks: int,
        origin: Origin = "coordinator",
    ) -> AppendResult:
        """Append one batch (its offsets are assigned in place); see `Partition.append`."""
        found = self.partition(topic, partition)
        info = found.append(
            records, required_acks=required_acks, origin=origin, now_ms=self.clock.wall_ms()
        )
        return AppendResult(found, info)

    # Following the metadata

    def apply(self, image: MetadataImage, delta: MetadataDelta | None = None) -> None:
        """Apply a new image; without `delta`, as after a snapshot, everything may have changed."""
        if delta is None or not self._is_started:
            for _ in self.start(image):
                pass
            return
        self.image = image
        for topic in delta.deleted_topics.values():
            self._remove_topic(topic.name, topic.id)
        for resource_type, name in delta.configs:
            if resource_type == RESOURCE_TOPIC:
                self._configure(name)
            else:
                self.reconfigure()
        for changed in delta.topics.values():
            topic = image.topics_by_id[changed.id]
            for number in changed.changed:
                self._update_partition(topic, number)
        if delta.brokers:  # a fenced follower cannot join the ISR, so nothing waits for it
            for partition in self.partitions():
                if partition.is_leader:
                    partition.commit_more()

    # What partitions need (`PartitionHost`)

    @property
    def replica_lag_time_max_ms(self) -> int:
        """replica.lag.time.max.ms"""
        return self._config().get_int("replica.lag.time.max.ms")

    def registered_broker(self, broker: int) -> BrokerImage | None:
        """Return a broker of the metadata; None for an unknown one."""
        return self.image.brokers.get(broker)

    def propose_isr(self, proposal: IsrProposal) -> None:
        """Send a change of the ISR to the controller."""
        self.isr_manager.submit(proposal)
        if self.on_proposal is not None:
            self.on_proposal()

    def isr_changed(self, *, expanded: bool) -> None:
        """Count a change of an ISR that the controller confirmed."""
        if expanded:
            self.isr_expands += 1
        else:
            self.isr_shrinks += 1

    def check_isrs(self) -> Steps[None]:
        """Remove lagging followers from the ISRs, in steps; due every replica.lag.time.max.ms/2."""
        if len(self.image.brokers) < 2:
            return
        for number, partition in enumerate(list(self.partitions())):
            if partition.is_leader:
                with suppress(KafkaError):  # of a failed directory, which is logged
                    partition.check_isr()
            if not number % _CHECKS_PER_STEP:
                yield

    def reconfigure(self) -> None:
        """Apply a change of the node's configuration, which has every topic's defaults."""
        self._topic_configs.clear()
        self._set_rates()
        for name in self._by_name:
            self._configure(name)

    def start(self, image: MetadataImage) -> Iterator[None]:
        """Apply an image in which everything may have changed; yield after some partitions each.

        Neither clients nor `apply` may use the partitions before the end.
        """
        self.image = image
        self._topic_configs.clear()
        self._set_rates()  # dynamic properties are known with the first image only
        self.logs.resolve_duplicates(partial(self._rank, image))
        for topic_id, partitions in list(self._by_id.items()):
            if topic_id not in image.topics_by_id:
                self._remove_topic(next(iter(partitions.values())).topic, topic_id)
        parts = count(1)
        for log in list(self.logs.logs()):
            self._set_stray_aside(log, image)
            if not next(parts) % _PARTITIONS_PER_PART:
                yield
        for topic in image.topics_by_name.values():
            for number in topic.partitions:
                self._update_partition(topic, number)
                if not next(parts) % _PARTITIONS_PER_PART:
                    yield
        self._is_started = True

    def _rank(self, image: MetadataImage, log: PartitionLog) -> tuple[bool, bool]:
        """Return whether a log belongs to the topic of its name, and whether its directory is the
        assigned one.
        """
        topic = image.topics_by_name.get(log.topic)
        partition = topic.partitions.get(log.partition) if topic else None
        if topic is None or partition is None:
            return False, False
        is_there = partition.directory(self.broker_id) == log.volume.directory_id
        return log.topic_id in (None, topic.id), is_there

    def _set_stray_aside(self, log: PartitionLog, image: MetadataImage) -> None:
        """Set aside a log whose topic was deleted while this broker was offline."""
        if self.hosted(log.topic, log.partition) is not None:
            return
        topic = image.topics_by_name.get(log.topic)
        partition = topic.partitions.get(log.partition) if topic else None
        held = partition is not None and self.broker_id in partition.replicas
        if topic is None or not held:
            self.logs.quarantine(log.topic, log.partition)
        elif log.volume.failure is not None:
            return
        elif log.topic_id is None:
            logger.warning("adopting a log without a topic id by its name log=%r", log)
            with suppress(KafkaError):  # logged as an error of its directory
                log.adopt(topic.id)
        elif log.topic_id != topic.id:
            self.logs.quarantine(log.topic, log.partition)

    def _update_partition(self, topic: TopicImage, number: int) -> None:
        image = topic.partitions[number]
        found = self._by_id.get(topic.id, {}).get(number)
        if self.broker_id not in image.replicas:
            if found is not None:
                self._remove_partition(found)
            return
        if found is None:
            found = Partition(topic.name, number, topic.id, self)
            self._by_name.setdefault(topic.name, {})[number] = found
            self._by_id.setdefault(topic.id, {})[number] = found
        found.update(image, self.topic_config(topic.name))
        self._follow(found)

    def _follow(self, partition: Partition) -> None:
        """Fetch the partition from its leader, if another broker leads it.

        The log of a follower is created also without a leader.
        """
        key = (partition.topic_id, partition.partition)
        if partition.is_leader:
            self.fetchers.unfollow(key)
        if self.on_unopened is not None and self._is_opened_later(partition):
            self._unopened[key] = partition
            self.on_unopened()
            return
        self._unopened.pop(key, None)
        if not partition.is_leader:
            self._fetch(partition)

    def _is_opened_later(self, partition: Partition) -> bool:
        """True when the log is not open yet, and fetches between brokers will need it.

        The log of an only replica waits for its first use.
        """
        image = partition.image
        if partition.is_leader and image is not None and len(image.replicas) == 1:
            return False
        log = self.logs.known(partition.topic, partition.partition)
        return log is None or not log.is_loaded

    def open_next_log(self) -> bool:
        """Create or load the next log; True while there are more."""
        for key in islice(self._unopened, 1):
            partition = self._unopened.pop(key)
            if partition.is_leader:
                with suppress(KafkaError):  # the first request gets it, too
                    partition.log  # noqa: B018  (opens or creates it)
            else:
                self._fetch(partition)
            break
        return bool(self._unopened)

    def _fetch(self, partition: Partition) -> None:
        """Open or create the log of a follower, and fetch what its leader has.

        A broker in controlled shutdown fetches only the partitions that it is in sync with.
        """
        key = (partition.topic_id, partition.partition)
        image = partition.image
        try:
            self._check_online(partition)
            partition.log  # noqa: B018  (opens or creates it)
        except KafkaError as error:
            logger.error("cannot follow partition=%r error=%s", partition, error)
            self.fetchers.unfollow(key)
            return
        if image is None or image.leader == NO_LEADER or self._leaves(image):
            self.fetchers.unfollow(key)
        else:
            self.fetchers.follow(partition, image.leader, image.leader_epoch)

    def _leaves(self, image: PartitionImage) -> bool:
        return self._is_shutting_down and self.broker_id not in image.isr

    def begin_controlled_shutdown(self) -> None:
        """Stop fetching the partitions that this broker is not in sync with, from now on."""
        self._is_shutting_down = True
        for partition in self.partitions():
            self._follow(partition)

    def unfollow_offline(self) -> None:
        """Stop fetching the partitions in failed directories, which cannot be written."""
        for partition in self.partitions():
            log = self.logs.known(partition.topic, partition.partition)
            if log is not None and log.volume.failure is not None:
                self.fetchers.unfollow((partition.topic_id, partition.partition))

    def open_log(self, partition: Partition, create: bool) -> PartitionLog | None:
        """Return the partition's log, perhaps a new one (`PartitionHost`)."""
        log = self.logs.get(partition.topic, partition.partition)
        if log is None and not create:
            return None
        config = LogConfig.from_topic(self.topic_config(partition.topic))
        if log is not None:  # found on disk, without its configuration
            log.update_config(config)
            return log
        return self.logs.create(
            partition.topic,
            partition.topic_id,
            partition.partition,
            config,
            self._directory_for(partition),
        )

    def _directory_for(self, partition: Partition) -> Uuid | None:
        """Return the directory of a log that does not exist yet; None for any directory.

        An assigned directory that this node does not have online may be the offline one, where the
        log may be: the log is then not created. Without offline directories it is a directory that
        was replaced.
        """
        image = partition.image
        directory = DIRECTORY_UNASSIGNED if image is None else image.directory(self.broker_id)
        if directory == DIRECTORY_UNASSIGNED:
            return None
        if self.logs.has_offline or self.logs.is_online(directory):
            return directory
        return None

    def _configure(self, topic: str) -> None:
        """Apply the topic's current configuration to its partitions."""
        self._topic_configs.pop(topic, None)
        partitions = self._by_name.get(topic)
        if not partitions:
            return
        config = self.topic_config(topic)
        log_config = LogConfig.from_topic(config)
        for partition in partitions.values():
            log = self.logs.known(topic, partition.partition)
            if log is not None:
                log.update_config(log_config)
            if partition.image is not None:
                partition.update(partition.image, config)

    def _remove_topic(self, name: str, topic_id: Uuid) -> None:
        self._topic_configs.pop(name, None)
        for quota in (self.leader_quota, self.follower_quota):
            quota.throttle(name, frozenset())
        for partition in list(self._by_id.get(topic_id, {}).values()):
            self._remove_partition(partition)

    def _remove_partition(self, partition: Partition) -> None:
        self._unopened.pop((partition.topic_id, partition.partition), None)
        self.fetchers.unfollow((partition.topic_id, partition.partition))
        by_id = self._by_id[partition.topic_id]
        by_name = self._by_name[partition.topic]
        del by_id[partition.partition], by_name[partition.partition]
        if not by_id:
            del self._by_id[partition.topic_id]
        if not by_name:
            del self._by_name[partition.topic]
        partition.remove()
        self.logs.delete(partition.topic, partition.partition)
