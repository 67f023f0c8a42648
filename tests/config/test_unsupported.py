"""Properties without effect: refused, warned about, and marked in descriptions."""

from pathlib import Path

import pytest

from barnabas.config import BROKER_PROPERTIES, ConfigError, NodeConfig
from barnabas.config.config_alteration import validate_broker_changes
from barnabas.config.config_description import describe_broker
from barnabas.config.node_config import SINGLE_NODE
from barnabas.config.properties.replication_properties import DYNAMIC_ONLY

NODE = NodeConfig.load()
MODULE = "com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true;"
KERBEROS = NodeConfig.read(None, {"listener.name.plaintext.gssapi.sasl.jaas.config": MODULE})

PROMISES = [
    ("sasl.login.class", "org.example.Login"),
    ("listener.name.plaintext.plain.sasl.login.class", "org.example.Login"),
    ("ssl.engine.factory.class", "org.example.Engine"),
    ("principal.builder.class", "org.example.Principals"),
    ("metric.reporters", "org.example.Reporter"),
    ("create.topic.policy.class.name", "org.example.Policy"),
    ("alter.config.policy.class.name", "org.example.Policy"),
    ("client.quota.callback.class", "org.example.Quotas"),
    ("remote.log.storage.system.enable", "true"),
]


@pytest.mark.parametrize(("name", "value"), PROMISES)
def test_property_that_promises_protection_or_storage_stops_the_start(
    name: str, value: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        NodeConfig.load(None, {name: value})
    assert refused.value.name == name
    assert f"configuration {name}: barnabas" in refused.value.message
    assert "remove the property" in refused.value.message
    assert "\n" not in refused.value.message


def test_replica_selector_of_another_class_stops_the_start() -> None:
    with pytest.raises(ConfigError, match="RackAwareReplicaSelector"):
        NodeConfig.load(None, {"replica.selector.class": "org.example.Selector"})


def test_secret_is_hidden_when_it_stops_the_start() -> None:
    with pytest.raises(ConfigError) as refused:
        NodeConfig.load(None, {"sasl.oauthbearer.assertion.private.key.passphrase": "hunter2"})
    assert "hunter2" not in refused.value.message


@pytest.mark.parametrize(
    "value", [row.default_text for row in BROKER_PROPERTIES.values() if row.name == "ssl.protocol"]
)
def test_default_of_an_unsupported_property_does_not_stop_the_start(value: str) -> None:
    assert NodeConfig.load(None, {"ssl.protocol": value}).warnings == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("controller.quorum.voters", "1@a:9093,2@b:9093,3@c:9093"),
        ("controller.quorum.bootstrap.servers", "a:9093,b:9093,c:9093"),
        ("controller.quorum.bootstrap.servers", "127.0.0.1:19093"),
    ],
)
def test_node_with_other_controllers_is_not_a_single_node(name: str, value: str) -> None:
    assert not NodeConfig.load(None, {name: value}).is_single_node


CLIENTS, QUORUM = "PLAINTEXT://127.0.0.1:9092", "CONTROLLER://127.0.0.1:9093"


@pytest.mark.parametrize(
    ("roles", "listeners", "voters", "name"),
    [
        ("broker", f"{CLIENTS},{QUORUM}", "2@a:9093", "listeners"),
        ("controller", f"{CLIENTS},{QUORUM}", "1@a:9093", "listeners"),
        ("broker", CLIENTS, "1@a:9093", "controller.quorum.voters"),
        ("controller", QUORUM, "2@a:9093", "controller.quorum.voters"),
        ("broker", CLIENTS, "", "controller.quorum.bootstrap.servers"),
    ],
)
def test_roles_that_do_not_fit_listeners_or_voters_are_refused(
    roles: str, listeners: str, voters: str, name: str
) -> None:
    values = {"process.roles": roles, "listeners": listeners, "controller.quorum.voters": voters}
    with pytest.raises(ConfigError) as refused:
        NodeConfig.load(None, values)
    assert refused.value.name == name


def test_broker_alone_is_accepted_with_a_quorum_elsewhere() -> None:
    values = {"process.roles": "broker", "listeners": CLIENTS}
    config = NodeConfig.load(None, {**values, "controller.quorum.bootstrap.servers": "a:9093"})
    assert not config.is_controller
    assert not config.is_single_node


def test_quorum_of_this_node_alone_is_accepted() -> None:
    config = NodeConfig.load(
        None,
        {
            "controller.quorum.voters": "1@localhost:9093",
            "controller.quorum.bootstrap.servers": "localhost:9093",
        },
    )
    assert config.is_single_node


