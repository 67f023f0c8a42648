"""The shell around transaction coordinators: what waits for whom, across replicas and restarts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from barnabas.cluster.replication import Partition
from barnabas.config import NodeConfig
from barnabas.config.subscriptions import ConfigSubscriptions
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from barnabas.protocol.messages.write_txn_markers import (
    WriteTxnMarkersResponse,
)
from barnabas.server.coordinators.internal_topics import OFFSETS_TOPIC, TRANSACTION_TOPIC
from barnabas.server.coordinators.transactions.marker_writer import LocalMarkers
from barnabas.server.coordinators.transactions.transaction_verification import Admission, Support
from barnabas.server.coordinators.transactions.verification_guards import Guards
from barnabas.testing import Node
from barnabas.testing.batches import batch
from tests.server.coordinators.coordinator_world import Asked, World, code_of, marker, run, start
from tests.server.coordinators.transaction_transcript import Transcript


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_end_txn_answer_and_markers_wait_for_replication(world: World) -> None:
    """Markers that went out ahead of a PREPARE that is lost would end a transaction twice."""

    async def test() -> None:
        async with trio.open_nursery() as nursery:
            await start(world, nursery)
            transactions, name, data = world.transactions, world.id_here(), world.led("t")
            init = Asked(
                nursery,
                lambda: transactions.init_producer_id(
                    InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
                ),
            )
            await wait_all_tasks_blocked()
            assert init.answers == []
            world.replicate(TRANSACTION_TOPIC)
            await wait_all_tasks_blocked()
            (answer,) = init.answers
            assert isinstance(answer, InitProducerIdResponse)
            added = Asked(
                nursery,
                lambda: transactions.add_partitions(name, 7, 0, [("t", data.partition)], 2),
            )
            await wait_all_tasks_blocked()
            assert added.answers == []
            world.replicate(TRANSACTION_TOPIC)
            await wait_all_tasks_blocked()
            assert added.answers == [None]
            request = EndTxnRequest(
                transactional_id=name, producer_id=7, producer_epoch=0, committed=True
            )
            ended = Asked(nursery, lambda: transactions.end_transaction(request, 2))
            await wait_all_tasks_blocked()
            assert ended.answers == []
            assert data.log.log_end_offset == 0
            world.replicate(TRANSACTION_TOPIC)
            await wait_all_tasks_blocked()
            assert [each.producer_epoch for each in ended.answers] == [1]
            assert data.log.log_end_offset == 1
            described = Asked(nursery, lambda: transactions.describe(name))
            await wait_all_tasks_blocked()
            assert [each.transaction_state for each in described.answers] == ["PrepareCommit"]
            world.replicate("t")
            world.replicate(TRANSACTION_TOPIC)
            await wait_all_tasks_blocked()
            described = Asked(nursery, lambda: transactions.describe(name))
            await wait_all_tasks_blocked()
            assert [each.transaction_state for each in described.answers] == ["CompleteCommit"]
            nursery.cancel_scope.cancel()

    run(test)


def test_end_txn_not_replicated_in_time_is_refused(world: World) -> None:
    async def test() -> None:
        async with trio.open_nursery() as nursery:
            await start(world, nursery)
            request = InitProducerIdRequest(
                transactional_id=world.id_here(), transaction_timeout_ms=60_000
            )
            asked = Asked(nursery, lambda: world.transactions.init_producer_id(request))
            await trio.sleep(world.config.get_int("request.timeout.ms") / 1000 + 1)
            assert asked.answers == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
            nursery.cancel_scope.cancel()

    run(test)


def test_marker_answer_waits_for_replication(world: World) -> None:
    async def test() -> None:
        partition = world.led("t")
        markers = world.markers
        responses: list[WriteTxnMarkersResponse] = []
        markers.write(marker("t", partition.partition), responses.append)
        assert responses == []
        assert partition.log.last_stable_offset == 0
        world.replicate("t")
        assert [code_of(each) for each in responses] == [ErrorCode.NONE]
        markers.write(marker("t", partition.partition), responses.append)
        await trio.sleep(world.config.get_int("request.timeout.ms") / 1000 + 1)
        assert code_of(responses[-1]) is ErrorCode.REQUEST_TIMED_OUT
        assert not partition.listeners

    run(test)


@pytest.mark.parametrize(
    ("version", "epoch", "is_open", "code"),
    [
        (0, 0, True, ErrorCode.NONE),
        (2, 0, True, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, 1, True, ErrorCode.NONE),
        (2, 0, False, ErrorCode.NONE),
        (2, -1, True, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_marker_of_the_second_version_needs_a_higher_epoch(
    world: World, version: int, epoch: int, is_open: bool, code: ErrorCode
) -> None:
    async def test() -> None:
        partition = world.led("t")
        append(partition, batch(b"v", producer=(7, 0, 0), transactional=is_open))
        markers = world.markers
        responses: list[WriteTxnMarkersResponse] = []
        request = marker(
            "t", partition.partition, producer_epoch=epoch, transaction_version=version
        )
        markers.write(request, responses.append)
        world.replicate("t")
        assert [code_of(each) for each in responses] == [code]

    run(test)


def append(partition: Partition, records: bytearray) -> None:
    partition.append(records, required_acks=1, origin="client", now_ms=1_800_000_000_000)


def test_marker_for_groups_that_are_not_loaded_gets_not_leader(world: World) -> None:
    async def test() -> None:
        partition = world.led(OFFSETS_TOPIC)
        responses: list[WriteTxnMarkersResponse] = []
        markers = world.markers
        markers.write(marker(OFFSETS_TOPIC, partition.partition), responses.append)
        assert code_of(responses[-1]) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        async with trio.open_nursery() as nursery:
            await start(world, nursery)
            markers.write(marker(OFFSETS_TOPIC, partition.partition), responses.append)
            world.replicate(OFFSETS_TOPIC)
            assert code_of(responses[-1]) is ErrorCode.NONE
            nursery.cancel_scope.cancel()

    run(test)


# Admission


class Told:
    """A coordinator that gives the same answer to every question, after some time."""

    def __init__(self, *codes: ErrorCode) -> None:
        self.guards = Guards()
        self.codes = list(codes)
        self.asked = 0
        self.raises = True
        self.epoch = 4
        self.meanwhile: Callable[[], None] = lambda: None

    def leader_epoch(self, _topic: str, _partition: int) -> int:
        return self.epoch

    async def verify(self, *arguments: Any, adds: bool) -> dict[tuple[str, int], ErrorCode]:
        await trio.sleep(0.001)
        self.asked += 1
        self.meanwhile()
        code = self.codes[min(self.asked, len(self.codes)) - 1]
        if code and self.raises:
            raise KafkaError(code, "no")
        return dict.fromkeys(arguments[-1], code)


WHERE = ("t", 0)


def admitted(told: Told, support: Support) -> ErrorCode:
    """Return Produce's answer for a first write."""
    codes: list[ErrorCode] = []

    async def test() -> None:
        settings = ConfigSubscriptions(NodeConfig.load(None, {}))
        async with Admission(told, settings, support, "x", 7, 0, [WHERE]) as admission:
            try:
                admission.check_write(WHERE)
            except KafkaError as error:
                codes.append(error.code)
            else:
                codes.append(ErrorCode.NONE)

    run(test)
    assert not len(told.guards)
    return codes[0]


