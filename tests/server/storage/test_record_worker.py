"""`RecordWorker`: order of jobs, killed processes, costly jobs, and a node that uses it."""

import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import attrs
import pytest
import trio
import trio.testing
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from barnabas.log.record_work import CompleteBatch, Outcome, Outcomes, RecordWorkNeeded
from barnabas.protocol.batches.batch_building import build_batch
from barnabas.protocol.batches.batch_header import iter_batches
from barnabas.protocol.batches.compression import Codec
from barnabas.protocol.batches.record_decoding import Record, read_records
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.server.storage.disk_threads import DiskThreads
from barnabas.server.storage.helper_pool import COSTLY_RECORDS, ORDINARY_RECORDS, HelperPool
from barnabas.server.storage.record_worker import RecordWorker, RecordWorkError
from barnabas.testing import Node
from barnabas.testing.eventually import wait_until
from tests.server.coordinators.group_transcript import Connection

LARGE = 1000
UNPACKED_MAX = 8 << 20
WAIT_S = 60.0
NOW_MS = int(time.time() * 1000)

Job = CompleteBatch(is_checked=True, is_compacted=True, codec=Codec.LZ4, max_message_bytes=4 << 20)


def large_batch(
    name: bytes,
    *,
    key: bytes | None = b"k",
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
) -> bytes:
    """Return a batch that is too large for the loop; each value starts with its name."""
    made = [Record(number, NOW_MS, key, b"%s-%d" % (name, number)) for number in range(LARGE)]
    return bytes(
        build_batch(
            made,
            codec=Codec.GZIP,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=producer[2],
            is_transactional=transactional,
        )
    )


# The worker alone


def with_helper(story: Callable[[RecordWorker], Awaitable[None]]) -> None:
    """Run the story with a record worker, and check that its processes end."""

    async def main() -> None:
        pool = HelperPool()
        helper = RecordWorker(DiskThreads(), pool)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pool.run)
            nursery.start_soon(helper.run)
            with trio.fail_after(WAIT_S):
                await story(helper)
            pids = helper.pids
            nursery.cancel_scope.cancel()
        assert helper.pids == []
        for pid in pids:
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)

    trio.run(main)


async def done_by(helper: RecordWorker, batch: bytes) -> Outcome:
    needed = RecordWorkNeeded(Job, batch)

    def step(done: Outcomes) -> Outcome:
        return done[Job]

    return await helper.resolve(step, needed)


async def stopped(helper: RecordWorker) -> int:
    """Return the pid of its process, which is stopped now."""
    await done_by(helper, large_batch(b"first"))
    [pid] = helper.pids
    os.kill(pid, signal.SIGSTOP)
    return pid


def test_worker_starts_a_process_with_the_first_job_and_keeps_it() -> None:
    async def story(helper: RecordWorker) -> None:
        await trio.lowlevel.checkpoint()
        assert helper.pids == []
        assert await done_by(helper, large_batch(b"a")) == Job.run(large_batch(b"a"))
        [pid] = helper.pids
        await done_by(helper, large_batch(b"b"))
        assert helper.pids == [pid]

    with_helper(story)


def test_worker_raises_a_refusal_and_runs_the_next_job() -> None:
    async def story(helper: RecordWorker) -> None:
        with pytest.raises(KafkaError) as raised:
            await done_by(helper, large_batch(b"a", key=None))
        assert raised.value.code is ErrorCode.INVALID_RECORD
        assert isinstance(await done_by(helper, large_batch(b"b")), bytearray)

    with_helper(story)


def test_worker_runs_jobs_in_the_order_of_requests() -> None:
    async def story(helper: RecordWorker) -> None:
        ended: list[int] = []

        async def one(number: int) -> None:
            await done_by(helper, large_batch(b"%d" % number))
            ended.append(number)

        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(one, number)
                await trio.testing.wait_all_tasks_blocked()
        assert ended == list(range(8))

    with_helper(story)


def test_job_of_a_killed_process_is_run_by_the_next() -> None:
    async def story(helper: RecordWorker) -> None:
        pid = await stopped(helper)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(done_by, helper, large_batch(b"a"))
            await trio.sleep(0.05)
            os.kill(pid, signal.SIGKILL)
        assert helper.pids != [pid]
        assert len(helper.pids) == 1
        assert (helper.requested, helper.waiting, helper.starts) == (2, 0, 2)

    with_helper(story)