def test_property_without_effect_is_one_warning_line() -> None:
    config = NodeConfig.load(None, {"num.io.threads": "16", "log.retention.hours": "1"})
    assert config.warnings == ("num.io.threads=16 has no effect in barnabas",)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sasl.enabled.mechanisms", "PLAIN"),
        ("sasl.jaas.config", "Module required;"),
        ("connections.max.reauth.ms", "60000"),
        ("listener.name.plaintext.sasl.enabled.mechanisms", "SCRAM-SHA-256"),
        ("listener.name.plaintext.plain.sasl.jaas.config", "Module required;"),
    ],
)
def test_property_of_sasl_without_a_listener_with_sasl_is_one_warning_line(
    name: str, value: str
) -> None:
    (line,) = NodeConfig.load(None, {name: value}).warnings
    assert line == f"{name} has no effect: no listener that it belongs to has SASL"


def test_property_of_sasl_of_a_listener_with_sasl_has_no_warning() -> None:
    config = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:9094,CONTROLLER://127.0.0.1:9093",
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": "Module required;",
        "listener.name.sasl_plaintext.plain.connections.max.reauth.ms": "5",
    }
    assert NodeConfig.load(None, config).warnings == ()


def test_properties_of_the_controllers_listener_are_read_by_a_broker() -> None:
    config = {
        "process.roles": "broker",
        "listeners": "PLAINTEXT://127.0.0.1:9092",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_SSL",
        "controller.quorum.bootstrap.servers": "a:9093",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": "Module required;",
        "listener.name.controller.ssl.truststore.location": "trust.pem",
        "ssl.truststore.type": "PEM",
    }
    assert NodeConfig.load(None, config).warnings == ()


def test_property_of_one_listener_is_one_warning_line() -> None:
    (line,) = NodeConfig.load(None, {"listener.name.plaintext.num.network.threads": "5"}).warnings
    assert line.startswith("listener.name.plaintext.num.network.threads has no effect")


def test_kafkas_own_single_node_file_starts_without_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    lines = [f"{name}={value}" for name, value in SINGLE_NODE.items()]
    lines += [
        "controller.quorum.bootstrap.servers=localhost:9093",
        "advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        "num.network.threads=3",
        "num.io.threads=8",
        "socket.send.buffer.bytes=102400",
        "num.recovery.threads.per.data.dir=2",
        "log.retention.hours=168",
    ]
    file.write_text("\n".join(lines))
    assert NodeConfig.load(file).warnings == ()


@pytest.mark.parametrize(
    "name",
    sorted(row.name for row in BROKER_PROPERTIES.values() if row.needs_restart),
)
def test_property_that_needs_a_restart_cannot_be_changed(name: str) -> None:
    row = BROKER_PROPERTIES[name]
    value = row.default_text or ""
    if name == "listeners":
        value = SINGLE_NODE[name]
    elif name == "listener.security.protocol.map":
        value += ",CONTROLLER:PLAINTEXT"
    with pytest.raises(ConfigError, match="restart"):
        validate_broker_changes({name: value}, KERBEROS, cluster_default=False)


def test_times_of_kerberos_can_be_changed_on_a_node_without_it() -> None:
    """librdkafka's tests set one on a node of any kind (0081, AlterConfigs)."""
    times = ("ticket.renew.window.factor", "ticket.renew.jitter", "min.time.before.relogin")
    changes = {f"sasl.kerberos.{each}": "1" for each in times}
    validate_broker_changes(dict(changes), NODE, cluster_default=False)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("listener.name.ssl.ssl.client.auth", "required"),
        ("listener.name.plaintext.num.network.threads", "5"),
        ("sasl.enabled.mechanisms", "PLAIN"),
    ],
)
def test_unsupported_property_cannot_be_changed(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"Cannot update configuration {name} dynamically"):
        validate_broker_changes({name: value}, NODE, cluster_default=False)


def test_hint_without_effect_can_be_changed() -> None:
    """Kafka's tools set thread counts and throttled rates; one node has nothing to throttle."""
    throttles = {row.name: "1000" for row in DYNAMIC_ONLY}
    validate_broker_changes({"num.io.threads": "16", **throttles}, NODE, cluster_default=False)


def test_description_says_that_a_property_has_no_effect() -> None:
    notes = {entry.name: entry.documentation for entry in describe_broker(NODE)}
    assert notes["num.io.threads"].endswith("Accepted without effect.")
    assert notes["config.providers"].endswith("A change is applied at start-up only.")
    assert notes["ssl.protocol"].endswith("Accepted without effect.")
    assert notes["security.inter.broker.protocol"].endswith(
        "without further effect on a single node."
    )
    assert notes["listeners"].endswith("A change is applied at start-up only.")
    assert "effect" not in notes["log.segment.bytes"]


def test_property_that_has_an_effect_is_not_marked_otherwise() -> None:
    for row in BROKER_PROPERTIES.values():
        assert not (row.has_effect and (row.unsupported or row.is_checked)), row.name
        assert not row.needs_restart or (row.has_effect and row.dynamic.value != "read-only")
