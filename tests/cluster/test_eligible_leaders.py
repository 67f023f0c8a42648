"""Eligible leader replicas (KIP-966): the feature, min.insync.replicas, and who may lead when."""

from collections.abc import Sequence

import pytest

from barnabas.cluster.controller.config_changes import Operation
from barnabas.cluster.controller.feature_changes import SAFE_DOWNGRADE, UPGRADE
from barnabas.cluster.metadata.feature_levels import (
    BOOTSTRAP,
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    SUPPORTED,
)
from barnabas.cluster.metadata.image import RESOURCE_BROKER, RESOURCE_TOPIC, PartitionImage
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.alter_configs import AlterConfigsRequest
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from barnabas.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.protocol.messages.update_features import UpdateFeaturesRequest
from barnabas.protocol.messages_base import Message
from barnabas.protocol.records.metadata_records import (
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
)
from tests.cluster.states import Cluster, registration

FEATURE = ELIGIBLE_LEADER_REPLICAS_VERSION
MIN_ISR = "min.insync.replicas"


def with_elr(brokers: int = 3, **config: str) -> Cluster:
    cluster = Cluster(brokers, **config)
    level = FeatureLevelRecord(name=FEATURE, feature_level=1)
    cluster.replay(cluster.controller.bootstrap([level]).records)
    return cluster


def enable(cluster: Cluster, level: int = 1, kind: int = UPGRADE) -> tuple[int, list[Message]]:
    key = UpdateFeaturesRequest.FeatureUpdateKey
    update = key(feature=FEATURE, max_version_level=level, upgrade_type=kind)
    request = UpdateFeaturesRequest(feature_updates=[update])
    result = cluster.controller.update_features(request, 2)
    return cluster.take(result).error_code, result.records


def alter(
    cluster: Cluster, kind: int, name: str, value: str | None, key: str = MIN_ISR
) -> tuple[int, str | None, Sequence[Message]]:
    request = IncrementalAlterConfigsRequest
    operation = Operation.DELETE if value is None else Operation.SET
    config = request.AlterableConfig(name=key, config_operation=operation, value=value)
    resource = request.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=[config]
    )
    result = cluster.controller.incremental_alter_configs(request(resources=[resource]))
    (answer,) = cluster.take(result).responses
    return answer.error_code, answer.error_message, result.records