def test_job_that_ends_two_processes_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.server.storage.helper_process.sys.executable", "/bin/false")

    async def story(helper: RecordWorker) -> None:
        with pytest.raises(RecordWorkError):
            await done_by(helper, large_batch(b"a"))

    with_helper(story)


def test_job_fails_when_no_process_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.server.storage.helper_process.sys.executable", "/nowhere")

    async def story(helper: RecordWorker) -> None:
        with pytest.raises(RecordWorkError):
            await done_by(helper, large_batch(b"a"))

    with_helper(story)


def test_job_that_takes_too_long_fails_and_the_next_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(helper: RecordWorker) -> None:
        await stopped(helper)
        monkeypatch.setattr("barnabas.server.storage.record_worker._JOB_S_MAX", 0.2)
        with pytest.raises(RecordWorkError):
            await done_by(helper, large_batch(b"a"))
        monkeypatch.undo()
        assert isinstance(await done_by(helper, large_batch(b"b")), bytearray)

    with_helper(story)


@pytest.mark.parametrize(("records_max", "starts"), [(1 << 31, 4), (100_000, 2)])
def test_ordinary_jobs_do_not_wait_for_costly_batches(
    monkeypatch: pytest.MonkeyPatch, records_max: int, starts: int
) -> None:
    """A costly batch is found by its record count or by its CPU time.

    The processes have the priority of the test: a busy machine gives those of lower priority no
    time for a minute.
    """
    limited = attrs.evolve(ORDINARY_RECORDS, cpu_s_max=0.06, niceness=0)
    costly = attrs.evolve(COSTLY_RECORDS, niceness=0)
    monkeypatch.setattr("barnabas.server.storage.record_worker.ORDINARY_RECORDS", limited)
    monkeypatch.setattr("barnabas.server.storage.record_worker.COSTLY_RECORDS", costly)
    monkeypatch.setattr("barnabas.server.storage.record_worker._ORDINARY_RECORDS_MAX", records_max)
    bomb = build_batch([Record(n, NOW_MS, b"", None) for n in range(400_000)], codec=Codec.ZSTD)

    async def story(helper: RecordWorker) -> None:
        ended: list[str] = []

        async def one(name: str, batch: bytes) -> None:
            assert isinstance(await done_by(helper, batch), bytearray)
            ended.append(name)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one, "bomb 1", bytes(bomb))
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(one, "bomb 2", bytes(bomb))
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(one, "ordinary", large_batch(b"a"))
        assert ended.index("bomb 1") < ended.index("bomb 2")
        assert ended.index("ordinary") < ended.index("bomb 2")
        assert len(helper.pids) == 2
        assert helper.starts == starts

    with_helper(story)


def test_caller_that_stops_waiting_does_not_affect_the_next_outcome() -> None:
    async def story(helper: RecordWorker) -> None:
        pid = await stopped(helper)
        with trio.move_on_after(0.05):
            await done_by(helper, large_batch(b"a"))
        outcomes: list[Outcome] = []

        async def next_one() -> None:
            outcomes.append(await done_by(helper, large_batch(b"b")))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(next_one)
            await trio.sleep(0.02)
            os.kill(pid, signal.SIGCONT)
        assert outcomes == [Job.run(large_batch(b"b"))]
        assert helper.pids == [pid]

    with_helper(story)


def test_process_ends_after_a_time_without_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.server.storage.helper_pool._IDLE_S", 0.05)

    async def story(helper: RecordWorker) -> None:
        await done_by(helper, large_batch(b"a"))
        while helper.pids:  # noqa: ASYNC110 (processes end without an event)
            await trio.sleep(0.01)
        assert isinstance(await done_by(helper, large_batch(b"b")), bytearray)

    with_helper(story)


# The worker in a node


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(config={"barnabas.decompression.max.bytes": str(UNPACKED_MAX)}) as running:
        client = admin(running)
        create(client, "recoded", {"compression.type": "lz4"})
        create(client, "table", {"cleanup.policy": "compact"})
        create(client, "plain")
        yield running


def admin(node: Node) -> AdminClient:
    return AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})


def create(client: AdminClient, name: str, config: dict[str, str] | None = None) -> None:
    client.create_topics([NewTopic(name, 1, 1, config=config or {})])[name].result(60)