NONE = ErrorCode.NONE
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS
FENCED = ErrorCode.PRODUCER_FENCED
ABORTABLE = ErrorCode.TRANSACTION_ABORTABLE
AGAIN = ErrorCode.NOT_ENOUGH_REPLICAS


@pytest.mark.parametrize(
    ("support", "told", "code"),
    [
        (Support.ADDS, [NONE], NONE),
        (Support.ADDS, [CONCURRENT, NONE], NONE),
        (Support.ADDS, [CONCURRENT], CONCURRENT),
        (Support.ADDS, [FENCED], ErrorCode.INVALID_PRODUCER_EPOCH),
        (Support.ADDS, [ErrorCode.NOT_COORDINATOR], AGAIN),
        (Support.ABORTABLE, [ABORTABLE], ABORTABLE),
        (Support.DEFAULT, [ABORTABLE], ErrorCode.INVALID_TXN_STATE),
        (Support.DEFAULT, [CONCURRENT, NONE], AGAIN),
        (Support.DEFAULT, [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS], AGAIN),
    ],
)
def test_first_write_refusal_depends_on_the_clients_version(
    support: Support, told: list[ErrorCode], code: ErrorCode
) -> None:
    local, remote = Told(*told), Told(*told)
    remote.raises = False  # an answer for each partition
    assert admitted(local, support) is code
    assert admitted(remote, support) is code


