"""A topic's effective values; validation of changes to topics, brokers and groups."""

import pytest

from barnabas.config import ConfigError, NodeConfig, TopicConfig, validate_topic_overrides
from barnabas.config.config_alteration import (
    validate_broker_changes,
    validate_client_metrics,
    validate_group_overrides,
)
from barnabas.config.node_config import SINGLE_NODE

NODE = NodeConfig.load()


def node(**properties: str) -> NodeConfig:
    return NodeConfig.load(None, {k.replace("_", "."): text for k, text in properties.items()})


def test_defaults_equal_kafkas() -> None:
    topic = TopicConfig(NODE)
    assert topic.segment_bytes == 1 << 30
    assert topic.retention_ms == 7 * 24 * 3600 * 1000
    assert topic.max_message_bytes == 1048588
    assert (topic.is_deleted, topic.is_compacted) == (True, False)


def test_override_wins_over_the_broker_value() -> None:
    topic = TopicConfig(node(log_segment_bytes="2000000"), {"segment.bytes": "3000000"})
    assert topic.segment_bytes == 3000000
    assert TopicConfig(node(log_segment_bytes="2000000")).segment_bytes == 2000000


@pytest.mark.parametrize(
    ("properties", "name", "value"),
    [
        ({"log_retention_hours": "2"}, "retention.ms", 7_200_000),
        ({"log_retention_hours": "2", "log_retention_minutes": "3"}, "retention.ms", 180_000),
        ({"log_retention_minutes": "3", "log_retention_ms": "9"}, "retention.ms", 9),
        ({"log_retention_hours": "-1"}, "retention.ms", -1),
        ({"log_roll_hours": "1"}, "segment.ms", 3_600_000),
        ({"log_roll_jitter_hours": "1"}, "segment.jitter.ms", 3_600_000),
        ({"log_flush_scheduler_interval_ms": "5"}, "flush.ms", 5),
        ({"message_max_bytes": "77"}, "max.message.bytes", 77),
    ],
)
def test_strongest_synonym_that_is_set_wins(
    properties: dict[str, str], name: str, value: int
) -> None:
    assert TopicConfig(node(**properties)).get(name) == value


