"""A node's configuration from a file and overrides; its listeners."""

from pathlib import Path
from typing import Any

import pytest

from barnabas.config import ConfigError, Listener, NodeConfig

MINIMAL = "process.roles=broker,controller\nnode.id=5\ncontroller.listener.names=CONTROLLER\n"
BOTH = "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"


def from_file(tmp_path: Path, text: str, **overrides: str) -> NodeConfig:
    file = tmp_path / "server.properties"
    file.write_text(text)
    return NodeConfig.load(file, {name.replace("_", "."): v for name, v in overrides.items()})


def refusal(**properties: str) -> str:
    overrides = {name.replace("_", "."): text for name, text in properties.items()}
    with pytest.raises(ConfigError) as refused:
        NodeConfig.load(None, overrides)
    return refused.value.message


def test_configuration_without_a_file_is_a_single_node() -> None:
    config = NodeConfig.load()
    assert (config.node_id, config.is_broker, config.is_controller) == (1, True, True)
    assert config.listeners == (
        Listener("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT"),
        Listener("CONTROLLER", "127.0.0.1", 9093, "PLAINTEXT"),
    )
    assert config.get("offsets.topic.replication.factor") == 1
    assert config.get("group.initial.rebalance.delay.ms") == 0
    assert config.get("transaction.state.log.min.isr") == 1


def test_configuration_with_a_file_has_kafkas_defaults(tmp_path: Path) -> None:
    config = from_file(tmp_path, f"{MINIMAL}listeners={BOTH}\n")
    assert config.node_id == 5
    assert config.get("broker.id") == 5
    assert config.get("offsets.topic.replication.factor") == 3
    assert config.get("group.initial.rebalance.delay.ms") == 3000
    assert config.log_dirs == (Path("/tmp/kafka-logs"),)


def test_override_wins_over_the_file(tmp_path: Path) -> None:
    text = f"{MINIMAL}listeners={BOTH}\nnum.partitions=3\n"
    assert from_file(tmp_path, text, num_partitions="7").get("num.partitions") == 7


def test_unknown_property_in_a_file_is_a_warning(tmp_path: Path) -> None:
    config = from_file(tmp_path, f"{MINIMAL}listeners={BOTH}\nnum.partition=3\nrsm.config.x=1\n")
    (line,) = config.warnings
    assert line.endswith(
        "There is no property num.partition. Did you mean num.partitions? It is ignored."
    )


def test_unknown_override_is_an_error() -> None:
    assert refusal(log_retention_hour="1") == (
        "There is no property log.retention.hour. Did you mean log.retention.hours?"
    )


@pytest.mark.parametrize(("value", "text"), [(3, "'3'"), (False, "'false'")])
def test_override_of_another_type_is_an_error_with_the_string(value: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=f"num.partitions is {value}: give a string, as {text}"):
        NodeConfig.load(None, {"num.partitions": value})


def test_missing_required_property_is_an_error(tmp_path: Path) -> None:
    for missing in ("process.roles", "node.id", "controller.listener.names"):
        lines = [line for line in MINIMAL.splitlines() if not line.startswith(missing)]
        with pytest.raises(ConfigError, match=f"Missing required configuration {missing}"):
            from_file(tmp_path, "\n".join([*lines, f"listeners={BOTH}"]))


def test_broker_id_replaces_node_id_and_must_not_differ(tmp_path: Path) -> None:
    text = f"{MINIMAL}listeners={BOTH}\n"
    assert from_file(tmp_path, text.replace("node.id", "broker.id")).node_id == 5
    with pytest.raises(ConfigError, match=r"broker\.id.*node\.id, which is 5"):
        from_file(tmp_path, text, broker_id="6")


def test_log_dirs_may_be_several() -> None:
    config = NodeConfig.load(None, {"log.dirs": "a, b"})
    assert config.log_dirs == (Path("a"), Path("b"))
    assert config.metadata_log_dir == Path("a")


def test_typed_access_to_another_type_raises() -> None:
    config = NodeConfig.load()
    assert config.get_int("num.partitions") == 1
    assert config.get_bool("auto.create.topics.enable") is True
    assert config.get_str("compression.type") == "producer"
    with pytest.raises(TypeError, match=r"num\.partitions"):
        config.get_bool("num.partitions")
    with pytest.raises(KeyError):
        config.get("no.such.property")


def test_broker_value_wins_over_cluster_and_file() -> None:
    config = NodeConfig.load(None, {"log.segment.bytes": "2000000"})
    both = config.with_dynamic(
        {"log.segment.bytes": "3000000", "log.retention.ms": "5"}, {"log.segment.bytes": "4000000"}
    )
    assert both.get("log.segment.bytes") == 4000000
    assert both.get("log.retention.ms") == 5
    assert config.get("log.segment.bytes") == 2000000


