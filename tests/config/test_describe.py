"""Our answers to DescribeConfigs against those that Apache Kafka 4.3.0 gave.

tests/data/describe-configs-4.3.0.json holds, for each resource, what Kafka's AdminClient saw of
a broker with log.retention.hours=100 and log.roll.hours=50 in its file: before and after
log.retention.ms was altered on both levels, min.insync.replicas on the cluster's.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from barnabas.config import NodeConfig, Source, TopicConfig, Type
from barnabas.config.config_description import (
    ConfigEntry,
    describe_broker,
    describe_broker_defaults,
    describe_client_metrics,
    describe_group,
    describe_topic,
)

DATA = Path(__file__).parents[1] / "data" / "describe-configs-4.3.0.json"
KAFKA: dict[str, dict[str, Any]] = json.loads(DATA.read_text())

STATIC = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "localhost:19093",
    "listeners": "PLAINTEXT://127.0.0.1:19092,CONTROLLER://127.0.0.1:19093",
    "controller.listener.names": "CONTROLLER",
    "log.dirs": "data",
    "offsets.topic.replication.factor": "1",
    "log.retention.hours": "100",
    "log.roll.hours": "50",
    "ssl.key.password": "hunter2",
}
# Kafka's controller sets min.insync.replicas for the cluster when it finalizes ELR (KIP-966),
# and a broker accepts names that it does not know.
BEFORE = NodeConfig(
    STATIC, cluster_dynamic={"min.insync.replicas": "1"}, broker_dynamic={"foo": "3"}
)
AFTER = BEFORE.with_dynamic(
    {"min.insync.replicas": "2", "log.retention.ms": "2000"},
    {"foo": "3", "log.retention.ms": "1000", "max.connections": "500"},
)
TOPIC = {"retention.bytes": "77", "cleanup.policy": "compact"}


def shown(entries: Sequence[ConfigEntry]) -> dict[str, list[Any]]:
    return {
        entry.name: [
            entry.value,
            entry.source.name,
            entry.read_only,
            entry.sensitive,
            Type(entry.type).name if entry.type else "UNKNOWN",
            [[s.name, s.value, s.source.name] for s in entry.synonyms],
        ]
        for entry in entries
    }


@pytest.mark.parametrize(("node", "key"), [(BEFORE, "topic"), (AFTER, "topic_dynamic")])
def test_topic_description_equals_kafkas(node: NodeConfig, key: str) -> None:
    assert shown(describe_topic(TopicConfig(node, TOPIC), node)) == KAFKA[key]


def test_property_that_kafka_lacks_is_described_where_it_is_set_or_requested() -> None:
    name = "barnabas.mirror.source"
    mirror = TopicConfig(BEFORE, {name: "flow"})
    assert shown(describe_topic(mirror, BEFORE))[name][0] == "flow"
    assert name in shown(describe_topic(TopicConfig(BEFORE, {}), BEFORE, [name]))


@pytest.mark.parametrize(("node", "key"), [(BEFORE, "broker"), (AFTER, "broker_dynamic")])
def test_broker_description_equals_kafkas(node: NodeConfig, key: str) -> None:
    ours, kafkas = shown(describe_broker(node)), dict(KAFKA[key])
    ours = {name: said for name, said in ours.items() if not name.startswith("barnabas.")}
    if node is AFTER:
        # Kafka forgets log.retention.hours once log.retention.ms is set; the file still has it.
        assert kafkas.pop("log.retention.hours")[0] == "168"
        assert ours.pop("log.retention.hours")[0] == "100"
    assert ours == kafkas


@pytest.mark.parametrize(("node", "key"), [(BEFORE, "default"), (AFTER, "default_dynamic")])
def test_cluster_default_description_equals_kafkas(node: NodeConfig, key: str) -> None:
    assert shown(describe_broker_defaults(node)) == KAFKA[key]


@pytest.mark.parametrize(
    ("overrides", "key"),
    [({}, "group"), ({"consumer.session.timeout.ms": "50000"}, "group_dynamic")],
)
def test_group_description_equals_kafkas(overrides: dict[str, str], key: str) -> None:
    assert shown(describe_group(overrides, BEFORE)) == KAFKA[key]


def test_metrics_subscription_description_equals_kafkas() -> None:
    assert shown(describe_client_metrics({"interval.ms": "5000"})) == KAFKA["client_metrics"]


def test_only_requested_names_are_described() -> None:
    topic = TopicConfig(BEFORE, TOPIC)
    names = [entry.name for entry in describe_topic(topic, BEFORE, ["retention.ms", "nonsense"])]
    assert names == ["retention.ms"]


def test_secret_is_not_in_a_description() -> None:
    assert "hunter2" not in repr(describe_broker(BEFORE))


def test_property_of_the_authorizer_has_no_default() -> None:
    node = NodeConfig({**STATIC, "super.users": "User:admin"})
    entries = shown(describe_broker(node))
    static = [["super.users", None, "STATIC_BROKER_CONFIG"]]
    assert entries["super.users"] == [None, "STATIC_BROKER_CONFIG", True, True, "UNKNOWN", static]
    assert "allow.everyone.if.no.acl.found" not in entries


def test_property_of_one_listener_is_read_only_as_in_kafka() -> None:
    name = "listener.name.plaintext.max.connections"
    node = BEFORE.with_dynamic({}, {name: "5"})
    read_only = {entry.name: entry.read_only for entry in describe_broker(node)}
    assert (read_only[name], read_only["max.connections"]) == (True, False)


def test_value_from_the_file_has_the_static_source() -> None:
    node = NodeConfig({**STATIC, "log.segment.bytes": "2000000"})
    (entry,) = describe_topic(TopicConfig(node), node, ["segment.bytes"])
    assert (entry.value, entry.source) == ("2000000", Source.STATIC_BROKER_CONFIG)
    assert [s.name for s in entry.synonyms] == ["log.segment.bytes", "log.segment.bytes"]


@pytest.mark.parametrize("names", [None, ["segment.ms", "compression.type", "retention.ms"]])
def test_described_properties_are_sorted_by_name(names: list[str] | None) -> None:
    node = NodeConfig({**STATIC, "unknown.property": "1"})
    topic = TopicConfig(node, {"retention.ms": "5"})
    described = [describe_topic(topic, node, names)]
    if names is None:
        described += [describe_broker(node), describe_group({}, node), describe_client_metrics({})]
    for entries in described:
        found = [entry.name for entry in entries]
        assert found
        assert found == sorted(found)