def test_unknown_override_is_kept_and_ignored() -> None:
    topic = TopicConfig(NODE, {"from.the.future": "1"})
    assert topic.overrides == {"from.the.future": "1"}


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        ({"foo": "1"}, "Unknown topic config name: foo"),
        ({"retention.ms": None}, "Null value not supported for topic configs: retention.ms"),
        ({"retention.ms": "abc"}, "Invalid value abc for configuration retention.ms"),
        ({"retention.ms": "-5"}, "at least -1"),
        (
            {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"},
            "min.compaction.lag.ms (5) > max.compaction.lag.ms (4)",
        ),
        ({"remote.storage.enable": "true"}, "Tiered Storage functionality is disabled"),
    ],
)
def test_invalid_topic_override_is_refused(overrides: dict[str, str | None], says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        validate_topic_overrides(overrides, NODE)
    assert says in refused.value.message


@pytest.mark.parametrize(
    "overrides",
    [{"local.retention.ms": "99999999999"}, {"cleanup.policy": ""}, {"retention.ms": " 500 "}],
)
def test_valid_topic_override_is_accepted(overrides: dict[str, str | None]) -> None:
    validate_topic_overrides(overrides, NODE)


def test_local_retention_above_the_whole_is_refused_with_tiering() -> None:
    tiered = NodeConfig({**SINGLE_NODE, "remote.log.storage.system.enable": "true"})
    overrides = {"remote.storage.enable": "true", "local.retention.ms": "99999999999"}
    with pytest.raises(ConfigError, match=r"local\.retention\.ms must not be more than"):
        validate_topic_overrides(overrides, tiered)
    with pytest.raises(ConfigError, match=r"cleanup\.policy=delete"):
        validate_topic_overrides(
            {"remote.storage.enable": "true", "cleanup.policy": "compact"}, tiered
        )


@pytest.mark.parametrize(
    ("changes", "cluster_default", "says"),
    [
        ({"log.retention.hours": "3"}, False, "dynamically: [log.retention.hours]"),
        ({"node.id": "3", "process.roles": "broker"}, False, "[node.id, process.roles]"),
        ({"ssl.keystore.location": "x"}, False, "only for one listener"),
        ({"listeners": "PLAINTEXT://:1"}, True, "broker id must be specified: [listeners]"),
        ({"log.retention.ms": "abc"}, False, "Invalid value abc"),
        ({"num.io.threads": "100"}, False, "between half and double the current value 8"),
        ({"log.retention.ms": "0"}, True, "0 for configuration log.retention.ms: it must be -1"),
        ({"log.roll.ms": "0"}, True, "0 for configuration log.roll.ms: it must be at least 1"),
        ({"remote.log.reader.threads": "21"}, True, "between half and double the current value 10"),
        ({"log.local.retention.ms": "604800001"}, True, "more than log.retention.ms = 604800000"),
        ({"log.local.retention.ms": "-1"}, True, "-1 for configuration log.local.retention.ms"),
        (
            {"log.local.retention.bytes": "5", "log.retention.bytes": "4"},
            True,
            "5 for configuration log.local.retention.bytes must not be more than",
        ),
        ({"log.cleaner.dedupe.buffer.size": "1048576"}, True, "above 1048576 for each of log.cl"),
        (
            {"log.cleaner.dedupe.buffer.size": "2097153", "log.cleaner.threads": "2"},
            True,
            "2097153 for configuration log.cleaner.dedupe.buffer.size",
        ),
        ({"log.roll.jitter.ms": "-1"}, True, "-1 for configuration log.roll.jitter.ms"),
        ({"max.connections.per.ip": "0"}, True, "0 for configuration max.connections.per.ip"),
        ({"listeners": "FOO://:1"}, False, "FOO has no security protocol"),
    ],
)
def test_invalid_broker_change_is_refused(
    changes: dict[str, str | None], cluster_default: bool, says: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        validate_broker_changes(changes, NODE, cluster_default=cluster_default)
    assert says in refused.value.message


@pytest.mark.parametrize(
    "changes",
    [
        {"foo": "3"},
        {"log.retention.ms": "1000"},
        {"log.retention.ms": "-2"},
        {"num.io.threads": "16"},
        {"log.roll.ms": None},
        {"log.roll.jitter.ms": "0"},
        {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:1"},
    ],
)
def test_valid_broker_change_is_accepted(changes: dict[str, str | None]) -> None:
    validate_broker_changes(changes, NODE, cluster_default=False)


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        ({"foo": "1"}, "Unknown group config name: foo"),
        ({"consumer.session.timeout.ms": "1"}, "group.consumer.min.session.timeout.ms"),
        ({"consumer.heartbeat.interval.ms": "15001"}, "group.consumer.max.heartbeat.interval.ms"),
        ({"share.record.lock.duration.ms": "70000"}, "group.share.max.record.lock.duration.ms"),
        ({"share.auto.offset.reset": "by_duration:PT1X"}, "by_duration:PnDTnHnMn.nS"),
        ({"streams.num.standby.replicas": "3"}, "group.streams.max.standby.replicas"),
    ],
)
def test_invalid_group_override_is_refused(overrides: dict[str, str | None], says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        validate_group_overrides(overrides, NODE)
    assert says in refused.value.message


def test_valid_group_override_is_accepted() -> None:
    validate_group_overrides(
        {"consumer.session.timeout.ms": "50000", "share.auto.offset.reset": "by_duration:PT1H"},
        NODE,
    )


def test_session_timeout_must_be_above_the_heartbeat_interval() -> None:
    lax = node(group_consumer_max_heartbeat_interval_ms="60000")
    with pytest.raises(ConfigError, match=r"must be greater than consumer\.heartbeat"):
        validate_group_overrides({"consumer.heartbeat.interval.ms": "45000"}, lax)


@pytest.mark.parametrize(
    "overrides", [{"interval.ms": "5"}, {"foo": "1"}, {"match": "a=b"}, {"match": "client_id=["}]
)
def test_invalid_metrics_subscription_is_refused(
    overrides: dict[str, str | None],
) -> None:
    with pytest.raises(ConfigError):
        validate_client_metrics(overrides)
    validate_client_metrics({"interval.ms": "5000", "match": "client_id=a.*", "metrics": "*"})
