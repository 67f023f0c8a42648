"""AlterConfigs and IncrementalAlterConfigs: records, errors and responses."""

import pytest

from barnabas.cluster.controller.config_changes import parse_id
from barnabas.cluster.metadata.feature_levels import METADATA_VERSION
from barnabas.cluster.metadata.image import (
    RESOURCE_BROKER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
)
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.alter_configs import AlterConfigsRequest
from barnabas.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.protocol.records.metadata_records import FeatureLevelRecord
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


def test_alter_configs_set_and_delete_change_the_overrides(cluster: Cluster) -> None:
    assert alter(cluster, RESOURCE_TOPIC, "t", ("retention.ms", "5", SET))[0] == 0
    assert cluster.image.topic_config("t") == {"retention.ms": "5"}
    assert alter(cluster, RESOURCE_TOPIC, "t", ("retention.ms", None, DELETE))[0] == 0
    assert cluster.image.topic_config("t") == {}


def test_alter_configs_append_and_subtract_start_from_the_effective_list(cluster: Cluster) -> None:
    alter(cluster, RESOURCE_TOPIC, "t", ("cleanup.policy", "compact", APPEND))
    assert cluster.image.topic_config("t") == {"cleanup.policy": "delete,compact"}
    alter(cluster, RESOURCE_TOPIC, "t", ("cleanup.policy", "delete", SUBTRACT))
    assert cluster.image.topic_config("t") == {"cleanup.policy": "compact"}


def test_alter_configs_append_to_a_scalar_is_refused(cluster: Cluster) -> None:
    assert alter(cluster, RESOURCE_TOPIC, "t", ("retention.ms", "5", APPEND)) == (
        40,
        "Can't APPEND to key retention.ms because its type is not LIST.",
    )


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (("nope", "x", APPEND), "Unknown config name: nope"),
        (
            ("log.retention.ms", "5", SUBTRACT),
            "Config value subtract is not allowed for config key: log.retention.ms",
        ),
    ],
)
def test_alter_configs_list_operation_on_another_property_of_a_broker_is_refused(
    cluster: Cluster, operation: tuple[str, str, int], message: str
) -> None:
    assert alter(cluster, RESOURCE_BROKER, "", operation) == (40, message)


def test_alter_configs_invalid_property_changes_nothing_of_its_resource(cluster: Cluster) -> None:
    code, message = alter(
        cluster, RESOURCE_TOPIC, "t", ("retention.ms", "5", SET), ("bogus", "1", SET)
    )
    assert (code, message) == (40, "Unknown topic config name: bogus")
    assert cluster.image.topic_config("t") == {}


def test_alter_configs_unchanged_value_writes_no_record(cluster: Cluster) -> None:
    alter(cluster, RESOURCE_TOPIC, "t", ("retention.ms", "5", SET))
    before = cluster.controller.next_offset
    alter(cluster, RESOURCE_TOPIC, "t", ("retention.ms", "5", SET))
    assert cluster.controller.next_offset == before


def test_alter_configs_unchanged_value_of_a_broker_is_written_again(cluster: Cluster) -> None:
    """A broker reads the files that its properties name again (KAFKA-14136)."""
    setting = ("max.connections", "5", SET)
    for _ in range(2):
        before = cluster.controller.next_offset
        assert alter(cluster, RESOURCE_BROKER, "1", setting)[0] == 0
        assert cluster.controller.next_offset > before


def test_alter_configs_unknown_resource_is_refused(cluster: Cluster) -> None:
    setting = ("retention.ms", "5", SET)
    answer = alter(cluster, RESOURCE_TOPIC, "none", setting)
    assert answer == (3, "The topic 'none' does not exist.")
    assert alter(cluster, RESOURCE_BROKER, "x", setting)[0] == 42
    assert alter(cluster, RESOURCE_GROUP, "", setting)[0] == 42
    assert alter(cluster, 99, "x", setting)[0] == 42


def test_alter_configs_read_only_broker_property_is_refused(cluster: Cluster) -> None:
    assert alter(cluster, RESOURCE_BROKER, "1", ("log.dirs", "5", SET)) == (
        42,
        "Cannot update these configs dynamically: [log.dirs]",
    )
    assert alter(cluster, RESOURCE_BROKER, "1", ("log.retention.ms", "500", SET))[0] == 0
    assert cluster.image.broker_config(1) == {"log.retention.ms": "500"}


def test_alter_configs_duplicate_property_is_refused(cluster: Cluster) -> None:
    setting = ("retention.ms", "5", SET)
    assert alter(cluster, RESOURCE_TOPIC, "t", setting, setting)[0] == 42


def test_alter_configs_null_value_is_refused(cluster: Cluster) -> None:
    assert alter(cluster, RESOURCE_TOPIC, "t", ("retention.ms", None, SET)) == (
        42,
        "Null value not supported for : retention.ms",
    )


def test_alter_configs_full_request_replaces_all_overrides(cluster: Cluster) -> None:
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


def test_alter_configs_validate_only_writes_no_record(cluster: Cluster) -> None:
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
def test_parse_id_accepts_what_java_accepts(name: str) -> None:
    assert parse_id(name) is None
    assert parse_id("+1") == parse_id("1") == 1


def test_alter_configs_default_topic_resource_is_refused(cluster: Cluster) -> None:
    refused = (42, "Default topic resources are not allowed.")
    assert alter(cluster, RESOURCE_TOPIC, "", ("retention.ms", "5", SET)) == refused


@pytest.mark.parametrize(
    ("operation", "code", "says"),
    [
        (("match", "client_id=[", SET), 40, "Illegal client matching pattern: client_id=["),
        (("match", "client_id=a=b", SET), 40, "Illegal client matching pattern: client_id=a=b"),
        (("metrics", "a,,b", SET), 40, "its members must not be empty"),
        (("interval.ms", "x", SET), 40, "it must be an integer"),
        (("interval.ms", "5", SET), 42, "it must be at least 100"),
        (("bogus", "5", SET), 42, "Unknown client metrics configuration: bogus"),
        (("metrics", "a", APPEND), 40, "Can't APPEND to key metrics because its type is not LIST."),
    ],
)
def test_alter_configs_invalid_client_metrics_have_kafkas_error_codes(
    cluster: Cluster, operation: tuple[str, str, int], code: int, says: str
) -> None:
    refused = alter(cluster, RESOURCE_CLIENT_METRICS, "m", operation)
    assert refused[0] == code
    assert says in (refused[1] or "")


def test_alter_configs_default_client_metrics_resource_is_refused(cluster: Cluster) -> None:
    refused = (42, "Subscription name can't be empty")
    assert alter(cluster, RESOURCE_CLIENT_METRICS, "", ("metrics", "a", SET)) == refused


def test_alter_configs_cordoned_directories_need_their_metadata_version(cluster: Cluster) -> None:
    change = ("cordoned.log.dirs", "/disk1", SET)
    assert alter(cluster, RESOURCE_BROKER, "1", change)[0] == 0
    cluster.replay([FeatureLevelRecord(name=METADATA_VERSION, feature_level=29)])
    code, message = alter(cluster, RESOURCE_BROKER, "1", ("cordoned.log.dirs", "/disk2", SET))
    assert code == ErrorCode.INVALID_CONFIG
    assert message is not None
    assert "requires metadata.version >= 30" in message
