"""Configurations of MirrorMaker 2's connectors: validation, and the settings that they make."""

import pytest

from barnabas.pipeline.connect.connector_validation import ConnectorValidator
from barnabas.pipeline.connect.plugin_registry import plugin_registry
from barnabas.pipeline.definitions.config_types import ConfigValueError
from barnabas.pipeline.delivery.plan.job_plan import JobKind
from barnabas.pipeline.mirror.mirrormaker.maker_settings import (
    checkpoint_settings,
    heartbeat_settings,
    source_settings,
)
from barnabas.pipeline.runner.flow_host import flow_plan

MIRROR = "org.apache.kafka.connect.mirror"
REQUIRED = {
    "name": "m",
    "source.cluster.alias": "A",
    "source.cluster.bootstrap.servers": "source:9092",
}
RUNNER = {"bootstrap.servers": "runner:9092"}


def errors(kind: str, **properties: str) -> list[str]:
    config = {
        **REQUIRED,
        "connector.class": f"{MIRROR}.Mirror{kind}Connector",
        **{name.replace("_", "."): value for name, value in properties.items()},
    }
    validator = ConnectorValidator(plugin_registry(), "group", {})
    return validator.validate(config).errors


@pytest.mark.parametrize("kind", ["Source", "Checkpoint", "Heartbeat"])
def test_a_minimal_configuration_is_valid_and_is_planned_as_a_flow(kind: str) -> None:
    assert errors(kind) == []
    config = {**REQUIRED, "connector.class": f"{MIRROR}.Mirror{kind}Connector"}
    plan = flow_plan(config, "runner:9092")
    assert (plan.kind, plan.group_id) == (JobKind.MIRROR, "mirror-m")


def test_wrong_values_have_javas_messages() -> None:
    assert errors("Source", **{"offset-syncs.topic.location": "nowhere"}) == [
        "Invalid value nowhere for configuration offset-syncs.topic.location: "
        "String must be one of: source, target"
    ]
    assert errors("Source", offset_lag_max="many") == [
        "Invalid value many for configuration offset.lag.max: Not a number of type LONG"
    ]
    validator = ConnectorValidator(plugin_registry(), "group", {})
    missing = validator.validate({"connector.class": "MirrorHeartbeatConnector", "name": "m"})
    assert missing.errors == [
        'Missing required configuration "source.cluster.alias" which has no default value.'
    ]


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("topic.filter.class", "org.example.Filter", "DefaultTopicFilter is supported"),
        ("replication.policy.class", "org.example.Policy", "IdentityReplicationPolicy"),
        ("refresh.topics.enabled", "false", "only true is supported"),
        ("enabled", "false", "Stop or delete the connector"),
        ("transforms", "t", "without decoding them"),
    ],
)
def test_values_that_are_not_supported_are_refused(name: str, value: str, reason: str) -> None:
    found = errors("Source", **{name: value, "transforms.t.type": "Filter"})
    assert any(name in error and reason in error for error in found), found


def test_settings_of_a_source_connector() -> None:
    found = source_settings(
        {**REQUIRED, "target.cluster.alias": "B", "replication.factor": "2"}, RUNNER
    )
    assert found.remote("t") == "A.t"
    assert not found.is_identical
    assert found.offset_syncs is not None
    assert (found.offset_syncs.name, found.offset_syncs.at_source) == (
        "mm2-offset-syncs.B.internal",
        True,
    )
    assert (found.replication_factor, found.sync_step, found.flow) == (2, 100, "m")
    assert found.source.bootstrap[0].host == "source"
    assert found.target.bootstrap[0].host == "runner"
    at_target = source_settings({**REQUIRED, "offset-syncs.topic.location": "target"}, RUNNER)
    assert at_target.offset_syncs is not None
    assert at_target.offset_syncs.name == "mm2-offset-syncs.A.internal"
    silent = source_settings({**REQUIRED, "emit.offset-syncs.enabled": "false"}, RUNNER)
    assert silent.offset_syncs is None


def test_settings_of_the_other_connectors() -> None:
    checkpoints = checkpoint_settings(
        {**REQUIRED, "target.cluster.alias": "B", "sync.group.offsets.enabled": "true"}, RUNNER
    )
    assert (checkpoints.interval_s, checkpoints.writes_groups) == (60, True)
    assert checkpoints.syncs.name == "mm2-offset-syncs.B.internal"
    assert heartbeat_settings(REQUIRED, RUNNER).interval_s == 1


def test_clients_have_the_properties_of_their_prefixes() -> None:
    found = source_settings(
        {
            **REQUIRED,
            "target.cluster.bootstrap.servers": "target:9093",
            "target.cluster.security.protocol": "SASL_PLAINTEXT",
            "target.cluster.sasl.mechanism": "PLAIN",
            "target.cluster.sasl.username": "u",
            "target.cluster.sasl.password": "p",
        },
        RUNNER,
    )
    assert found.source.sasl is None
    assert found.target.sasl is not None
    with pytest.raises(ConfigValueError, match=r"source\.cluster\.bootstrap"):
        source_settings({"name": "m", "source.cluster.alias": "A"}, RUNNER)
