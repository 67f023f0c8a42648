"""Spark's provider of delegation tokens: a query whose executors hold a token, and no password.

Spark asks its provider on YARN and Kubernetes with Kerberos only. The test does what Spark's token
manager does there: it has the provider obtain a token, and sends it to the driver's user and to the
executors, which are separate processes.
"""

from collections.abc import Iterator
from time import sleep
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from barnabas.testing.free_ports import free_ports
from compat_tests import spark as setup
from compat_tests.servers import KINDS
from compat_tests.test_delegation_tokens import SCRAM, described, eventually, expire, properties_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [setup.needed, pytest.mark.timeout(300)]

USER, PASSWORD = "spark", "spark-secret"
MECHANISM = "SCRAM-SHA-512"
REAUTHENTICATION_MS = 2_000
TOPICS = ("in", "out")


class Secured:
    """A server with a plain listener for its administrator, and one with SASL."""

    def __init__(self, plain: str, sasl: str) -> None:
        self.sasl = sasl
        self.plain = {"bootstrap.servers": plain}
        self.admin = AdminClient(self.plain)
        self.read = 0

    def prepare(self) -> None:
        """Make the topics, and let the user of Spark read and write them."""
        made = self.admin.create_topics([NewTopic(name, 1, 1) for name in TOPICS])
        acls = [
            AclBinding(
                kind, name, ResourcePatternType.LITERAL, f"User:{USER}", "*",
                AclOperation.ALL, AclPermissionType.ALLOW,
            )
            for kind, name in [(ResourceType.TOPIC, each) for each in TOPICS]
            + [(ResourceType.GROUP, "*")]
        ]  # fmt: skip
        for future in (*made.values(), *self.admin.create_acls(acls).values()):
            future.result(60)

    def tokens(self) -> dict[str, bytes]:
        """Return the proofs of the user's tokens, by id."""
        return {name: each.hmac for name, each in described(self, USER).items()}

    def remove_token(self, proof: bytes) -> None:
        """Remove a token; the sessions that it began end with their time."""
        assert expire(self, USER, proof)[0] == 0
        eventually(lambda: proof not in self.tokens().values())

    def passes_through(self, value: str) -> None:
        """Write a record to `in`, and read it from `out`."""
        producer = Producer(self.plain)
        producer.produce("in", value.encode())
        assert producer.flush(60) == 0
        consumer = Consumer({**self.plain, "group.id": "unused"})
        try:
            consumer.assign([TopicPartition("out", 0, self.read)])
            found = consumer.consume(1, timeout=120)
            assert [each.value() for each in found] == [value.encode()]
            self.read += 1
        finally:
            consumer.close()


@pytest.fixture(scope="module")
def secured(request: pytest.FixtureRequest) -> Iterator[Secured]:
    if request.config.getoption("--bootstrap"):
        pytest.skip("needs a server with its own listeners")
    process = KINDS[request.config.getoption("--server")]()
    (sasl_port,) = free_ports(1)
    properties = properties_of(process.port, sasl_port, process.controller_port)
    users = properties["listener.name.sasl.plain.sasl.jaas.config"].removesuffix(";")
    properties["listener.name.sasl.plain.sasl.jaas.config"] = f'{users} user_{USER}="{PASSWORD}";'
    properties["connections.max.reauth.ms"] = str(REAUTHENTICATION_MS)
    process.properties.update(properties)
    try:
        process.start()
        server = Secured(process.bootstrap, f"127.0.0.1:{sasl_port}")
        server.prepare()
        yield server
    finally:
        process.close()


@pytest.fixture(scope="module")
def spark(secured: Secured) -> "Iterator[SparkSession]":
    plain_login = SCRAM.replace("scram.ScramLoginModule", "plain.PlainLoginModule")
    cluster = "spark.kafka.clusters.main"
    properties = {
        "spark.master": "local-cluster[1,1,1024]",
        "spark.jars.packages": setup.CONNECTOR,
        "spark.ui.enabled": "false",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": setup.JVM_OPTIONS,
        "spark.sql.shuffle.partitions": "1",
        f"{cluster}.auth.bootstrap.servers": secured.sasl,
        f"{cluster}.security.protocol": "SASL_PLAINTEXT",
        f"{cluster}.sasl.token.mechanism": MECHANISM,
        f"{cluster}.kafka.sasl.mechanism": "PLAIN",
        f"{cluster}.kafka.sasl.jaas.config": (
            f'{plain_login} username="{USER}" password="{PASSWORD}";'
        ),
    }
    with setup.session(properties) as session:
        yield session


def give_token(spark: "SparkSession") -> None:
    """Have Spark's provider obtain a token; pass it to the driver and to the executors."""
    context: Any = spark.sparkContext
    jvm, inside = context._jvm, context._jsc.sc()
    credentials = jvm.org.apache.hadoop.security.Credentials()
    provider = jvm.org.apache.spark.kafka010.KafkaDelegationTokenProvider()
    renewal = provider.obtainDelegationTokens(
        context._jsc.hadoopConfiguration(), inside.conf(), credentials
    )
    assert renewal.isDefined(), "Spark's provider obtained no token"
    jvm.org.apache.hadoop.security.UserGroupInformation.getCurrentUser().addCredentials(credentials)
    serialized = jvm.org.apache.spark.deploy.SparkHadoopUtil.get().serialize(credentials)
    messages = jvm.org.apache.spark.scheduler.cluster.CoarseGrainedClusterMessages
    inside.schedulerBackend().driverEndpoint().send(messages.UpdateDelegationTokens(serialized))


def test_query_runs_on_when_its_token_is_replaced(
    secured: Secured, spark: "SparkSession", tmp_path: "Path"
) -> None:
    give_token(spark)
    eventually(secured.tokens)  # Apache Kafka answers before the broker has applied it
    (first,) = secured.tokens().values()
    options = {
        "kafka.bootstrap.servers": secured.sasl,
        "kafka.security.protocol": "SASL_PLAINTEXT",
    }
    rows = (
        spark.readStream.format("kafka")
        .options(**options, subscribe="in", startingOffsets="earliest")
        .load()
    )
    query = (
        rows.select("value")
        .writeStream.format("kafka")
        .options(**options, topic="out", checkpointLocation=str(tmp_path))
        .start()
    )
    try:
        secured.passes_through("with the first token")
        give_token(spark)
        secured.remove_token(first)
        sleep(3 * REAUTHENTICATION_MS / 1000)  # no connection of the first token is left
        secured.passes_through("with the second token")
        assert query.exception() is None
    finally:
        query.stop()
