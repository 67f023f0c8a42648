"""Replay metadata records over an image: the only way in which metadata changes.

`MetadataDelta.replay` takes records in log order, and `apply` returns the next image. The delta
then has the changes, for the parts of the node that act on them (replicas, coordinators,
configuration). Kafka's counterparts are `MetadataDelta`, `TopicsDelta` and the `replay` methods of
its control managers.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from barnabas.cluster.metadata.acls import Acl
from barnabas.cluster.metadata.image import (
    DIRECTORY_MIGRATING,
    BrokerImage,
    ControllerImage,
    Endpoint,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from barnabas.cluster.metadata.partition_index import Change, PartitionKey
from barnabas.cluster.metadata.persistent_map import persistent
from barnabas.cluster.metadata.scram_credentials import ScramCredential, ScramKey
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records import metadata_records as records
from barnabas.protocol.types import Uuid

if TYPE_CHECKING:
    from barnabas.cluster.metadata.client_quotas import QuotaKey
    from barnabas.cluster.metadata.delegation_tokens import DelegationToken

# PartitionChangeRecord: the leader does not change.
_NO_LEADER_CHANGE = -2


@attrs.define(slots=True)
class TopicDelta:
    """A topic that was created or changed: `changed` holds its new and changed partitions.

    `before` has the partitions before the changes.
    """

    name: str
    id: Uuid
    is_new: bool
    before: Mapping[int, PartitionImage]
    changed: dict[int, PartitionImage] = attrs.field(factory=dict[int, PartitionImage])

    def partition(self, number: int) -> PartitionImage:
        """Return the state of a partition after the changes. Raises KeyError without it."""
        changed = self.changed.get(number)
        return self.before[number] if changed is None else changed

    def partitions(self) -> Mapping[int, PartitionImage]:
        """Return all partitions after the changes."""
        return persistent(self.before).updated(self.changed)


class MetadataDelta:
    """The changes that records make to `image`.

    `topics` has the created and changed topics by id, `deleted_topics` the deleted ones as they are
    in `image`; a topic that the records both create and delete is in neither. `brokers`,
    `controllers`, `configs` and `features` have the changed ones.
    """

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.topics: dict[Uuid, TopicDelta] = {}
        self.deleted_topics: dict[Uuid, TopicImage] = {}
        self.brokers: dict[int, BrokerImage | None] = {}
        self.controllers: dict[int, ControllerImage] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self.scram: dict[ScramKey, ScramCredential | None] = {}
        self.acls: dict[Uuid, Acl | None] = {}
        self.client_quotas: dict[QuotaKey, float | None] = {}
        self.tokens: dict[str, DelegationToken | None] = {}
        self.next_producer_id: int | None = None

    @property
    def is_empty(self) -> bool:
        """True when only the offset changed."""
        return not (
            self.topics
            or self.deleted_topics
            or self.brokers
            or self.controllers
            or self.configs
            or self.features
            or self.scram
            or self.acls
            or self.client_quotas
            or self.tokens
            or self.next_producer_id is not None
        )

    def replay(self, record: Message) -> None:
        """Replay one record.

        Raises KeyError when it contradicts the earlier records.
        """
        replay = _REPLAY.get(type(record))
        if replay is None:
            raise KeyError(f"no replay for {type(record).__name__}")
        replay(self, record)

    def apply(self, offset: int, record_epoch: int) -> MetadataImage:
        """Return the image after the replayed records, the last of which is at `offset`."""
        image = self.image
        changes: dict[str, Any] = {"offset": offset, "record_epoch": record_epoch}
        if self.topics or self.deleted_topics:
            changes.update(self._apply_topics())
        if self.brokers:
            changes["brokers"] = _merged(image.brokers, self.brokers)
        if self.controllers:
            changes["controllers"] = {**image.controllers, **self.controllers}
        if self.configs:
            configs = {key: values or None for key, values in self.configs.items()}
            changes["configs"] = persistent(image.configs).updated(configs)
        if self.features:
            levels = {**image.features, **self.features}
            changes["features"] = {name: level for name, level in levels.items() if level}
        if self.scram:
            changes["scram"] = persistent(image.scram).updated(self.scram)
        if self.acls:
            changes["acls"] = image.acls.updated(self.acls)
        if self.client_quotas:
            quotas = persistent(image.client_quotas).updated(self.client_quotas)
            changes["client_quotas"] = quotas
        if self.tokens:
            changes["tokens"] = persistent(image.tokens).updated(self.tokens)
        if self.next_producer_id is not None:
            changes["next_producer_id"] = self.next_producer_id
        return attrs.evolve(image, **changes)

    def _apply_topics(self) -> dict[str, object]:
        image = self.image
        topics = {
            topic_id: TopicImage(delta.name, topic_id, delta.partitions())
            for topic_id, delta in self.topics.items()
        }
        by_name: dict[str, TopicImage | None] = dict.fromkeys(
            topic.name for topic in self.deleted_topics.values()
        )
        by_name.update({topic.name: topic for topic in topics.values()})
        topics_by_id = persistent(image.topics_by_id).updated(
            {**dict.fromkeys(self.deleted_topics), **topics}
        )
        changes: dict[str, object] = {
            "topics_by_name": persistent(image.topics_by_name).updated(by_name),
            "topics_by_id": topics_by_id,
        }
        if image.has_partition_index:
            index = image.partition_index.updated(topics_by_id, self._partition_changes())
            changes["partition_index"] = index
        return changes

    def _partition_changes(self) -> Iterator[Change]:
        """Yield the changed partitions, each before and after."""
        for topic in self.deleted_topics.values():
            for number, partition in topic.partitions.items():
                yield PartitionKey(topic.id, number), partition, None
        for topic_id, delta in self.topics.items():
            for number, partition in delta.changed.items():
                yield PartitionKey(topic_id, number), delta.before.get(number), partition

    # Topics

    def _topic(self, topic_id: Uuid) -> TopicDelta:
        delta = self.topics.get(topic_id)
        if delta is None:
            topic = self.image.topics_by_id[topic_id]
            if topic_id in self.deleted_topics:
                raise KeyError(f"topic {topic_id} was deleted")
            delta = TopicDelta(topic.name, topic_id, False, topic.partitions)
            self.topics[topic_id] = delta
        return delta

    def _topic_record(self, record: records.TopicRecord) -> None:
        self.topics[record.topic_id] = TopicDelta(record.name, record.topic_id, True, {})

    def _partition_record(self, record: records.PartitionRecord) -> None:
        replicas = tuple(record.replicas)
        partition = PartitionImage(
            replicas=replicas,
            directories=_directories(record.directories, replicas),
            isr=tuple(record.isr),
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            removing_replicas=tuple(record.removing_replicas),
            adding_replicas=tuple(record.adding_replicas),
            elr=tuple(record.eligible_leader_replicas or ()),
            last_known_elr=tuple(record.last_known_elr or ()),
            leader_recovery_state=record.leader_recovery_state,
        )
        self._topic(record.topic_id).changed[record.partition_id] = partition

    def _partition_change_record(self, record: records.PartitionChangeRecord) -> None:
        topic = self._topic(record.topic_id)
        old = topic.partition(record.partition_id)
        topic.changed[record.partition_id] = changed_partition(old, record)

    def _remove_topic_record(self, record: records.RemoveTopicRecord) -> None:
        delta = self._topic(record.topic_id)
        del self.topics[record.topic_id]
        old = self.image.topics_by_id.get(record.topic_id)
        if old is not None:
            self.deleted_topics[record.topic_id] = old
        # Its configuration is deleted as well, as in Kafka's ConfigurationsDelta.
        self._drop_configs(delta.name)

    def _clear_elr_record(self, record: records.ClearElrRecord) -> None:
        wanted = record.topic_name
        for topic_id, delta in list(self.topics.items()):
            if wanted in ("", delta.name):
                self._clear_elr(topic_id, delta.partitions())
        for topic in _named(self.image, wanted):
            if topic.id not in self.topics and topic.id not in self.deleted_topics:
                self._clear_elr(topic.id, topic.partitions)

    def _clear_elr(self, topic_id: Uuid, partitions: Mapping[int, PartitionImage]) -> None:
        for number, partition in partitions.items():
            if partition.elr or partition.last_known_elr:
                cleared = records.PartitionChangeRecord(
                    topic_id=topic_id,
                    partition_id=number,
                    eligible_leader_replicas=[],
                    last_known_elr=[],
                )
                self._partition_change_record(cleared)

    # Configuration and features

    def _config_record(self, record: records.ConfigRecord) -> None:
        key = (record.resource_type, record.resource_name)
        values = self.configs.get(key)
        if values is None:
            values = self.configs[key] = dict(self.image.configs.get(key, {}))
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value

    def _drop_configs(self, topic: str) -> None:
        key = (2, topic)
        if key in self.configs or key in self.image.configs:
            self.configs[key] = {}

    def _feature_level_record(self, record: records.FeatureLevelRecord) -> None:
        self.features[record.name] = record.feature_level

    def _producer_ids_record(self, record: records.ProducerIdsRecord) -> None:
        self.next_producer_id = record.next_producer_id

    # Brokers and controllers

    def _broker(self, broker_id: int) -> BrokerImage:
        if broker_id in self.brokers:
            broker = self.brokers[broker_id]
            if broker is None:
                raise KeyError(f"broker {broker_id} was unregistered")
            return broker
        return self.image.brokers[broker_id]

    def _register_broker_record(self, record: records.RegisterBrokerRecord) -> None:
        self.brokers[record.broker_id] = BrokerImage(
            id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            endpoints=_endpoints(record.end_points),
            features=_features(record.features),
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            directories=tuple(record.log_dirs),
            cordoned_directories=tuple(record.cordoned_log_dirs or ()),
        )

    def _unregister_broker_record(self, record: records.UnregisterBrokerRecord) -> None:
        self._broker(record.broker_id)
        self.brokers[record.broker_id] = None

    def _broker_registration_change_record(
        self, record: records.BrokerRegistrationChangeRecord
    ) -> None:
        changes: dict[str, Any] = {}
        if record.fenced:
            changes["fenced"] = record.fenced > 0
        if record.in_controlled_shutdown:
            changes["in_controlled_shutdown"] = record.in_controlled_shutdown > 0
        if record.log_dirs:
            changes["directories"] = tuple(record.log_dirs)
        if record.cordoned_log_dirs is not None:
            changes["cordoned_directories"] = tuple(record.cordoned_log_dirs)
        self.brokers[record.broker_id] = attrs.evolve(self._broker(record.broker_id), **changes)

    def _fence_broker_record(self, record: records.FenceBrokerRecord) -> None:
        self.brokers[record.id] = attrs.evolve(self._broker(record.id), fenced=True)

    def _unfence_broker_record(self, record: records.UnfenceBrokerRecord) -> None:
        self.brokers[record.id] = attrs.evolve(self._broker(record.id), fenced=False)

    def _register_controller_record(self, record: records.RegisterControllerRecord) -> None:
        self.controllers[record.controller_id] = ControllerImage(
            id=record.controller_id,
            incarnation_id=record.incarnation_id,
            endpoints=_endpoints(record.end_points),
            features=_features(record.features),
        )

    def _acl_record(self, record: records.AccessControlEntryRecord) -> None:
        self.acls[record.id] = Acl.of(record)

    def _remove_acl_record(self, record: records.RemoveAccessControlEntryRecord) -> None:
        self.acls[record.id] = None

    def _client_quota_record(self, record: records.ClientQuotaRecord) -> None:
        from barnabas.cluster.metadata.client_quotas import entity_of  # few clusters have quotas

        value = None if record.remove else record.value
        self.client_quotas[entity_of(record.entity), record.key] = value

    def _scram_record(self, record: records.UserScramCredentialRecord) -> None:
        self.scram[record.name, record.mechanism] = ScramCredential.of(record)

    def _remove_scram_record(self, record: records.RemoveUserScramCredentialRecord) -> None:
        self.scram[record.name, record.mechanism] = None

    def _token_record(self, record: records.DelegationTokenRecord) -> None:
        from barnabas.cluster.metadata.delegation_tokens import DelegationToken  # few have tokens

        self.tokens[record.token_id] = DelegationToken.of(record)

    def _remove_token_record(self, record: records.RemoveDelegationTokenRecord) -> None:
        self.tokens[record.token_id] = None

    def _nothing(self, record: Message) -> None:
        """Ignore NoOp, and the limits of a metadata transaction, which the loader handles."""


def _named(image: MetadataImage, name: str) -> Iterable[TopicImage]:
    """Return the topic of this name, or with an empty name all topics."""
    topic = image.topics_by_name.get(name)
    if topic is not None:
        return (topic,)
    return () if name else image.topics_by_name.values()


def changed_partition(old: PartitionImage, record: records.PartitionChangeRecord) -> PartitionImage:
    """Return a partition after a change: in a new partition epoch, with a leader in a new one."""
    has_leader_change = record.leader != _NO_LEADER_CHANGE
    recovery_state = record.leader_recovery_state
    return PartitionImage(
        replicas=_changed(old.replicas, record.replicas),
        directories=_changed_directories(old, record),
        isr=_changed(old.isr, record.isr),
        leader=record.leader if has_leader_change else old.leader,
        leader_epoch=old.leader_epoch + has_leader_change,
        partition_epoch=old.partition_epoch + 1,
        removing_replicas=_changed(old.removing_replicas, record.removing_replicas),
        adding_replicas=_changed(old.adding_replicas, record.adding_replicas),
        elr=_changed(old.elr, record.eligible_leader_replicas),
        last_known_elr=_changed(old.last_known_elr, record.last_known_elr),
        leader_recovery_state=old.leader_recovery_state if recovery_state < 0 else recovery_state,
    )


def _changed(old: tuple[int, ...], new: list[int] | None) -> tuple[int, ...]:
    return old if new is None else tuple(new)


def _merged(old: Mapping[Any, Any], changes: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return `old` with `changes`; a value of None removes the key."""
    merged = {**old, **changes}
    return {key: value for key, value in merged.items() if value is not None}


