"""The Produce handler: which batches it appends, and how it answers for the others."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from barnabas.cluster.replication import Partition
from barnabas.log.record_work import RecordWorkNeeded
from barnabas.protocol.batches.compression import Codec
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.types import Uuid
from barnabas.server.api.context import Deferred
from barnabas.server.api.handlers.data.produce_handler import produce
from barnabas.testing.batches import batch
from tests.server.api.data_broker import DataBroker
from tests.server.replication.leaderships import lead, replace_records

LATEST = 13


@pytest.fixture
def broker(tmp_path: Path) -> DataBroker:
    return DataBroker(tmp_path)


def request(
    records: Any, topic: str | Uuid = "t", *, acks: int = 1, partition: int = 0, **fields: Any
) -> ProduceRequest:
    data = ProduceRequest.PartitionProduceData(index=partition, records=records)
    name = {"topic_id": topic} if isinstance(topic, Uuid) else {"name": topic}
    named = ProduceRequest.TopicProduceData(partition_data=[data], **name)
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[named], **fields)


def ask(broker: DataBroker, asked: ProduceRequest, version: int = 9, **who: Any) -> Any:
    """The answer for the request's only partition."""
    response = broker.ask(produce, asked, version, **who)
    return response.responses[0].partition_responses[0]


def test_produce_of_two_batches_returns_their_offsets(broker: DataBroker) -> None:
    for first_offset in (0, 2):
        answer = ask(broker, request(memoryview(batch(b"a", b"b"))))
        assert (answer.error_code, answer.base_offset) == (0, first_offset)
        assert (answer.log_append_time_ms, answer.log_start_offset) == (-1, 0)
    assert broker.partition().log.log_end_offset == 4


def test_produce_by_topic_id_appends_and_names_the_id(broker: DataBroker) -> None:
    topic_id = broker.topic_id("t")
    response = broker.ask(produce, request(memoryview(batch(b"a")), topic_id), LATEST)
    (topic,) = response.responses
    assert (topic.topic_id, topic.name) == (topic_id, "")
    assert topic.partition_responses[0].error_code == 0


