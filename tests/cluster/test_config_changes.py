"""What AlterConfigs and IncrementalAlterConfigs may change, and what they answer."""

import pytest

from barnabas.cluster.controller.config_changes import parse_id
from barnabas.cluster.metadata.image import (
    RESOURCE_BROKER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
)
from barnabas.protocol.messages.alter_configs import AlterConfigsRequest
from barnabas.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.cluster.states import Cluster

SET, DELETE, APPEND, SUBTRACT = range(4)


def alter(
    cluster: Cluster, kind: int, name: str, *operations: tuple[str, str | None, int]
) -> tuple[int, str | None]:
    request = IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsRequest.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    IncrementalAlterConfigsRequest.AlterableConfig(
                        name=key, value=value, config_operation=operation
                    )
                    for key, value, operation in operations
                ],
            )
        ]
    )
    (answer,) = cluster.take(cluster.controller.incremental_alter_configs(request)).responses
    return answer.error_code, answer.error_message


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.create("t")
    return cluster


def test_properties_are_set_and_unset(cluster: Cluster) -> None:
    assert alter(cluster, RESOURCE_TOPIC, "t", ("retention.ms", "5", SET))[0] == 0
    assert cluster.image.topic_config("t") == {"retention.ms": "5"}
    assert alter(cluster, RESOURCE_TOPIC, "t", ("retention.ms", None, DELETE))[0] == 0
    assert cluster.image.topic_config("t") == {}


def test_lists_grow_and_shrink_from_what_is_in_effect(cluster: Cluster) -> None:
    alter(cluster, RESOURCE_TOPIC, "t", ("cleanup.policy", "compact", APPEND))
    assert cluster.image.topic_config("t") == {"cleanup.policy": "delete,compact"}
    alter(cluster, RESOURCE_TOPIC, "t", ("cleanup.policy", "delete", SUBTRACT))
    assert cluster.image.topic_config("t") == {"cleanup.policy": "compact"}


def test_what_is_no_list_cannot_be_appended_to(cluster: Cluster) -> None:
    assert alter(cluster, RESOURCE_TOPIC, "t", ("retention.ms", "5", APPEND)) == (
        40,
        "Can't APPEND to key retention.ms because its type is not LIST.",
    )


def test_a_refused_property_leaves_the_others_of_the_resource_alone(cluster: Cluster) -> None:
    code, message = alter(
        cluster, RESOURCE_TOPIC, "t", ("retention.ms", "5", SET), ("bogus", "1", SET)
    )
    assert (code, message) == (40, "Unknown topic config name: bogus")
    assert cluster.image.topic_config("t") == {}


def test_an_unchanged_value_is_not_written_again(cluster: Cluster) -> None:
    alter(cluster, RESOURCE_TOPIC, "t", ("retention.ms", "5", SET))
    before = cluster.controller.next_offset
    alter(cluster, RESOURCE_TOPIC, "t", ("retention.ms", "5", SET))
    assert cluster.controller.next_offset == before


def test_resources_that_are_not_there_are_refused(cluster: Cluster) -> None:
    setting = ("retention.ms", "5", SET)
    answer = alter(cluster, RESOURCE_TOPIC, "none", setting)
    assert answer == (3, "The topic 'none' does not exist.")
    assert alter(cluster, RESOURCE_BROKER, "x", setting)[0] == 42
    assert alter(cluster, RESOURCE_GROUP, "", setting)[0] == 42
    assert alter(cluster, 99, "x", setting)[0] == 42


def test_broker_properties_that_are_fixed_cannot_be_altered(cluster: Cluster) -> None:
    assert alter(cluster, RESOURCE_BROKER, "1", ("log.dirs", "5", SET)) == (
        42,
        "Cannot update these configs dynamically: [log.dirs]",
    )
    assert alter(cluster, RESOURCE_BROKER, "1", ("log.retention.ms", "500", SET))[0] == 0
    assert cluster.image.broker_config(1) == {"log.retention.ms": "500"}


def test_a_property_named_twice_is_refused(cluster: Cluster) -> None:
    setting = ("retention.ms", "5", SET)
    assert alter(cluster, RESOURCE_TOPIC, "t", setting, setting)[0] == 42


def test_a_missing_value_is_refused(cluster: Cluster) -> None:
    assert alter(cluster, RESOURCE_TOPIC, "t", ("retention.ms", None, SET)) == (
        42,
        "Null value not supported for : retention.ms",
    )


def test_the_older_request_replaces_everything(cluster: Cluster) -> None:
    alter(cluster, RESOURCE_TOPIC, "t", ("retention.ms", "5", SET), ("segment.ms", "9", SET))
    request = AlterConfigsRequest(
        resources=[
            AlterConfigsRequest.AlterConfigsResource(
                resource_type=RESOURCE_TOPIC,
                resource_name="t",
                configs=[AlterConfigsRequest.AlterableConfig(name="segment.ms", value="7")],
            )
        ]
    )
    cluster.take(cluster.controller.alter_configs(request))
    assert cluster.image.topic_config("t") == {"segment.ms": "7"}


def test_validate_only_changes_nothing(cluster: Cluster) -> None:
    request = AlterConfigsRequest(
        resources=[
            AlterConfigsRequest.AlterConfigsResource(
                resource_type=RESOURCE_TOPIC,
                resource_name="t",
                configs=[AlterConfigsRequest.AlterableConfig(name="segment.ms", value="7")],
            )
        ],
        validate_only=True,
    )
    result = cluster.controller.alter_configs(request)
    assert result.records == []
    assert [answer.error_code for answer in result.response.responses] == [0]


@pytest.mark.parametrize("name", [" 1", "1.0", "1_0", "", "\u00b2"])
def test_an_id_is_a_number_as_java_reads_it(name: str) -> None:
    assert parse_id(name) is None
    assert parse_id("+1") == parse_id("1") == 1


def test_there_are_no_default_topics(cluster: Cluster) -> None:
    refused = (42, "Default topic resources are not allowed.")
    assert alter(cluster, RESOURCE_TOPIC, "", ("retention.ms", "5", SET)) == refused


def test_what_client_metrics_match_is_a_configuration(cluster: Cluster) -> None:
    refused = (40, "Illegal client matching pattern: client_id=[")
    assert alter(cluster, RESOURCE_CLIENT_METRICS, "m", ("match", "client_id=[", SET)) == refused
