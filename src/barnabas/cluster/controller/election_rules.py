"""The state of the cluster that the elections of a partition depend on.

Which brokers may lead (Kafka's `LeaderAcceptor`), the effective min.insync.replicas, and whether
unclean elections are allowed.
"""

from collections.abc import Callable
from typing import Any

from barnabas.cluster.controller.operation_result import Context
from barnabas.cluster.controller.partition_change_builder import (
    Election,
    ElectionRules,
    PartitionChangeBuilder,
)
from barnabas.cluster.metadata.feature_levels import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    METADATA_VERSION,
)
from barnabas.cluster.metadata.image import (
    DIRECTORY_UNASSIGNED,
    BrokerImage,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from barnabas.config import TOPIC_PROPERTIES
from barnabas.protocol.types import Uuid

MIN_INSYNC_REPLICAS = "min.insync.replicas"
UNCLEAN_ELECTION = "unclean.leader.election.enable"


def builder_of(
    context: Context,
    topic: TopicImage,
    partition: PartitionImage,
    *,
    election: Election = Election.ONLINE,
    is_active: Callable[[int], bool] | None = None,
    placed: PartitionImage | None = None,
) -> PartitionChangeBuilder:
    """Return a builder for a change of the partition in the present state of the cluster.

    `is_active` replaces that of the context, for a change of a broker's state that is being
    decided. `placed` is the partition with new directories of its replicas: a replica is elected if
    it is online in the new one.
    """
    image = context.image
    active = context.is_active if is_active is None else is_active
    place = partition if placed is None else placed
    rules = ElectionRules(
        accepts=lambda broker_id: may_lead(image, place, broker_id, active),
        min_isr=effective_min_isr(context, topic),
        has_elr=keeps_eligible_leaders(image),
        metadata_version=image.features.get(METADATA_VERSION, 0),
        new_directory=lambda broker_id: assigned_directory(image.brokers.get(broker_id)),
        election=election,
    )
    return PartitionChangeBuilder.of(partition, rules)


def may_lead(
    image: MetadataImage,
    partition: PartitionImage,
    broker_id: int,
    is_active: Callable[[int], bool],
) -> bool:
    """True when the broker is active and its replica is in an online directory."""
    broker = image.brokers.get(broker_id)
    if broker is None or not is_active(broker_id):
        return False
    return broker.has_online(partition.directory(broker_id))


def assigned_directory(broker: BrokerImage | None) -> Uuid:
    """Return the directory of a new replica; unassigned when the broker chooses it (KIP-858)."""
    if broker is None or len(broker.directories) != 1:
        return DIRECTORY_UNASSIGNED
    return broker.directories[0]


def keeps_eligible_leaders(image: MetadataImage) -> bool:
    """True when eligible leader replicas are kept (KIP-966)."""
    return image.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > 0


def effective_min_isr(context: Context, topic: TopicImage) -> int:
    """Return min.insync.replicas of a topic, at most its replication factor.

    As in Kafka, that is the number of replicas of partition 0.
    """
    wanted = _topic_value(context, topic.name, MIN_INSYNC_REPLICAS)
    return min(wanted, len(topic.partitions[0].replicas))


def allows_unclean_election(context: Context, topic_name: str) -> bool:
    """True when a replica that is not in sync may be elected in this topic."""
    return _topic_value(context, topic_name, UNCLEAN_ELECTION)


def election_of(context: Context, topic_name: str) -> Election:
    """Return the kind of election when a leader is lost."""
    return Election.UNCLEAN if allows_unclean_election(context, topic_name) else Election.ONLINE


def _topic_value(context: Context, topic_name: str, name: str) -> Any:
    """Return a topic's effective value, with the appended changes of the configuration.

    An operation on many partitions of a topic looks it up once.
    """
    known, key = context.topic_values, (topic_name, name)
    if key in known:
        return known[key]
    image = context.image
    text = image.topic_config(topic_name).get(name, image.broker_config(None).get(name))
    default = context.config.topic_defaults[name]
    value = known[key] = default if text is None else TOPIC_PROPERTIES[name].parse(text)
    return value
