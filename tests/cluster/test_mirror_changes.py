"""A topic's flow in the controller: new leader epochs, the promotion, what is refused."""

import pytest

from barnabas.cluster.metadata.image import RESOURCE_TOPIC
from barnabas.config.mirror_topics import PROMOTED, SOURCE, Promotion
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.alter_configs import AlterConfigsRequest
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.records.metadata_records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
)
from tests.cluster.states import Cluster
from tests.cluster.test_config_changes import DELETE, SET, alter


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(brokers=3)
    cluster.create("t", partitions=3, replicas=3)
    return cluster


def flow(cluster: Cluster, value: str | None) -> tuple[int, str | None]:
    return alter(cluster, RESOURCE_TOPIC, "t", (SOURCE, value, SET if value else DELETE))


def epochs(cluster: Cluster) -> list[int]:
    partitions = cluster.image.topics_by_name["t"].partitions
    return [partitions[number].leader_epoch for number in sorted(partitions)]


def create(cluster: Cluster, name: str, **configs: str) -> tuple[int, str | None]:
    topic = CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=1,
        replication_factor=1,
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name=key, value=value)
            for key, value in configs.items()
        ],
    )
    request = CreateTopicsRequest(topics=[topic])
    (answer,) = cluster.take(cluster.controller.create_topics(request)).topics
    return answer.error_code, answer.error_message


def test_change_of_the_flow_starts_epochs_and_changes_nothing_else(cluster: Cluster) -> None:
    before = cluster.image.topics_by_name["t"].partitions
    assert flow(cluster, "a") == (0, None)
    after = cluster.image.topics_by_name["t"].partitions
    for number, partition in before.items():
        assert after[number].leader_epoch == partition.leader_epoch + 1
        assert after[number].partition_epoch == partition.partition_epoch + 1
        for name in ("leader", "isr", "replicas", "elr", "directories", "leader_recovery_state"):
            assert getattr(after[number], name) == getattr(partition, name)
    assert flow(cluster, "a") == (0, None)
    assert epochs(cluster) == [1, 1, 1], "it is the flow already"


def test_promotion_records_the_first_epoch_after_the_mirror(cluster: Cluster) -> None:
    flow(cluster, "a")
    topic = cluster.image.topics_by_name["t"]
    leader = topic.partitions[1].leader
    cluster.replay(
        [PartitionChangeRecord(topic_id=topic.id, partition_id=1, leader=leader) for _ in range(4)]
    )
    assert flow(cluster, None) == (0, None)
    assert epochs(cluster) == [2, 6, 2]
    assert cluster.image.topic_config("t") == {PROMOTED: "a:2,6,2"}
    assert flow(cluster, "b") == (0, None)
    assert cluster.image.topic_config("t") == {SOURCE: "b"}


def test_promotion_of_a_partition_without_a_leader_counts_its_epoch(cluster: Cluster) -> None:
    flow(cluster, "a")
    topic = cluster.image.topics_by_name["t"]
    cluster.replay([PartitionChangeRecord(topic_id=topic.id, partition_id=2, leader=-1)])
    brokers = cluster.image.brokers.values()
    cluster.replay(
        [
            BrokerRegistrationChangeRecord(broker_id=each.id, broker_epoch=each.epoch, fenced=1)
            for each in brokers
        ]
    )
    assert flow(cluster, None) == (0, None)
    promotion = Promotion.parse(cluster.image.topic_config("t")[PROMOTED])
    assert list(promotion.epochs) == epochs(cluster) == [2, 2, 3]


@pytest.mark.parametrize("operation", [SET, DELETE])
def test_property_of_the_controller_is_refused_or_kept(cluster: Cluster, operation: int) -> None:
    flow(cluster, "a")
    flow(cluster, None)
    kept = cluster.image.topic_config("t")
    value = "a:9" if operation == SET else None
    code, _ = alter(cluster, RESOURCE_TOPIC, "t", (PROMOTED, value, operation))
    assert code == (ErrorCode.INVALID_CONFIG if operation == SET else 0)
    assert cluster.image.topic_config("t") == kept


def test_topic_is_not_created_with_the_property_of_the_controller(cluster: Cluster) -> None:
    code, message = create(cluster, "n", **{PROMOTED: "a:1"})
    assert (code, "leave it out" in str(message)) == (ErrorCode.INVALID_CONFIG, True)
    assert create(cluster, "n", **{SOURCE: "a"}) == (0, None)


def test_internal_topic_cannot_be_a_mirror(cluster: Cluster) -> None:
    code, message = create(cluster, "__consumer_offsets", **{SOURCE: "a"})
    assert (code, "cannot be a mirror" in str(message)) == (ErrorCode.INVALID_CONFIG, True)


def test_refused_change_starts_no_epoch(cluster: Cluster) -> None:
    changes = ((SOURCE, "a", SET), ("retention.ms", "x", SET))
    assert alter(cluster, RESOURCE_TOPIC, "t", *changes)[0] == ErrorCode.INVALID_CONFIG
    assert epochs(cluster) == [0, 0, 0]


def test_only_validated_change_starts_no_epoch(cluster: Cluster) -> None:
    config = AlterConfigsRequest.AlterableConfig(name=SOURCE, value="a")
    resource = AlterConfigsRequest.AlterConfigsResource(
        resource_type=RESOURCE_TOPIC, resource_name="t", configs=[config]
    )
    request = AlterConfigsRequest(resources=[resource], validate_only=True)
    (answer,) = cluster.take(cluster.controller.alter_configs(request)).responses
    assert answer.error_code == 0
    assert epochs(cluster) == [0, 0, 0]


@pytest.mark.parametrize("text", ["a:", "a:1,2,3", "", "a.b-c_d:0"])
def test_promotion_is_parsed_as_it_is_written(text: str) -> None:
    promotion = Promotion.parse(text)
    assert str(promotion).removesuffix(":") == text.removesuffix(":")
    assert promotion.epoch_of(99) == -1
