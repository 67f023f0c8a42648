"""docs/security.md, followed to the letter: its commands and examples, with other ports only."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from barnabas.config import properties_file
from barnabas.testing.free_ports import free_group_port, free_ports
from compat_tests import jars, spark
from compat_tests.page_reader import Page, Reader, new_reader

PAGE = Page.of("security.md")

pytestmark = [jars.needed, pytest.mark.barnabas_only]


SECURED = PAGE.section("A secured node with one option")


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    names = ("9092", "9093", "9094", "8081", "8083")
    found = new_reader(
        PAGE, tmp_path_factory.mktemp("page"), dict(zip(names, free_ports(len(names)), strict=True))
    )
    alice = found.directory / "alice.properties"
    alice.write_text(PAGE.block("properties", "security.protocol=SASL_SSL"))
    yield found
    found.stop()


@pytest.fixture(scope="module")
def alice(reader: Reader) -> Reader:
    """The secured node of the page with its user alice, who has written a record."""
    install, serve, create, users, acls = SECURED.commands[:5]
    assert install == "pip install '.[tls]'"
    reader.run(serve)
    assert reader.password
    reader.run(create)
    assert "Completed updating config for user alice" in reader.run(users)
    assert "User:alice" in reader.run(acls)
    assert reader.run_python("confluent-kafka") == "one castle\n"
    return reader


def test_user_of_a_secured_node_writes_and_reads_with_javas_tools(alice: Reader) -> None:
    produce, consume = SECURED.commands[5:7]
    alice.run(produce)
    assert "another castle\n" in alice.run(consume)
    assert "GroupAuthorizationException" in alice.run(consume.replace("readers", "others"))


@spark.needed
def test_user_of_a_secured_node_reads_with_spark(alice: Reader) -> None:
    assert int(alice.run_python("spark").split("\n")[0]) >= 1


@spark.needed
def test_companions_of_a_secured_node_serve_its_users(alice: Reader) -> None:
    companions, write, register, schemas, jobs = SECURED.commands[7:]
    alice.run(companions)
    alice.run(write)
    assert alice.run(register) == "orders-value version 1 id 1\n"
    assert "orders-value" in alice.run(schemas)
    assert alice.run(jobs).count("\n") == 1
    refused = alice.fails(register.replace("orders-value", "payments-value"))
    assert "User is denied operation Write on Subject: payments-value" in refused
    job = {"connector.class": "FileStreamSource", "file": "secured/admin.conf", "topic": "orders"}
    (alice.directory / "job.json").write_text(json.dumps({"name": "j", "config": job}))
    create = jobs.replace("job list", "job create job.json")
    assert "User alice is a read-only user" in alice.fails(create)


def test_several_secured_nodes_serve_confluent_kafka_and_javas_tools(tmp_path: Path) -> None:
    serve, create, describe = PAGE.section("Several secured nodes with one option").commands
    port = free_group_port(3)
    group = new_reader(PAGE, tmp_path, {"9092": port, "9093": port + 1})
    try:
        group.run(serve)
        group.run(create)
        described = group.run(describe)
        assert "PartitionCount: 3\tReplicationFactor: 3" in described
        settings = properties_file.read(tmp_path / "secured/admin.conf")
        producer = Producer({**settings, "acks": "all"})
        refused: list[object] = []
        for partition in range(3):
            producer.produce(
                "payments",
                b"a castle",
                partition=partition,
                callback=lambda error, _: refused.append(error) if error else None,
            )
        assert producer.flush(60) == 0
        assert refused == []
    finally:
        group.stop()


def test_certificates_of_certs_and_of_keytool_open_the_listener(reader: Reader) -> None:
    made, serve, read, keytool, export, serve_store, read_store = PAGE.section("TLS").commands[:7]
    assert "certs/alice.pem" in reader.run(made)
    reader.run(serve)
    assert "TOPIC" in reader.run(read)
    reader.run(keytool)
    reader.run(export)
    reader.run(serve_store)
    assert "TOPIC" in reader.run(read_store)