@pytest.fixture
def connection(node: Node) -> Iterator[Connection]:
    opened = Connection(node.bootstrap)
    yield opened
    opened.close()


def produce_request(
    topic: str, *batches: bytes, acks: int = -1, transactional_id: str | None = None
) -> ProduceRequest:
    partitions = [
        ProduceRequest.PartitionProduceData(index=index, records=data)
        for index, data in enumerate(batches)
    ]
    data = ProduceRequest.TopicProduceData(name=topic, partition_data=partitions)
    return ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=10_000, topic_data=[data]
    )


def answered(response: Any) -> tuple[ErrorCode, int]:
    [answer] = response.responses[0].partition_responses
    return ErrorCode(answer.error_code), answer.base_offset


def stored(connection: Connection, topic: str) -> list[bytes]:
    """Return the names of the large batches in the log in order; each must be complete."""
    partition = FetchRequest.FetchPartition(
        partition=0, fetch_offset=0, partition_max_bytes=1 << 24
    )
    asked = FetchRequest.FetchTopic(topic=topic, partitions=[partition])
    response = connection.ask(
        FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 24, topics=[asked]), 11
    )
    records = response.responses[0].partitions[0].records or b""
    names: list[bytes] = []
    for position, header in iter_batches(records):
        values = [bytes(each.value or b"") for each in read_records(records, position, header)]
        name = values[0].partition(b"-")[0]
        assert values == [b"%s-%d" % (name, number) for number in range(len(values))]
        names.append(name)
    return names


def pid_of(node: Node) -> int:
    assert node.server is not None
    [pid] = node.server.records.pids
    return pid


def warmed_up(connection: Connection) -> None:
    assert answered(connection.ask(produce_request("recoded", large_batch(b"0")), 9)) == (0, 0)


def is_waiting(node: Node) -> bool:
    """Return True when a request waits for the helper."""
    assert node.server is not None
    return node.server.records.waiting > 0


def test_pipelined_batches_are_appended_in_order(connection: Connection) -> None:
    small = bytes(build_batch([Record(0, NOW_MS, b"k", b"small-0")]))
    names = [b"a", b"small", b"b", b"c", b"small", b"d"]
    for name in names:
        data = small if name == b"small" else large_batch(name)
        connection.send(produce_request("recoded", data), 9)
    offsets = [answered(connection.receive())[1] for _ in names]
    assert offsets == [0, 1000, 1001, 2001, 3001, 3002]
    assert stored(connection, "recoded") == names


def test_compacted_topic_refuses_records_of_a_large_batch_without_keys(
    connection: Connection,
) -> None:
    assert answered(connection.ask(produce_request("table", large_batch(b"a")), 9)) == (0, 0)
    response = connection.ask(produce_request("table", large_batch(b"b", key=None)), 9)
    [answer] = response.responses[0].partition_responses
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [each.batch_index for each in answer.record_errors] == list(range(LARGE))
    assert stored(connection, "table") == [b"a"]


def test_other_clients_are_served_while_the_helper_is_stopped(node: Node) -> None:
    first, other = Connection(node.bootstrap), Connection(node.bootstrap)
    warmed_up(first)
    pid = pid_of(node)
    os.kill(pid, signal.SIGSTOP)
    first.send(produce_request("recoded", large_batch(b"a")), 9)
    wait_until(lambda: is_waiting(node))
    small = bytes(build_batch([Record(0, NOW_MS, b"k", b"small-0")]))
    for topic in ("plain", "table", "recoded"):
        assert answered(other.ask(produce_request(topic, small), 9))[0] is ErrorCode.NONE
    os.kill(pid, signal.SIGCONT)
    assert answered(first.receive()) == (ErrorCode.NONE, 1001)
    first.close()
    other.close()


def test_killed_helper_loses_and_repeats_no_batch(node: Node, connection: Connection) -> None:
    warmed_up(connection)
    names = [b"%d" % number for number in range(1, 7)]
    for number, name in enumerate(names):
        pid = pid_of(node)
        os.kill(pid, signal.SIGSTOP)
        connection.send(produce_request("recoded", large_batch(name)), 9)
        time.sleep(0.004 * number)  # the batch may be sent in part only
        os.kill(pid, signal.SIGKILL)
        assert answered(connection.receive()) == (ErrorCode.NONE, LARGE * (number + 1))
    assert stored(connection, "recoded") == [b"0", *names]


