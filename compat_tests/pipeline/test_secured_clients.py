"""A copy job, and Spark's format `kafka`, with tokens and a trust store in JKS."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from confluent_kafka import Producer

from barnabas.key_stores.stores import key_of_pem
from barnabas.pipeline.delivery.plan.job_plan import JobKind, JobPlan
from barnabas.pipeline.delivery.plan.kafka_properties import for_spark
from barnabas.pipeline.delivery.plan.task_failures import JobStartError
from compat_tests import spark as setup
from compat_tests.pipeline.conftest import eventually
from compat_tests.pipeline.killed_job import create_topics, read_committed
from compat_tests.property_files import CANARIES, PropertyFiles, property_files

pytestmark = [setup.needed, pytest.mark.barnabas_only, pytest.mark.timeout(300)]
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
VALUES = [b"%d" % number for number in range(20)]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PropertyFiles]:
    with property_files(tmp_path_factory.mktemp("properties")) as found:
        create_topics(found.plain, ["source", "copied-tokens", "copied-token-file", "written"], 1)
        producer = Producer({"bootstrap.servers": found.plain})
        for value in VALUES:
            producer.produce("source", value)
        assert producer.flush(60) == 0
        yield found


def values_of(files: PropertyFiles, topic: str) -> list[bytes]:
    return sorted(message.value() for message in read_committed(files.plain, topic))


@pytest.mark.parametrize("kind", ["tokens", "token_file"])
def test_copy_job_reads_and_writes_with_tokens(
    files: PropertyFiles, engine: Any, kind: str
) -> None:
    client: dict[str, str] = getattr(files, kind)()
    name = f"copied-{kind.replace('_', '-')}"
    plan = JobPlan(
        name,
        1,
        JobKind.COPY,
        client.pop("bootstrap.servers"),
        group_id=name,
        transactional_id=name,
        topics=("source",),
        target_topic=name,
        properties={"key.converter": BYTES, "value.converter": BYTES},
        client_properties=client,
    )
    job = engine.start_job(plan)
    try:
        eventually(lambda: job.progress().written >= len(VALUES), job)
    finally:
        job.stop(10)
    assert values_of(files, name) == sorted(VALUES)
    wrong = {
        **client,
        "sasl.oauthbearer.client.credentials.client.secret": "wrong",
        **({"sasl.oauthbearer.token.endpoint.url": "file:///none"} if "file" in kind else {}),
    }
    reason = r"no token from .*status 401; check sasl|cannot read the token in /none"
    with pytest.raises(JobStartError, match=reason) as refused:
        engine.start_job(attrs.evolve(plan, client_properties=wrong))
    assert not refused.value.failure.is_permanent


def test_spark_reads_and_writes_with_tokens_and_a_trust_store(
    files: PropertyFiles, shared_jvm: Any, tmp_path: Path
) -> None:
    key = key_of_pem((files.directory / "client.pem").read_text(), None)
    own = {"ssl.keystore.key": key.key, "ssl.keystore.certificate.chain": key.chain}
    options = for_spark({**files.tokens(), **own})
    session = shared_jvm.process().session
    rows = session.readStream.format("kafka").options(**options)
    frame = rows.option("subscribe", "source").option("startingOffsets", "earliest").load()
    query = (
        frame.select("value")
        .writeStream.format("kafka")
        .options(**options, topic="written", checkpointLocation=str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(200)
    assert values_of(files, "written") == sorted(VALUES)
    batch = session.read.format("kafka").options(**options, subscribe="source").load()
    assert batch.count() == len(VALUES)
    shown = [query._jsq.explainInternal(True), batch._jdf.queryExecution().toString()]
    shown += [each.read_text(errors="replace") for each in tmp_path.rglob("*") if each.is_file()]
    assert "redacted" in shown[0]
    canaries = (*CANARIES, key.key.splitlines()[1])
    assert [canary for canary in canaries for text in shown if canary in text] == []