def config_record(name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(
        resource_type=RESOURCE_BROKER, resource_name=name, name=MIN_ISR, value=value
    )


def partition_of(cluster: Cluster, name: str = "t") -> PartitionImage:
    return cluster.image.topics_by_name[name].partitions[0]


def test_feature_is_supported_and_finalized_in_new_clusters() -> None:
    assert SUPPORTED[FEATURE] == (0, 1)
    assert BOOTSTRAP[FEATURE] == 1


@pytest.mark.parametrize(("config", "value"), [({}, "1"), ({"min_insync_replicas": "2"}, "2")])
def test_bootstrap_sets_min_insync_replicas_of_the_cluster(
    config: dict[str, str], value: str
) -> None:
    cluster = Cluster(0, **config)
    level = FeatureLevelRecord(name=FEATURE, feature_level=1)
    assert cluster.controller.bootstrap([level]).records == [level, config_record("", value)]
    off = FeatureLevelRecord(name="group.version", feature_level=1)
    assert cluster.controller.bootstrap([off]).records == [off]


def test_update_features_enables_it_with_one_min_insync_replicas_for_all_brokers() -> None:
    cluster = Cluster(brokers=2)
    cluster.replay([config_record("2", "3")])
    code, records = enable(cluster)
    assert (code, records) == (
        0,
        [
            config_record("", "1"),
            config_record("2", None),
            FeatureLevelRecord(name=FEATURE, feature_level=1),
        ],
    )
    assert enable(cluster) == (0, [FeatureLevelRecord(name=FEATURE, feature_level=1)])
    off = FeatureLevelRecord(name=FEATURE, feature_level=0)
    assert enable(cluster, 0, SAFE_DOWNGRADE) == (0, [off])


def test_update_features_refuses_it_below_metadata_version_4_0() -> None:
    cluster = Cluster()
    cluster.replay([FeatureLevelRecord(name="metadata.version", feature_level=22)])
    assert enable(cluster) == (ErrorCode.INVALID_UPDATE_VERSION, [])


def test_alter_configs_refuses_a_min_insync_replicas_that_not_all_nodes_know() -> None:
    cluster = with_elr()
    code, message, _ = alter(cluster, RESOURCE_BROKER, "1", "2")
    assert code == ErrorCode.INVALID_CONFIG
    assert message == "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
    code, message, _ = alter(cluster, RESOURCE_BROKER, "", None)
    assert code == ErrorCode.INVALID_CONFIG
    assert message == "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
    resource = AlterConfigsRequest.AlterConfigsResource(
        resource_type=RESOURCE_BROKER, resource_name="", configs=[]
    )
    replaced = cluster.controller.alter_configs(AlterConfigsRequest(resources=[resource]))
    assert replaced.response.responses[0].error_code == ErrorCode.INVALID_CONFIG
    without = Cluster()
    assert alter(without, RESOURCE_BROKER, "1", "2")[0] == 0


def test_alter_configs_of_min_insync_replicas_clears_the_elrs() -> None:
    cluster = with_elr()
    for name in ("t", "u"):
        topic_id = cluster.create(name, replicas=3, min_insync_replicas="2").topic_id
        change = PartitionChangeRecord(
            topic_id=topic_id, partition_id=0, isr=[1], leader=1, eligible_leader_replicas=[2]
        )
        cluster.replay([change])
    _, _, records = alter(cluster, RESOURCE_TOPIC, "t", "1")
    assert records[1:] == [ClearElrRecord(topic_name="t")]
    assert (partition_of(cluster).elr, partition_of(cluster, "u").elr) == ((), (2,))
    assert alter(cluster, RESOURCE_TOPIC, "t", "1")[2] == []
    _, _, records = alter(cluster, RESOURCE_BROKER, "", "2")
    assert records[1:] == [ClearElrRecord(topic_name="")]
    assert partition_of(cluster, "u").elr == ()
    other = alter(cluster, RESOURCE_TOPIC, "u", "5000", key="retention.ms")[2]
    assert len(other) == 1


def stop(cluster: Cluster, broker_id: int) -> None:
    """End the session of a broker."""
    cluster.take(cluster.controller.fence_broker(broker_id))


def restart(cluster: Cluster, broker_id: int, *, is_clean: bool) -> None:
    epoch = cluster.image.brokers[broker_id].epoch if is_clean else -1
    request = registration(
        broker_id, incarnation=1000 + cluster.controller.next_offset, previous_epoch=epoch
    )
    cluster.register(request)
    cluster.unfence(broker_id)


def three_replicas(min_isr: int) -> Cluster:
    """Return a cluster with the topic `t`: replicas 1, 2, 3 in the ISR, led by 1."""
    cluster = with_elr()
    topic_id = cluster.create("t", replicas=3, min_insync_replicas=str(min_isr)).topic_id
    change = PartitionChangeRecord(
        topic_id=topic_id, partition_id=0, replicas=[1, 2, 3], isr=[1, 2, 3], leader=1
    )
    cluster.replay([change])
    return cluster


def test_replica_that_stopped_cleanly_leads_while_no_other_is_in_sync() -> None:
    cluster = three_replicas(min_isr=2)
    stop(cluster, 3)
    assert (partition_of(cluster).isr, partition_of(cluster).elr) == ((1, 2), ())
    stop(cluster, 2)
    assert (partition_of(cluster).isr, partition_of(cluster).elr) == ((1,), (2,))
    stop(cluster, 1)
    offline = partition_of(cluster)
    assert (offline.leader, offline.isr, offline.elr) == (-1, (), (1, 2))
    assert offline.last_known_elr == (1,)
    restart(cluster, 3, is_clean=True)
    assert partition_of(cluster).leader == -1
    restart(cluster, 2, is_clean=True)
    elected = partition_of(cluster)
    assert (elected.leader, elected.isr, elected.elr) == (2, (2,), (1,))
    assert (elected.last_known_elr, elected.leader_recovery_state) == ((), 0)


def test_last_known_leader_is_elected_uncleanly_after_all_lost_their_records() -> None:
    cluster = three_replicas(min_isr=2)
    for broker_id in (3, 2, 1):
        stop(cluster, broker_id)
    restart(cluster, 2, is_clean=False)
    assert (partition_of(cluster).leader, partition_of(cluster).elr) == (-1, (1,))
    restart(cluster, 1, is_clean=False)
    elected = partition_of(cluster)
    assert (elected.leader, elected.isr, elected.elr) == (1, (1,), ())
    assert elected.leader_recovery_state == 1


@pytest.mark.parametrize(("is_clean", "recovery_state"), [(True, 0), (False, 1)])
def test_only_replica_leads_again_after_its_restart(is_clean: bool, recovery_state: int) -> None:
    cluster = with_elr(brokers=1)
    cluster.create("t")
    restart(cluster, 1, is_clean=is_clean)
    partition = partition_of(cluster)
    assert (partition.leader, partition.isr, partition.elr) == (1, (1,), ())
    assert partition.leader_recovery_state == recovery_state


def test_feature_that_is_disabled_leaves_no_elr_after_the_next_change() -> None:
    cluster = three_replicas(min_isr=2)
    stop(cluster, 3)
    stop(cluster, 2)
    enable(cluster, 0, SAFE_DOWNGRADE)
    stop(cluster, 1)
    partition = partition_of(cluster)
    assert (partition.leader, partition.isr, partition.elr) == (-1, (1,), ())


def test_cancelled_reassignment_elects_an_eligible_replica() -> None:
    """Kafka requires an unclean election here, though a replica has all committed records."""
    cluster = with_elr(brokers=4)
    topic_id = cluster.create("t", replicas=2, min_insync_replicas="2").topic_id
    change = PartitionChangeRecord(
        topic_id=topic_id,
        partition_id=0,
        replicas=[4, 1, 2],
        adding_replicas=[4],
        isr=[4],
        leader=4,
        eligible_leader_replicas=[2],
    )
    cluster.replay([change])
    kind = AlterPartitionReassignmentsRequest
    asked = kind.ReassignablePartition(partition_index=0, replicas=None)
    request = kind(topics=[kind.ReassignableTopic(name="t", partitions=[asked])])
    cluster.take(cluster.controller.alter_partition_reassignments(request))
    partition = partition_of(cluster)
    assert (partition.replicas, partition.leader, partition.isr) == ((1, 2), 2, (2,))
    assert (partition.elr, partition.leader_recovery_state) == ((), 0)