def test_produce_without_a_helper_is_answered_with_a_retriable_error(
    node: Node, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barnabas.server.storage.helper_process.sys.executable", "/bin/false")
    code, _ = answered(connection.ask(produce_request("recoded", large_batch(b"a")), 9))
    assert code is ErrorCode.NOT_ENOUGH_REPLICAS
    monkeypatch.undo()
    assert answered(connection.ask(produce_request("recoded", large_batch(b"b")), 9)) == (0, 0)
    assert stored(connection, "recoded") == [b"b"]


def while_it_waits(
    node: Node, connection: Connection, request: ProduceRequest, change: Callable[[], None]
) -> Any:
    """Return the answer to a request; `change` runs while it waits for the helper."""
    warmed_up(connection)
    pid = pid_of(node)
    os.kill(pid, signal.SIGSTOP)
    connection.send(request, 9)
    wait_until(lambda: is_waiting(node))
    change()
    os.kill(pid, signal.SIGCONT)
    return connection.receive()


def test_sequence_is_checked_when_the_batch_is_appended(node: Node, connection: Connection) -> None:
    """The same batch over two connections is appended once."""
    twin = Connection(node.bootstrap)
    request = produce_request("recoded", large_batch(b"a", producer=(7, 0, 0)))
    first = while_it_waits(node, connection, request, partial(twin.send, request, 9))
    assert answered(first) == answered(twin.receive()) == (ErrorCode.NONE, LARGE)
    assert stored(connection, "recoded") == [b"0", b"a"]
    twin.close()


def test_configuration_at_the_append_applies(node: Node, connection: Connection) -> None:
    def alter() -> None:
        entry = ConfigEntry(
            "compression.type", "snappy", incremental_operation=AlterConfigOpType.SET
        )
        resource = ConfigResource(ResourceType.TOPIC, "recoded", incremental_configs=[entry])
        client = admin(node)
        client.incremental_alter_configs([resource])[resource].result(60)

    request = produce_request("recoded", large_batch(b"a"))
    assert answered(while_it_waits(node, connection, request, alter)) == (ErrorCode.NONE, LARGE)
    assert stored(connection, "recoded") == [b"0", b"a"]
    assert node.server is not None
    log = node.server.logs.get("recoded", 0)
    assert log is not None
    data = log.read(0, 1 << 24, upper_bound=2 * LARGE).read()
    assert [header.codec for _, header in iter_batches(data)] == [Codec.LZ4, Codec.SNAPPY]


def test_topic_deleted_meanwhile_gets_no_record(node: Node, connection: Connection) -> None:
    def delete() -> None:
        client = admin(node)
        client.delete_topics(["recoded"])["recoded"].result(60)
        create(client, "recoded")

    request = produce_request("recoded", large_batch(b"a"))
    code, _ = answered(while_it_waits(node, connection, request, delete))
    assert code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert stored(connection, "recoded") == []


def test_disconnected_client_does_not_block_the_helper(node: Node, connection: Connection) -> None:
    warmed_up(connection)
    pid = pid_of(node)
    os.kill(pid, signal.SIGSTOP)
    for _ in range(5):
        gone = Connection(node.bootstrap)
        gone.send(produce_request("recoded", large_batch(b"gone")), 9)
        time.sleep(0.02)
        gone.close()
    os.kill(pid, signal.SIGCONT)
    code, _ = answered(connection.ask(produce_request("recoded", large_batch(b"a")), 9))
    assert code is ErrorCode.NONE
    assert [name for name in stored(connection, "recoded") if name != b"gone"] == [b"0", b"a"]


def test_produce_without_acks_appends_and_closes_on_an_invalid_batch(
    connection: Connection,
) -> None:
    connection.send(produce_request("recoded", large_batch(b"a"), acks=0), 9)
    connection._open.clear()
    assert answered(connection.ask(produce_request("recoded", large_batch(b"b")), 9)) == (0, LARGE)
    connection.send(produce_request("table", large_batch(b"a", key=None), acks=0), 9)
    with pytest.raises(EOFError):
        connection.receive()


def test_batch_that_unpacks_to_too_much_is_refused(connection: Connection) -> None:
    bomb = bytes(build_batch([Record(0, NOW_MS, b"k", bytes(UNPACKED_MAX))], codec=Codec.ZSTD))
    assert answered(connection.ask(produce_request("recoded", bomb), 9))[0] == (
        ErrorCode.INVALID_RECORD
    )
    damaged = bytearray(large_batch(b"a"))
    damaged[-20] ^= 0xFF
    assert answered(connection.ask(produce_request("recoded", bytes(damaged)), 9))[0] == (
        ErrorCode.CORRUPT_MESSAGE
    )


def test_list_offsets_finds_times_inside_large_batches(node: Node, connection: Connection) -> None:
    for start in (0, LARGE):
        made = [Record(n, NOW_MS + start + n, b"k", b"x") for n in range(LARGE)]
        data = bytes(build_batch(made, codec=Codec.ZSTD))
        assert answered(connection.ask(produce_request("plain", data), 9))[0] == ErrorCode.NONE

    def offset(timestamp: int) -> tuple[int, int, int]:
        asked = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        topic = ListOffsetsRequest.ListOffsetsTopic(name="plain", partitions=[asked])
        answer = connection.ask(ListOffsetsRequest(replica_id=-1, topics=[topic]), 7)
        [found] = answer.topics[0].partitions
        return found.error_code, found.timestamp, found.offset

    assert offset(NOW_MS + 1234) == (0, NOW_MS + 1234, 1234)
    assert offset(-3) == (0, NOW_MS + 1999, 1999)
    assert offset(NOW_MS + 5000) == (0, -1, -1)
    pid = pid_of(node)
    os.kill(pid, signal.SIGKILL)
    assert offset(NOW_MS + 4) == (0, NOW_MS + 4, 4)


def test_transaction_of_large_batches_is_read_after_its_commit(node: Node) -> None:
    settings = {"bootstrap.servers": node.bootstrap, "log_level": 0}
    packing = {"compression.type": "gzip", "linger.ms": 50, "transactional.id": "t"}
    producer = Producer({**settings, **packing})
    producer.init_transactions(60)
    for outcome in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        for number in range(2 * LARGE):
            producer.produce(("recoded", "plain")[number % 2], b"%d" % number, key=b"k")
        producer.flush(60)
        outcome(60)
    consumer = Consumer({**settings, "group.id": "g", "isolation.level": "read_committed"})
    consumer.assign([TopicPartition("recoded", 0, 0)])
    read = [message.value() for message in consumer.consume(LARGE, timeout=60)]
    assert read == [b"%d" % number for number in range(0, 2 * LARGE, 2)]
    assert consumer.consume(1, timeout=0.3) == []
    consumer.close()
    assert node.server is not None
    assert node.server.records.requested > 0


@pytest.mark.parametrize("has_written", [True, False])
def test_transaction_ended_meanwhile_gets_no_record(
    node: Node, connection: Connection, has_written: bool
) -> None:
    """With the first write, the broker adds the partition to the transaction (v12)."""
    other = Connection(node.bootstrap)
    begin = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000)
    other.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["t"]), 4)
    found: list[tuple[int, int]] = []

    def begun() -> bool:
        answer = other.ask(begin, 5)
        found.append((answer.producer_id, answer.producer_epoch))
        return answer.error_code == ErrorCode.NONE

    wait_until(begun)
    producer_id, epoch = found[-1]
    if has_written:
        first = large_batch(b"a", producer=(producer_id, epoch, 0), transactional=True)
        answer = connection.ask(produce_request("recoded", first, transactional_id="t"), 12)
        assert answered(answer) == (ErrorCode.NONE, 0)
    else:
        warmed_up(connection)
    sequence = LARGE if has_written else 0
    second = large_batch(b"b", producer=(producer_id, epoch, sequence), transactional=True)
    pid = pid_of(node)
    os.kill(pid, signal.SIGSTOP)
    connection.send(produce_request("recoded", second, transactional_id="t"), 12)
    wait_until(lambda: is_waiting(node))
    abort = EndTxnRequest(
        transactional_id="t", producer_id=producer_id, producer_epoch=epoch, committed=False
    )
    assert other.ask(abort, 5).error_code == ErrorCode.NONE
    log = node.server.logs.get("recoded", 0) if node.server is not None else None
    assert log is not None
    wait_until(lambda: log.log_end_offset == LARGE + 1)
    os.kill(pid, signal.SIGCONT)
    code, _ = answered(connection.receive())
    assert code in (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_EPOCH)
    assert log.log_end_offset == LARGE + 1, "the marker is the last batch"
    other.close()