def test_coordinators_error_comes_before_a_broken_guard() -> None:
    """The markers of the previous transaction break the guard; INVALID_TXN_STATE would be fatal."""
    told = Told(CONCURRENT)
    told.meanwhile = lambda: told.guards.transaction_ended("t", 0, 7)
    assert admitted(told, Support.ADDS) is CONCURRENT
    assert told.asked > 2


def test_each_attempt_holds_a_new_guard() -> None:
    told = Told(CONCURRENT, NONE)

    def end_once() -> None:
        if told.asked == 1:
            told.guards.transaction_ended("t", 0, 7)

    told.meanwhile = end_once
    assert (admitted(told, Support.ADDS), told.asked) == (NONE, 2)


@pytest.mark.parametrize("support", Support)
def test_first_write_is_verified_again_after_the_guard_alone_failed(support: Support) -> None:
    told = Told(NONE, ABORTABLE)
    told.meanwhile = lambda: told.guards.transaction_ended("t", 0, 7)
    wanted = ErrorCode.INVALID_TXN_STATE if support is Support.DEFAULT else ABORTABLE
    assert (admitted(told, support), told.asked) == (wanted, 2)


@pytest.mark.parametrize("support", Support)
def test_first_write_whose_guard_always_breaks_is_retried_by_the_client(support: Support) -> None:
    told = Told(NONE)
    told.meanwhile = lambda: told.guards.transaction_ended("t", 0, 7)
    assert admitted(told, support) is AGAIN


def test_end_of_another_producers_transaction_breaks_no_guard() -> None:
    told = Told(NONE)
    told.meanwhile = lambda: told.guards.transaction_ended("t", 0, 8)
    assert (admitted(told, Support.DEFAULT), told.asked) == (NONE, 1)


def test_first_write_in_another_leader_epoch_is_verified_again() -> None:
    """Another node may have led meanwhile, and have written the marker."""
    told = Told(NONE)

    def lead_again() -> None:
        if told.asked == 1:
            told.epoch += 2
            told.guards.leader_changed("t", 0)

    told.meanwhile = lead_again
    assert (admitted(told, Support.ADDS), told.asked) == (NONE, 2)


# A whole node


def test_transaction_continues_after_a_restart(tmp_path: Path) -> None:
    with Node(tmp_path) as node:
        asks = Transcript(node.bootstrap)
        asks.prepare()
        open_one, ended = asks.start("open"), asks.start("ended")
        asks.produce("open", open_one, 0, b"a", partition=0, version=12)
        asks.produce("ended", ended, 0, b"b", partition=1, version=12)
        answer = asks.end("ended", ended, version=5)
    with Node(tmp_path) as node:
        again = Transcript(node.bootstrap)
        again.run_id, again.topic = asks.run_id, asks.topic
        again.until(lambda: again.describe("open").transaction_states[0].error_code == 0)
        assert again.describe("open").transaction_states[0].transaction_state == "Ongoing"
        assert [again.end_offset(0, level) for level in (0, 1)] == [1, 0]
        assert again.produce("open", open_one, 1, b"c", version=12).error_code == 0
        assert again.end("open", open_one, version=5).error_code == 0
        again.until(lambda: again.end_offset(0, 1) == 3)
        repeated = again.end("ended", ended, version=5)
        assert repeated.producer_epoch == answer.producer_epoch == 1
        again.main.close()
    asks.main.close()


def test_transaction_with_an_outcome_completes_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Node(tmp_path) as node:
        asks = Transcript(node.bootstrap)
        asks.prepare()
        producer = asks.start("decided")
        asks.produce("decided", producer, 0, b"a", partition=0, version=12)
        with monkeypatch.context() as patch:
            patch.setattr(LocalMarkers, "write", lambda *_: None)
            request = EndTxnRequest(
                transactional_id=asks.id("decided"),
                producer_id=producer[0],
                producer_epoch=producer[1],
                committed=True,
            )
            assert asks.main.ask(request, 5).error_code == 0
            assert asks.end_offset(0, 1) == 0
    with Node(tmp_path) as node:
        again = Transcript(node.bootstrap)
        again.topic = asks.topic
        again.until(lambda: again.end_offset(0, 1) == 2)
        again.main.close()
    asks.main.close()
