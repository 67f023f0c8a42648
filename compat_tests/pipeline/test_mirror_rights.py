"""Two Apache Kafka clusters with ACLs: the rights of docs/mirror-maker.md serve both mirrors.

Our connectors and MirrorMaker 2's log in as the same users, with the least rights that the page
names.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from barnabas.testing.free_ports import free_ports
from compat_tests import jars
from compat_tests.pipeline.connect_workers import JavaWorker
from compat_tests.servers import KafkaProcess, started
from tests.pipeline.mirror.test_maker_rights import (
    CONNECTORS,
    RECORDS,
    Case,
    Nodes,
    run_all,
)
from tests.secured_node import SCRAM_MODULE, SecuredNode, add_users, secured_properties

pytestmark = [
    jars.needed,
    pytest.mark.skipif(
        not any(jars.CONNECTORS.glob("connect-mirror-4*.jar")),
        reason="MirrorMaker 2's jars are missing: run `make compat` with mvn on the PATH",
    ),
    pytest.mark.timeout(600),
    pytest.mark.barnabas_only,
]

PACKAGE = "org.apache.kafka.connect.mirror"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


def secured_kafka() -> tuple[KafkaProcess, SecuredNode]:
    """Return Apache Kafka with a listener for users, and its addresses."""
    (port,) = free_ports(1)
    process = KafkaProcess()
    addresses = (
        f"PLAINTEXT://{process.bootstrap},CONTROLLER://127.0.0.1:{process.controller_port},"
        f"SASL_PLAINTEXT://127.0.0.1:{port}"
    )
    process.properties |= {
        **secured_properties(port),
        "listeners": addresses,
        "advertised.listeners": addresses,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        "SASL_PLAINTEXT:SASL_PLAINTEXT",
    }
    return process, SecuredNode(process.bootstrap, f"127.0.0.1:{port}")


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    (first, source), (second, target) = secured_kafka(), secured_kafka()
    with started(first, second):
        for node in (source, target):
            add_users(node, *CONNECTORS)
        yield source, target


class MirrorWorker(JavaWorker):
    """A worker without transactions of source connectors, as MirrorMaker 2 is by default."""

    plugins = jars.CONNECTORS.parent

    def command(self) -> list[str]:
        found = super().command()
        file = Path(found[-1])
        setting = "exactly.once.source.support="
        file.write_text(file.read_text().replace(f"{setting}enabled", f"{setting}disabled"))
        return found


def of_java(properties: dict[str, str]) -> dict[str, str]:
    """Return properties of clients with the login as Java's clients have it."""
    user, password = properties.pop("sasl.username"), properties.pop("sasl.password")
    login = f'{SCRAM_MODULE} required username="{user}" password="{password}";'
    return {**properties, "sasl.jaas.config": login}


def maker_config(case: Case, connector: str) -> dict[str, str]:
    """Return the configuration of one of MirrorMaker 2's connectors."""
    user = connector, f"{connector}-secret"
    source, target = (of_java(dict(node.properties(*user))) for node in case.nodes)
    factors = ("checkpoints.topic", "heartbeats.topic", "offset-syncs.topic")
    return {
        **{name: each for name, each in case.properties(connector).items() if "sasl" not in name},
        **{f"source.cluster.{name}": each for name, each in source.items()},
        **{f"target.cluster.{name}": each for name, each in target.items()},
        **{f"producer.override.{name}": each for name, each in target.items()},
        "name": f"{case.name}-{connector}",
        "connector.class": f"{PACKAGE}.Mirror{connector.capitalize()}Connector",
        "key.converter": BYTES,
        "value.converter": BYTES,
        "replication.factor": "1",
        **{f"{name}.replication.factor": "1" for name in factors},
        "emit.checkpoints.interval.seconds": "1",
        "sync.group.offsets.interval.seconds": "1",
        "refresh.topics.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
    }


def count(bootstrap: str, topic: str) -> int:
    """Return the number of offsets in the first partition of a topic; 0 when it is missing."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "count"})
    try:
        if topic not in consumer.list_topics(timeout=30).topics:
            return 0
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), 30)
        return high - low
    finally:
        consumer.close()


def test_our_connectors_need_no_other_rights(
    nodes: Nodes, caplog: pytest.LogCaptureFixture
) -> None:
    case = Case(nodes)
    assert run_all(case, CONNECTORS) == ""
    assert "AUTHORIZATION" not in caplog.text
    assert "not copied" not in caplog.text


def test_connectors_of_mirror_maker_need_no_other_rights(nodes: Nodes, tmp_path: Path) -> None:
    case = Case(nodes)
    assert run_all(case, ()) == ""
    worker = MirrorWorker(nodes[1].bootstrap, tmp_path, f"worker-{case.name}")
    remote = f"{case.name}A.{case.topic}"
    target = nodes[1].bootstrap
    admin = AdminClient({"bootstrap.servers": target})

    def is_synced() -> bool:
        wanted = ConsumerGroupTopicPartitions(case.group, [TopicPartition(remote, 0)])
        found = admin.list_consumer_group_offsets([wanted])[case.group].result(60)
        # MirrorMaker 2 translates an offset exactly only where it has read a sync close to it.
        return any(0 < each.offset <= RECORDS for each in found.topic_partitions or ())

    try:
        worker.start()
        for connector in CONNECTORS:
            case.allow(connector, None)
            config = maker_config(case, connector)
            answer = worker.ask("PUT", f"/connectors/{config['name']}/config", config)
            assert answer.status == 201, answer
            worker.wait_states(config["name"], "RUNNING", ["RUNNING"])
        worker.wait(lambda: count(target, remote) == RECORDS)
        worker.wait(lambda: count(target, f"{case.name}A.checkpoints.internal") > 0)
        worker.wait(lambda: count(target, "heartbeats") > 0)
        worker.wait(is_synced)
        assert "AuthorizationException" not in worker.log_file.read_text()
    finally:
        worker.stop()