def _directories(directories: list[Uuid], replicas: tuple[int, ...]) -> tuple[Uuid, ...]:
    return tuple(directories) or (DIRECTORY_MIGRATING,) * len(replicas)


def _changed_directories(
    old: PartitionImage, record: records.PartitionChangeRecord
) -> tuple[Uuid, ...]:
    if record.directories is not None:
        return tuple(record.directories)
    if record.replicas is None:
        return old.directories
    return tuple(old.directory(replica) for replica in record.replicas)


def _endpoints(endpoints: list[Any]) -> dict[str, Endpoint]:
    return {
        point.name: Endpoint(point.name, point.host, point.port, point.security_protocol)
        for point in endpoints
    }


def _features(features: list[Any]) -> dict[str, tuple[int, int]]:
    return {
        feature.name: (feature.min_supported_version, feature.max_supported_version)
        for feature in features
    }


_REPLAY: dict[type[Message], Callable[[MetadataDelta, Any], None]] = {
    records.TopicRecord: MetadataDelta._topic_record,
    records.PartitionRecord: MetadataDelta._partition_record,
    records.PartitionChangeRecord: MetadataDelta._partition_change_record,
    records.RemoveTopicRecord: MetadataDelta._remove_topic_record,
    records.ClearElrRecord: MetadataDelta._clear_elr_record,
    records.ConfigRecord: MetadataDelta._config_record,
    records.FeatureLevelRecord: MetadataDelta._feature_level_record,
    records.ProducerIdsRecord: MetadataDelta._producer_ids_record,
    records.RegisterBrokerRecord: MetadataDelta._register_broker_record,
    records.UnregisterBrokerRecord: MetadataDelta._unregister_broker_record,
    records.BrokerRegistrationChangeRecord: MetadataDelta._broker_registration_change_record,
    records.FenceBrokerRecord: MetadataDelta._fence_broker_record,
    records.UnfenceBrokerRecord: MetadataDelta._unfence_broker_record,
    records.RegisterControllerRecord: MetadataDelta._register_controller_record,
    records.AccessControlEntryRecord: MetadataDelta._acl_record,
    records.RemoveAccessControlEntryRecord: MetadataDelta._remove_acl_record,
    records.ClientQuotaRecord: MetadataDelta._client_quota_record,
    records.UserScramCredentialRecord: MetadataDelta._scram_record,
    records.RemoveUserScramCredentialRecord: MetadataDelta._remove_scram_record,
    records.DelegationTokenRecord: MetadataDelta._token_record,
    records.RemoveDelegationTokenRecord: MetadataDelta._remove_token_record,
    records.NoOpRecord: MetadataDelta._nothing,
    records.BeginTransactionRecord: MetadataDelta._nothing,
    records.EndTransactionRecord: MetadataDelta._nothing,
    records.AbortTransactionRecord: MetadataDelta._nothing,
    records.ZkMigrationStateRecord: MetadataDelta._nothing,
}