@pytest.mark.parametrize(
    ("topic", "version", "code"),
    [
        ("nowhere", 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (Uuid(b"\x01" * 16), 13, ErrorCode.UNKNOWN_TOPIC_ID),
        ("elsewhere", 9, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("__consumer_offsets", 9, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_produce_to_a_partition_not_for_clients_is_refused(
    broker: DataBroker, topic: str | Uuid, version: int, code: ErrorCode
) -> None:
    answer = ask(broker, request(memoryview(batch(b"a")), topic), version)
    assert (answer.error_code, answer.base_offset) == (code, -1)


def test_produce_to_an_internal_topic_by_the_admin_client_is_appended(broker: DataBroker) -> None:
    asked = request(memoryview(batch(b"a")), "__consumer_offsets")
    assert ask(broker, asked, client_id="__admin_client").error_code == 0


def test_produce_to_a_follower_names_the_leader_since_v10(broker: DataBroker) -> None:
    asked = request(memoryview(batch(b"a")), "elsewhere")
    assert broker.ask(produce, asked, 9).node_endpoints == []
    response = broker.ask(produce, asked, 10)
    leader = response.responses[0].partition_responses[0].current_leader
    assert (leader.leader_id, leader.leader_epoch) == (2, 0)
    (endpoint,) = response.node_endpoints
    assert (endpoint.node_id, endpoint.host, endpoint.port) == (2, "127.0.0.1", 9002)


BATCH = bytes(batch(b"a"))


@pytest.mark.parametrize(
    ("records", "version", "code"),
    [
        (None, 9, ErrorCode.INVALID_RECORD),
        (b"", 9, ErrorCode.INVALID_RECORD),
        (BATCH + BATCH, 9, ErrorCode.INVALID_RECORD),
        (BATCH[:16] + b"\x01" + BATCH[17:], 9, ErrorCode.INVALID_RECORD),
        (BATCH[:16] + b"\x03" + BATCH[17:], 9, ErrorCode.CORRUPT_MESSAGE),
        (BATCH[:8] + b"\x00\x00\x00\x01" + BATCH[12:], 9, ErrorCode.CORRUPT_MESSAGE),
        (BATCH[:17] + b"\xff\xff\xff\xff" + BATCH[21:], 9, ErrorCode.CORRUPT_MESSAGE),
        (BATCH[:-1], 9, ErrorCode.INVALID_RECORD),
        (bytes(batch(b"a", codec=Codec.ZSTD)), 6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (bytes(batch(b"a", codec=Codec.ZSTD)), 7, ErrorCode.NONE),
        (
            bytes(batch(b"a", producer=(1, 0, 0), transactional=True)),
            9,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
    ],
)
def test_produce_of_records_is_checked_before_the_append(
    broker: DataBroker, records: bytes | None, version: int, code: ErrorCode
) -> None:
    data = None if records is None else memoryview(bytearray(records))
    assert ask(broker, request(data), version).error_code == code
    assert broker.partition().log.log_end_offset == (code is ErrorCode.NONE)


def test_produce_with_a_batch_behind_a_torn_one_appends_the_whole_batch(broker: DataBroker) -> None:
    answer = ask(broker, request(memoryview(bytearray(BATCH + BATCH[:-1]))))
    assert (answer.error_code, broker.partition().log.log_end_offset) == (0, 1)


@pytest.mark.parametrize("acks", [2, -2])
def test_produce_with_unknown_acks_is_refused(broker: DataBroker, acks: int) -> None:
    answer = ask(broker, request(memoryview(batch(b"a")), acks=acks))
    assert answer.error_code == ErrorCode.INVALID_REQUIRED_ACKS


def test_produce_without_acks_has_no_response(broker: DataBroker) -> None:
    assert broker.ask(produce, request(memoryview(batch(b"a")), acks=0), 9) is None
    assert broker.partition().log.log_end_offset == 1
    assert not broker.connection.is_closed


def test_produce_without_acks_that_fails_closes_the_connection(broker: DataBroker) -> None:
    assert broker.ask(produce, request(memoryview(batch(b"a")), "nowhere", acks=0), 9) is None
    assert broker.connection.is_closed


def test_produce_with_acks_all_is_answered_once_the_follower_has_the_batch(
    broker: DataBroker,
) -> None:
    async def run() -> None:
        asked = request(memoryview(batch(b"a")), "replicated", acks=-1)
        deferred = broker.ask(produce, asked, 9)
        assert isinstance(deferred, Deferred)
        assert not deferred.resolved
        broker.partition("replicated").follower_fetched(2, 1, 0)
        assert deferred.resolved
        answer = deferred.response.responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (0, 0)

    trio.run(run)


def test_produce_with_acks_all_times_out_without_the_follower(broker: DataBroker) -> None:
    async def run() -> None:
        asked = request(memoryview(batch(b"a")), "replicated", acks=-1)
        deferred = broker.ask(produce, asked, 9)
        await trio.sleep(1.5)
        answer = deferred.response.responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT

    trio.run(run, clock=MockClock(autojump_threshold=0))


def test_produce_with_acks_1_does_not_wait_for_the_follower(broker: DataBroker) -> None:
    answer = ask(broker, request(memoryview(batch(b"a")), "replicated"))
    assert (answer.error_code, answer.base_offset) == (0, 0)


def test_produce_answers_each_partition_on_its_own(broker: DataBroker) -> None:
    asked = request(memoryview(batch(b"a")))
    asked.topic_data += request(memoryview(batch(b"b")), "nowhere").topic_data
    topics = broker.ask(produce, asked, 9).responses
    assert [(t.name, t.partition_responses[0].error_code) for t in topics] == [
        ("t", 0),
        ("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


def test_produce_record_replaced_while_another_partition_is_examined_is_refused(
    broker: DataBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first append is not committed when a helper process examines the second partition."""
    plain_append = Partition.append

    def append(self: Partition, records: Any, *, done: Any, **options: Any) -> Any:
        if self.topic == "t" and not done:
            raise RecordWorkNeeded(Any, memoryview(records))
        return plain_append(self, records, done=done, **options)

    async def resolve(postponed: Any, _needed: RecordWorkNeeded) -> Any:
        partition = broker.partition("replicated")
        for leader in (2, 1):
            lead(partition, leader)
            if leader == 2:
                replace_records(partition)
        return postponed({"job": "outcome"})

    monkeypatch.setattr(Partition, "append", append)
    records: Any = SimpleNamespace(resolve=resolve)
    broker.services = attrs.evolve(broker.services, records=records)
    asked = request(memoryview(batch(b"mine")), "replicated", acks=-1)
    asked.topic_data += request(memoryview(batch(b"a"))).topic_data

    async def run() -> None:
        answer = await broker.ask(produce, asked, 9)
        assert isinstance(answer, Deferred)
        topics = answer.response.responses
        codes = [topic.partition_responses[0].error_code for topic in topics]
        assert codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE]

    trio.run(run)
