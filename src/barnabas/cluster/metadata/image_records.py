"""The records of an image: the content of a snapshot (Kafka's `ImageWriter`).

Replaying the records over an empty image makes an equal image.
"""

from collections.abc import Iterator
from typing import Any

from barnabas.cluster.metadata.feature_levels import METADATA_VERSION
from barnabas.cluster.metadata.image import BrokerImage, ControllerImage, MetadataImage, TopicImage
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.metadata_records import (
    ConfigRecord,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
)


def image_records(image: MetadataImage) -> Iterator[Message]:
    """Return the records of `image`; readers need the metadata.version first."""
    levels = dict(image.features)
    if METADATA_VERSION in levels:
        level = levels.pop(METADATA_VERSION)
        yield FeatureLevelRecord(name=METADATA_VERSION, feature_level=level)
    for name, level in levels.items():
        yield FeatureLevelRecord(name=name, feature_level=level)
    for controller in image.controllers.values():
        yield controller_record(controller)
    for broker in image.brokers.values():
        yield broker_record(broker)
    for topic in image.topics_by_id.values():
        yield from _topic_records(topic)
    for (kind, resource), values in image.configs.items():
        for name, value in values.items():
            yield ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)
    if image.next_producer_id > 0:
        yield ProducerIdsRecord(
            broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id
        )
    for (user, mechanism_code), credential in image.scram.items():
        yield credential.record(user, mechanism_code)
    for token_id, token in image.tokens.items():
        yield token.record(token_id)
    if image.client_quotas:
        from barnabas.cluster.metadata.client_quotas import quota_record

        for (entity, key), value in image.client_quotas.items():
            yield quota_record(entity, key, value)
    for acl_id, acl in image.acls.items():
        yield acl.record(acl_id)


def _features(kind: Any, features: Any) -> list[Any]:
    return [
        kind(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in features.items()
    ]


def _end_points(kind: Any, endpoints: Any) -> list[Any]:
    return [
        kind(name=p.name, host=p.host, port=p.port, security_protocol=p.security_protocol)
        for p in endpoints.values()
    ]


def controller_record(controller: ControllerImage) -> RegisterControllerRecord:
    """Return the registration record of a controller."""
    record = RegisterControllerRecord
    return record(
        controller_id=controller.id,
        incarnation_id=controller.incarnation_id,
        end_points=_end_points(record.ControllerEndpoint, controller.endpoints),
        features=_features(record.ControllerFeature, controller.features),
    )


def broker_record(broker: BrokerImage) -> RegisterBrokerRecord:
    """Return the registration record of a broker."""
    record = RegisterBrokerRecord
    return record(
        broker_id=broker.id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=_end_points(record.BrokerEndpoint, broker.endpoints),
        features=_features(record.BrokerFeature, broker.features),
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.directories),
        cordoned_log_dirs=list(broker.cordoned_directories) or None,
    )


def _topic_records(topic: TopicImage) -> Iterator[Message]:
    yield TopicRecord(name=topic.name, topic_id=topic.id)
    for number, partition in topic.partitions.items():
        yield PartitionRecord(
            partition_id=number,
            topic_id=topic.id,
            replicas=list(partition.replicas),
            isr=list(partition.isr),
            removing_replicas=list(partition.removing_replicas),
            adding_replicas=list(partition.adding_replicas),
            leader=partition.leader,
            leader_recovery_state=partition.leader_recovery_state,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            directories=list(partition.directories),
            eligible_leader_replicas=list(partition.elr) or None,
            last_known_elr=list(partition.last_known_elr) or None,
        )
