"""DeleteRecords: what it answers, and how long it waits for the followers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.delete_records import DeleteRecordsRequest
from barnabas.server.api.handlers.data.delete_records_handler import delete_records
from tests.server.api.data_broker import DataBroker

TIMEOUT_MS = 5000


@pytest.fixture
def broker(tmp_path: Path) -> DataBroker:
    broker = DataBroker(tmp_path)
    for topic in ("t", "replicated"):
        for _ in range(3):
            broker.append(b"a", topic=topic)
    broker.partition("replicated").follower_fetched(2, 3, 0)
    return broker


def request(topic: str, *offsets: int) -> DeleteRecordsRequest:
    asked = [
        DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=offset)
        for offset in offsets
    ]
    return DeleteRecordsRequest(
        topics=[DeleteRecordsRequest.DeleteRecordsTopic(name=topic, partitions=asked)],
        timeout_ms=TIMEOUT_MS,
    )


def answers(
    broker: DataBroker,
    asked: DeleteRecordsRequest,
    meanwhile: Callable[[], object] = lambda: None,
) -> list[tuple[int, int]]:
    """The error code and low watermark of each partition."""
    found: list[Any] = []

    async def ask() -> None:
        found.append(await broker.ask(delete_records, asked, 2))

    async def test() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await wait_all_tasks_blocked()
            meanwhile()

    trio.run(test, clock=MockClock(autojump_threshold=0.01))
    return [(each.error_code, each.low_watermark) for each in found[0].topics[0].partitions]


def test_delete_records_without_followers_answers_at_once(broker: DataBroker) -> None:
    assert answers(broker, request("t", 2)) == [(0, 2)]
    assert answers(broker, request("t", -1)) == [(0, 3)]
    assert broker.checkpoints == 2


def test_delete_records_waits_for_the_log_start_of_followers(broker: DataBroker) -> None:
    partition = broker.partition("replicated")
    asked = request("replicated", 2, 1)
    found = answers(broker, asked, lambda: partition.follower_fetched(2, 3, 2))
    assert found == [(0, 2), (0, 2)]
    assert not partition.listeners


def test_delete_records_of_a_silent_follower_time_out(broker: DataBroker) -> None:
    assert answers(broker, request("replicated", 2)) == [(ErrorCode.REQUEST_TIMED_OUT, -1)]
    assert broker.partition("replicated").log.log_start_offset == 2


def test_delete_records_end_when_the_leader_is_deposed(broker: DataBroker) -> None:
    partition = broker.partition("replicated")

    def depose() -> None:
        assert partition.image is not None
        image = attrs.evolve(partition.image, leader=2, leader_epoch=1, partition_epoch=1)
        partition.update(image, broker.replicas.topic_config("replicated"))

    found = answers(broker, request("replicated", 2), depose)
    assert found == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]


@pytest.mark.parametrize(
    ("topic", "offset", "code"),
    [
        ("t", 4, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("elsewhere", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("__consumer_offsets", 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_delete_records_that_fail_are_answered_at_once(
    broker: DataBroker, topic: str, offset: int, code: ErrorCode
) -> None:
    assert answers(broker, request(topic, offset)) == [(code, -1)]
