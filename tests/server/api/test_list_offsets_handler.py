"""The ListOffsets handler: timestamps and named places, by version."""

from pathlib import Path
from typing import Any

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest
from barnabas.server.api.handlers.data.list_offsets_handler import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    list_offsets,
)
from barnabas.testing.batches import NOW_MS, batch
from tests.server.api.data_broker import DataBroker

NEWEST = 11


@pytest.fixture
def broker(tmp_path: Path) -> DataBroker:
    """A broker with three records in two batches, a second apart."""
    broker = DataBroker(tmp_path)
    for first, count in ((0, 1), (1, 2)):
        times = [NOW_MS + 1000 * (first + number) for number in range(count)]
        data = batch(*[b"x"] * count, timestamps=times)
        broker.partition().append(data, required_acks=1, origin="client", now_ms=NOW_MS)
    return broker


def request(
    timestamp: int, topic: str = "t", partition: int = 0, **fields: Any
) -> ListOffsetsRequest:
    asked = ListOffsetsRequest.ListOffsetsPartition(
        partition_index=partition, timestamp=timestamp, **fields
    )
    return ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[asked])]
    )


def ask(broker: DataBroker, asked: ListOffsetsRequest, version: int = NEWEST) -> Any:
    response = broker.ask(list_offsets, asked, version)
    return response.topics[0].partitions[0]


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (LATEST, (-1, 3, 0)),
        (EARLIEST, (-1, 0, 0)),
        (EARLIEST_LOCAL, (-1, 0, 0)),
        (LATEST_TIERED, (-1, -1, -1)),
        (EARLIEST_PENDING_UPLOAD, (-1, -1, -1)),
        (MAX_TIMESTAMP, (NOW_MS + 2000, 2, 0)),
        (0, (NOW_MS, 0, 0)),
        (NOW_MS + 1, (NOW_MS + 1000, 1, 0)),
        (NOW_MS + 2000, (NOW_MS + 2000, 2, 0)),
        (NOW_MS + 2001, (-1, -1, -1)),
    ],
)
def test_list_offsets_finds_times_and_named_places(
    broker: DataBroker, timestamp: int, expected: tuple[int, int, int]
) -> None:
    answer = ask(broker, request(timestamp))
    assert answer.error_code == 0
    assert (answer.timestamp, answer.offset, answer.leader_epoch) == expected


@pytest.mark.parametrize(
    ("timestamp", "since"),
    [(MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9), (EARLIEST_PENDING_UPLOAD, 11)],
)
def test_list_offsets_of_a_place_before_its_version_is_unsupported(
    broker: DataBroker, timestamp: int, since: int
) -> None:
    refused = ask(broker, request(timestamp), since - 1)
    assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert ask(broker, request(timestamp), since).error_code == 0


def test_list_offsets_before_v4_has_no_leader_epoch(broker: DataBroker) -> None:
    assert ask(broker, request(LATEST), 3).leader_epoch == -1


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (request(LATEST, "nowhere"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (request(LATEST, partition=5), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (request(LATEST, "elsewhere"), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (request(LATEST, current_leader_epoch=9), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (request(-99), ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_list_offsets_of_what_is_not_there_is_refused(
    broker: DataBroker, asked: ListOffsetsRequest, code: ErrorCode
) -> None:
    answer = ask(broker, asked)
    assert (answer.error_code, answer.offset) == (code, -1)


def test_list_offsets_of_a_repeated_partition_is_invalid_for_each(broker: DataBroker) -> None:
    asked = request(LATEST)
    asked.topics[0].partitions *= 2
    partitions = broker.ask(list_offsets, asked, NEWEST).topics[0].partitions
    assert [each.error_code for each in partitions] == [ErrorCode.INVALID_REQUEST] * 2


def test_list_offsets_for_clients_ends_at_the_high_watermark(broker: DataBroker) -> None:
    broker.append(b"a", topic="replicated")
    assert ask(broker, request(LATEST, "replicated")).offset == 0
    asked = request(LATEST, "replicated")
    asked.replica_id = 2
    assert ask(broker, asked).offset == 1
