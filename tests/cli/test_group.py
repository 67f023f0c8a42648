"""`barnabas group` with groups of both protocols: who owns what, how far behind, and why."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from barnabas.pipeline.delivery.micro_batches import micro_batch_markers
from barnabas.pipeline.delivery.plan.offset_metadata import OffsetMetadata

from .conftest import Barnabas


@pytest.fixture
def group(topic: str) -> str:
    return f"g-{topic}"


@pytest.fixture(params=["classic", "consumer"])
def member(
    request: pytest.FixtureRequest, bootstrap: str, topic: str, group: str
) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": request.param,
            "client.id": "tester",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    yield consumer
    consumer.close()


def test_group_is_described_with_owners_lag_and_causes(
    barnabas: Barnabas, topic: str, group: str, member: Consumer, request: pytest.FixtureRequest
) -> None:
    kind = request.node.callspec.params["member"]
    old_ms = int((time.time() - 600) * 1000)
    lines = "".join(
        f'{{"value": "{n}", "timestamp": {old_ms + n * 60_000}, "partition": 0}}\n'
        for n in range(5)
    )
    barnabas("produce", topic, "-f", "json", stdin=lines.encode())
    deadline = time.monotonic() + 60
    for _ in range(3):
        while (message := member.poll(0.2)) is None or message.error() is not None:
            assert time.monotonic() < deadline
    member.commit(message, asynchronous=False)
    assert {"group": group, "state": "stable", "type": kind} in barnabas(
        "group", "list", "--type", kind, "--state", "stable", "--json"
    ).data
    other = {"classic": "consumer", "consumer": "classic"}[kind]
    assert group not in barnabas("group", "list", "--type", other).out
    (told,) = barnabas("group", "describe", group, "--history", "--json").data
    assert (told["state"], told["type"], told["lag"]) == ("stable", kind, 2)
    place = next(p for p in told["partitions"] if p["partition"] == 0)
    assert (place["offset"], place["end"], place["lag"]) == (3, 5, 2)
    assert place["member"] == told["members"][0]["member"]
    # The oldest unread record is the one of 420 seconds ago.
    assert 415 < place["behind"] < 480
    assert told["behind"] == place["behind"]
    assert any("joined" in c["reason"] or "new member" in c["reason"] for c in told["rebalances"])
    shown = barnabas("group", "describe", group, "--history")
    assert "behind 4" in shown.lines[0]
    assert shown.lines[-1].startswith("rebalanced ")
    member.commit(offsets=[_end(topic)], asynchronous=False)
    (told,) = barnabas("group", "describe", group, "--json").data
    assert "rebalances" not in told
    assert (told["lag"], told["behind"]) == (0, 0.0)


def _end(topic: str):
    from confluent_kafka import TopicPartition

    return TopicPartition(topic, 0, 5)


def test_leaving_member_is_in_the_history(
    barnabas: Barnabas, bootstrap: str, topic: str, group: str
) -> None:
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "group.protocol": "consumer",
        "client.id": "tester",
    }
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    deadline = time.monotonic() + 60
    while not consumer.assignment():
        consumer.poll(0.1)
        assert time.monotonic() < deadline
    consumer.close()
    (told,) = barnabas("group", "describe", group, "--history", "--json").data
    reasons = [cause["reason"] for cause in told["rebalances"]]
    assert reasons[0].endswith("joined")
    assert reasons[-1].endswith("left")
    assert (told["state"], told["members"]) == ("empty", [])


def test_group_with_a_partition_of_a_deleted_topic_is_described_without_its_end(
    barnabas: Barnabas, bootstrap: str, topic: str, group: str
) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    consumer.subscribe([topic])
    deadline = time.monotonic() + 120
    while not consumer.assignment():
        consumer.poll(0.1)
        assert time.monotonic() < deadline
    assert barnabas("topic", "delete", topic, "--yes").code == 0
    (told,) = barnabas("group", "describe", group, "--json").data
    shown = {(p["topic"], p["end"], p["lag"]) for p in told["partitions"]}
    assert shown <= {(topic, None, None)}  # none when the member has noticed the deletion
    consumer.close()


def test_group_of_a_pipelines_job_has_the_lag_of_its_positions(
    barnabas: Barnabas, bootstrap: str, topic: str, group: str
) -> None:
    epochs = f"{topic}-epochs"
    barnabas("topic", "create", epochs, "--partitions", "1")
    for each in (topic, epochs):
        barnabas("produce", each, "-f", "json", stdin=b'{"value": "v", "partition": 0}\n' * 5)
    marker = micro_batch_markers.Marker(2, "query", "digest").encode()
    position = OffsetMetadata(topic_id="id", position=4).encode()
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    reader.commit(
        offsets=[
            TopicPartition(topic, 0, 3, metadata=position),
            TopicPartition(epochs, 0, 2, metadata=marker),
        ],
        asynchronous=False,
    )
    reader.close()
    (told,) = barnabas("group", "describe", group, "--json").data
    assert told["lag"] == 1
    found = {p["topic"]: (p["offset"], p["end"], p["lag"]) for p in told["partitions"]}
    assert found == {topic: (3, 5, 1), epochs: (2, None, None)}
    shown = barnabas("group", "describe", group)
    (line,) = [line for line in shown.lines if line.startswith(epochs)]
    assert line.split()[1:5] == ["0", "2", "-", "-"]
    barnabas("group", "reset-offsets", group, "--to", "earliest")
    (told,) = barnabas("group", "describe", group, "--json").data
    assert {p["topic"]: p["offset"] for p in told["partitions"]} == {topic: 0, epochs: 2}