class TestListeners:
    """`listeners`, `advertised.listeners` and the names of listeners."""

    @pytest.fixture(autouse=True)
    def resolver(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("barnabas.config.node_config._host_name", lambda: "castle.example")
        monkeypatch.setattr("barnabas.config.node_config._addresses", lambda _: ["192.0.2.7"])

    @pytest.mark.parametrize("addresses", [[], ["127.0.0.1", "::1"], ["127.0.1.1"]])
    def test_wildcard_listener_is_refused_when_the_host_name_is_local(
        self, addresses: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("barnabas.config.node_config._addresses", lambda _: addresses)
        listeners = "PLAINTEXT://0.0.0.0:9092,CONTROLLER://127.0.0.1:9093"
        says = refusal(listeners=listeners)
        assert "set advertised.listeners, as PLAINTEXT://kafka.example.org:9092" in says
        assert "castle.example does not resolve" in says
        NodeConfig.load(
            None, {"listeners": listeners, "advertised.listeners": "PLAINTEXT://127.0.0.1:9092"}
        )

    def test_port_0_may_be_used_twice(self) -> None:
        listeners = "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"
        assert [x.port for x in NodeConfig.load(None, {"listeners": listeners}).listeners] == [0, 0]

    def test_ipv4_and_ipv6_listeners_may_share_a_port(self) -> None:
        config = NodeConfig.load(
            None,
            {
                "listeners": "PLAINTEXT://127.0.0.1:9092,V6://[::1]:9092,CONTROLLER://:9093",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,V6:PLAINTEXT,"
                "CONTROLLER:PLAINTEXT",
            },
        )
        assert str(config.listeners[1]) == "V6://[::1]:9092"

    @pytest.mark.parametrize("host", ["", "0.0.0.0", "[::]"])
    def test_wildcard_listener_is_advertised_under_the_host_name(self, host: str) -> None:
        config = NodeConfig.load(
            None, {"listeners": f"PLAINTEXT://{host}:9092,CONTROLLER://127.0.0.1:9093"}
        )
        assert [str(x) for x in config.advertised_listeners] == ["PLAINTEXT://castle.example:9092"]

    def test_advertised_listeners_are_advertised_as_given(self) -> None:
        config = NodeConfig.load(
            None,
            {
                "listeners": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://127.0.0.1:9093",
                "advertised.listeners": "plaintext://kafka.example.org:19092",
            },
        )
        assert [str(x) for x in config.advertised_listeners] == [
            "PLAINTEXT://kafka.example.org:19092"
        ]
        assert [str(x) for x in config.advertised_controller_listeners] == [
            "CONTROLLER://127.0.0.1:9093"
        ]

    @pytest.mark.parametrize(
        ("properties", "says"),
        [
            ({"listeners": "PLAINTEXT"}, "NAME://host:port"),
            ({"listeners": "PLAINTEXT://a:99999"}, "port from 0 to 65535"),
            ({"listeners": "PLAINTEXT://::1:9092"}, "NAME://host:port"),
            ({"listeners": "PLAINTEXT://.kafka:9092"}, ".kafka is not a host name"),
            ({"listeners": f"PLAINTEXT://{'k' * 64}:9092"}, "must have 1 to 63 characters"),
            ({"listeners": "FOO://:9092,CONTROLLER://:9093"}, "FOO has no security protocol"),
            ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "PLAINTEXT is in the list twice"),
            ({"listeners": "PLAINTEXT://:1,CONTROLLER://:1"}, "port 1 is in the list twice"),
            ({"listeners": "PLAINTEXT://:9092"}, "a controller needs a listener named CONTROLLER"),
            (
                {"listeners": "CONTROLLER://:9093"},
                "a broker needs a listener in addition to CONTROLLER",
            ),
            ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "not a wildcard"),
            ({"advertised.listeners": "SSL://a:9092"}, "there is no listener SSL"),
            ({"inter.broker.listener.name": "OTHER"}, "one of: PLAINTEXT"),
            ({"listener.security.protocol.map": "PLAINTEXT:NONE"}, "NAME:PROTOCOL"),
            ({"controller.quorum.voters": "2@localhost:9093"}, "must be among the voters [2]"),
        ],
    )
    def test_listeners_that_cannot_work_are_refused_in_one_line(
        self, properties: dict[str, str], says: str
    ) -> None:
        with pytest.raises(ConfigError) as refused:
            NodeConfig.load(None, properties)
        assert says in refused.value.message
        assert "\n" not in refused.value.message


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("magic", "magic is not an assignor; give uniform, range or module:Class"),
        ("uniform, org.example.Mine", "org.example.Mine is not an assignor"),
        ("mine:", "mine: is not an assignor"),
        ("a b:C", "a b:C is not an assignor"),
        (
            "uniform,org.apache.kafka.coordinator.group.assignor.UniformAssignor",
            "uniform is in the list twice",
        ),
        ("", "it must not be empty"),
    ],
)
def test_unknown_assignor_is_refused_with_the_known_ones(given: str, reason: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        NodeConfig.load(None, {"group.consumer.assignors": given})
    assert refusal.value.name == "group.consumer.assignors"
    assert reason in refusal.value.message
    assert given in refusal.value.message


def test_assignors_go_by_name_kafkas_class_or_import_path() -> None:
    kafkas = "org.apache.kafka.coordinator.group.assignor.RangeAssignor"
    names = f"{kafkas},uniform,mine.assignors:ByRack"
    config = NodeConfig.load(None, {"group.consumer.assignors": names})
    assert config["group.consumer.assignors"] == (kafkas, "uniform", "mine.assignors:ByRack")


@pytest.mark.parametrize(
    "name",
    ["log.retention.ms", "log.retention.minutes", "log.retention.hours", "log.roll.ms"],
)
def test_value_that_would_delete_every_record_is_refused_at_the_start(name: str) -> None:
    with pytest.raises(ConfigError, match=f"0 for configuration {name}: it must be "):
        NodeConfig.load(None, {name: "0"})


def test_too_little_memory_for_the_cleaners_is_refused_at_the_start() -> None:
    name = "log.cleaner.dedupe.buffer.size"
    with pytest.raises(ConfigError, match=f"5 for configuration {name}: it must be above 1048576"):
        NodeConfig.load(None, {name: "5"})
    NodeConfig.load(None, {name: "5", "log.cleaner.threads": "0"})


def test_limit_that_lets_no_client_connect_is_refused_at_the_start() -> None:
    with pytest.raises(ConfigError, match=r"max\.connections\.per\.ip\.overrides must name"):
        NodeConfig.load(None, {"max.connections.per.ip": "0"})
