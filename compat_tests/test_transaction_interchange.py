"""Transactions across servers: one begins on barnabas and ends on Apache Kafka, and the reverse.

Both serve one data directory alternately: each continues the transactions of the other's
coordinator.
"""

import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.testing import Node
from compat_tests import jars
from compat_tests.servers import KafkaProcess
from tests.server.coordinators.transaction_transcript import Transcript

pytestmark = [
    jars.needed,
    pytest.mark.barnabas_only,
]

SMALL = {"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3"}
KAFKA = {
    **SMALL,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
}


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[KafkaProcess]:
    """Return Apache Kafka on a directory that survives it, not started."""
    process = KafkaProcess(KAFKA)
    process.data = tmp_path / "data"
    yield process
    process.close()


def barnabas(kafka: KafkaProcess) -> Node:
    addresses = f"PLAINTEXT://{kafka.bootstrap},CONTROLLER://127.0.0.1:{kafka.controller_port}"
    return Node(kafka.data, {"listeners": addresses, **SMALL})


def asks(
    bootstrap: str, before: Transcript | None = None, *, run_id: str | None = None
) -> Transcript:
    """Queries to a server, with the names from earlier queries."""
    made = Transcript(bootstrap)
    if run_id is not None:
        made.run_id, made.topic = run_id, f"txn-{run_id}"
    if before is None:
        made.prepare()
    else:
        before.main.close()
        made.run_id, made.topic = before.run_id, before.topic
        made.until(lambda: made.describe("open1").transaction_states[0].error_code == 0)
        made.until(lambda: made.end_offset(0) >= 0)
    return made


def begin(client: Transcript) -> dict[str, tuple[int, int]]:
    """Leave transactions of both versions open, and offsets in one."""
    producers = {name: client.start(name) for name in ("open1", "open2", "offsets", "done")}
    client.add("open1", producers["open1"], [0])
    written = client.produce("open1", producers["open1"], 0, b"a", partition=0, version=9)
    assert not written.error_code
    written = client.produce("open2", producers["open2"], 0, b"b", partition=1, version=12)
    assert not written.error_code
    group = client.id("group")
    name, producer = "offsets", producers["offsets"]
    committed = client.commit_offsets(name, producer, group, 5, 5)
    assert offset_codes(committed) == [0, 3]
    client.produce("done", producers["done"], 0, b"c", partition=2, version=12)
    client.end("done", producers["done"], commit=False, version=5)
    assert stable_offset(client, group) == (88, -1)
    return producers


def offset_codes(response: Any) -> list[int]:
    (topic,) = [each for each in response.topics if each.name != "nosuch"]
    return [each.error_code for each in topic.partitions]


def stable_offset(client: Transcript, group: str) -> tuple[int, int]:
    (answer,) = client.fetch_offsets(group, stable=True).groups[0].topics[0].partitions
    return answer.error_code, answer.committed_offset


def go_on(client: Transcript, producers: dict[str, tuple[int, int]]) -> None:
    """End the transactions that the other server began."""
    group = client.id("group")
    client.until(lambda: stable_offset(client, group)[0] == 88)
    for name in ("open1", "open2", "offsets"):
        assert client.describe(name).transaction_states[0].transaction_state == "Ongoing"
    assert [client.end_offset(1, level) for level in (0, 1)] == [1, 0]
    written = client.produce("open2", producers["open2"], 1, b"b", partition=1, version=12)
    assert not written.error_code
    assert not client.end("open2", producers["open2"], version=5).error_code
    assert not client.end("offsets", producers["offsets"], version=5).error_code
    client.until(lambda: stable_offset(client, group) == (0, 5))
    client.until(lambda: client.end_offset(1, 1) == 3)
    # Another instance ends the transaction of the first version.
    client.init("open1")
    client.settle("open1")
    assert client.init("open1").producer_epoch == 2
    client.until(lambda: client.end_offset(0, 1) == 2)
    # The outcome is known on this server too: the retry of an EndTxn gets the same response.
    repeated = client.end("done", producers["done"], commit=False, version=5)
    assert (repeated.error_code, repeated.producer_epoch) == (0, 1)


def test_kafka_continues_transactions_of_barnabas(kafka) -> None:
    with barnabas(kafka) as node:
        client = asks(node.bootstrap)
        producers = begin(client)
    kafka.start()
    client = asks(kafka.bootstrap, client)
    go_on(client, producers)
    client.main.close()


def test_barnabas_continues_transactions_of_kafka(kafka) -> None:
    kafka.start()
    client = asks(kafka.bootstrap)
    producers = begin(client)
    kafka.stop()
    with barnabas(kafka) as node:
        client = asks(node.bootstrap, client)
        go_on(client, producers)
        client.main.close()


DUMP = "org.apache.kafka.tools.DumpLogSegments"


def dumped(data: Path, client: Transcript) -> list[str]:
    """Return what Kafka's tool reads in the transaction log and in the data, without fields that
    differ.
    """
    lines: list[str] = []
    logs = sorted(data.glob("__transaction_state-*/*.log"))
    tool = [DUMP, "--transaction-log-decoder", "--deep-iteration"]
    for log in logs:
        lines += jars.java(*tool, "--files", log).stdout.splitlines()
    for partition in range(3):
        (log,) = data.glob(f"{client.topic}-{partition}/*.log")
        tool = [DUMP, "--print-data-log", "--files"]
        lines += jars.java(*tool, log).stdout.splitlines()
    kept: list[str] = []
    for line in lines:
        assert "isvalid: false" not in line, line
        if line.startswith(("|", "baseOffset")):
            text = line.replace(client.run_id, "RUN")
            text = re.sub(r"crc: \d+", "", text)
            text = re.sub(r"CreateTime: \d+", "", text)
            text = re.sub(r'(TimestampMs"):\d+', r"\1:TIME", text)
            text = re.sub(r'"partitionIds":\[\d\]', '"partitionIds":[N]', text)
            kept.append(text)
    return sorted(kept)


def test_barnabas_writes_the_same_transaction_log_as_kafka(kafka, tmp_path) -> None:
    """The transaction log, the data and the markers of the same requests are equal, batch for
    batch.
    """
    run_id = uuid.uuid4().hex[:8]  # the same names hash to the same partitions
    with Node(tmp_path / "ours", SMALL) as node:
        client = asks(node.bootstrap, run_id=run_id)
        begin(client)
        client.main.close()
    ours = dumped(tmp_path / "ours", client)
    kafka.start()
    client = asks(kafka.bootstrap, run_id=run_id)
    begin(client)
    client.main.close()
    kafka.stop()
    assert ours == dumped(kafka.data, client)
    text = "\n".join(ours)
    assert "endTxnMarker: ABORT coordinatorEpoch: 0" in text
    assert '"transactionStatus":5' in text
