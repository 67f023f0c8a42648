"""Eligible leader replicas (KIP-966) on one node: the feature, min.insync.replicas, and restarts.

Run on Apache Kafka 4.3 as well, which finalizes the feature in new clusters.
"""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest
from barnabas.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from barnabas.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.protocol.messages.update_features import UpdateFeaturesRequest
from compat_tests.servers import ServerProcess
from compat_tests.wire import call, retry

FEATURE, MIN_ISR = "eligible.leader.replicas.version", "min.insync.replicas"
BROKER, TOPIC = 4, 2
SET, DELETE = 0, 1
DYNAMIC_DEFAULT_BROKER = 3
UPGRADE, SAFE_DOWNGRADE = 1, 2
INVALID_CONFIG = 40


@pytest.fixture(scope="module")
def changeable(start_server: Callable[..., ServerProcess]) -> ServerProcess:
    """A server that no other test uses."""
    return start_server()


def finalized_level(bootstrap: str) -> int:
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    features = call(bootstrap, request, 4).finalized_features
    return {each.name: each.max_version_level for each in features}.get(FEATURE, 0)


def min_isr_of_broker(bootstrap: str) -> Any:
    """Return the entry of min.insync.replicas in the description of broker 1."""
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=BROKER, resource_name="1", configuration_keys=[MIN_ISR]
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    ((entry,),) = (result.configs for result in call(bootstrap, request, 4).results)
    return entry


def alter_min_isr(bootstrap: str, kind: int, name: str, value: str | None) -> tuple[int, str]:
    request = IncrementalAlterConfigsRequest
    config = request.AlterableConfig(
        name=MIN_ISR, config_operation=DELETE if value is None else SET, value=value
    )
    resource = request.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=[config]
    )
    (answer,) = call(bootstrap, request(resources=[resource]), 1).responses
    return answer.error_code, answer.error_message


def create(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(topic, num_partitions=1, replication_factor=1)
    admin.create_topics([new])[topic].result(30)


def partition_of(bootstrap: str, topic: str) -> Any:
    """Return the partition when it has a leader."""
    name = DescribeTopicPartitionsRequest.TopicRequest(name=topic)
    answer = retry(
        bootstrap,
        DescribeTopicPartitionsRequest(topics=[name]),
        0,
        lambda answer: (
            answer.topics[0].partitions and answer.topics[0].partitions[0].leader_id == 1
        ),
    )
    return answer.topics[0].partitions[0]


def test_new_cluster_finalizes_the_feature_and_sets_min_insync_replicas(bootstrap: str) -> None:
    assert finalized_level(bootstrap) == 1
    entry = min_isr_of_broker(bootstrap)
    assert (entry.value, entry.config_source) == ("1", DYNAMIC_DEFAULT_BROKER)


def test_min_insync_replicas_of_one_broker_and_its_removal_are_refused(bootstrap: str) -> None:
    assert alter_min_isr(bootstrap, BROKER, "1", "2") == (
        INVALID_CONFIG,
        "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
    )
    assert alter_min_isr(bootstrap, BROKER, "", None) == (
        INVALID_CONFIG,
        "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
    )


def test_topic_has_no_eligible_replicas_while_its_isr_is_complete(bootstrap, unique) -> None:
    topic = unique("elr")
    create(bootstrap, topic)
    partition = partition_of(bootstrap, topic)
    assert list(partition.isr_nodes) == [1]
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([], [])
    assert alter_min_isr(bootstrap, TOPIC, topic, "2")[0] == 0


@pytest.mark.parametrize("way", ["stop", "kill"])
def test_restarted_node_leads_its_partitions_again(changeable, unique, way: str) -> None:
    topic = unique("elr")
    create(changeable.bootstrap, topic)
    before = partition_of(changeable.bootstrap, topic)
    getattr(changeable, way)()
    changeable.start()
    after = partition_of(changeable.bootstrap, topic)
    assert after.leader_epoch > before.leader_epoch
    assert list(after.isr_nodes) == [1]
    assert (after.eligible_leader_replicas, after.last_known_elr) == ([], [])


def test_feature_can_be_disabled_and_enabled_again(changeable) -> None:
    key = UpdateFeaturesRequest.FeatureUpdateKey
    for level, kind in ((0, SAFE_DOWNGRADE), (1, UPGRADE)):
        update = key(feature=FEATURE, max_version_level=level, upgrade_type=kind)
        request = UpdateFeaturesRequest(feature_updates=[update])
        assert call(changeable.bootstrap, request, 1).error_code == 0
        retry(
            changeable.bootstrap,
            ApiVersionsRequest(client_software_name="x", client_software_version="1"),
            4,
            lambda answer, level=level: (
                {each.name: each.max_version_level for each in answer.finalized_features}.get(
                    FEATURE, 0
                )
                == level
            ),
        )
        if level == 0:
            assert alter_min_isr(changeable.bootstrap, BROKER, "1", "1")[0] == 0
    assert min_isr_of_broker(changeable.bootstrap).config_source == DYNAMIC_DEFAULT_BROKER
