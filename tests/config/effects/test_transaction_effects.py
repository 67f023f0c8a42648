"""Transaction properties, observed in the answers of the transaction coordinator."""

import time
from itertools import pairwise
from typing import Any

import pytest

from barnabas.config import NodeConfig
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.server.coordinators.transactions.transaction_service import transaction_settings
from tests.config.effects.observed import observes
from tests.config.effects.test_group_effects import internal_topic
from tests.config.effects.wire import (
    Wire,
    add_silent_follower,
    alter,
    batch,
    coordinator,
    create,
    eventually,
    happens,
    init_producer,
    node_with,
    produce,
)
from tests.coordinator.transactions import transaction_harness

ONE = {"transaction.state.log.num.partitions": "1"}


def state(wire: Wire) -> ErrorCode:
    """Return what DescribeTransactions answers about the transactional id `x`."""
    request = DescribeTransactionsRequest(transactional_ids=["x"])
    return ErrorCode(wire.ask(request, 0).transaction_states[0].error_code)


@observes("transaction.max.timeout.ms")
def test_longer_timeout_of_a_transaction_is_refused() -> None:
    for most_ms, code in (("100000", 0), ("50000", ErrorCode.INVALID_TRANSACTION_TIMEOUT)):
        with node_with({**ONE, "transaction.max.timeout.ms": most_ms}) as (_, wire):
            coordinator(wire, "x", transactions=True)
            assert init_producer(wire, "x", 60_000).error_code == code


@observes("transactional.id.expiration.ms")
@observes("transaction.remove.expired.transaction.cleanup.interval.ms")
def test_idle_transactional_id_is_forgotten_at_the_interval() -> None:
    expiration, interval = (
        "transactional.id.expiration.ms",
        "transaction.remove.expired.transaction.cleanup.interval.ms",
    )
    for config, is_forgotten in (
        ({expiration: "50", interval: "20"}, True),
        ({expiration: "50", interval: "60000"}, False),
        ({expiration: "60000", interval: "20"}, False),
    ):
        with node_with({**ONE, **config}) as (_, wire):
            coordinator(wire, "x", transactions=True)
            assert init_producer(wire, "x").error_code == 0
            forgotten = happens(
                lambda wire=wire: state(wire) is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
                expected=is_forgotten,
            )
            assert forgotten is is_forgotten


@observes("transaction.abort.timed.out.transaction.cleanup.interval.ms")
def test_abort_that_could_not_be_written_is_repeated_after_the_interval() -> None:
    """Observed with a virtual clock."""
    for interval_ms, is_aborted in ((5_000, True), (30_000, False)):
        config = NodeConfig.load(
            None,
            {"transaction.abort.timed.out.transaction.cleanup.interval.ms": str(interval_ms)},
        )
        sent: list[Any] = []
        made = transaction_harness.Coordinator(
            settings=transaction_settings(config),
            send=lambda markers, _epoch, sent=sent: sent.append(markers),
        )
        made.init("x", "init", timeout_ms=1_000)
        (answer,) = [reply for token, reply in made.replies if token == "init"]
        made.add("x", (answer.producer_id, answer.producer_epoch), [("t", 0)], "add")
        made.refuse_next = ErrorCode.NOT_ENOUGH_REPLICAS
        made.advance(10_000)
        assert bool(sent) is is_aborted


@observes("transaction.partition.verification.enable", dynamic=True)
@pytest.mark.parametrize("way", ["static", "dynamic"])
def test_write_to_a_partition_outside_of_the_transaction_is_refused(way: str) -> None:
    name = "transaction.partition.verification.enable"
    for enabled, code in (("true", ErrorCode.INVALID_TXN_STATE), ("false", 0)):
        with node_with({**ONE, **({name: enabled} if way == "static" else {})}) as (_, wire):
            if way == "dynamic":
                assert alter(wire, name, enabled, resource=(4, "")) == 0
            create(wire)
            coordinator(wire, "x", transactions=True)
            answer = init_producer(wire, "x")
            records = batch(b"v", producer=(answer.producer_id, 0, 0), transactional=True)
            assert produce(wire, records, transactional_id="x") == code


@observes("add.partitions.to.txn.retry.backoff.ms", "add.partitions.to.txn.retry.backoff.max.ms")
@pytest.mark.parametrize(("backoff", "most", "times"), [("10", "100", 11), ("60", "100", 2)])
def test_first_write_of_a_transaction_is_repeated_with_backoff(
    backoff: str, most: str, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Observed by the questions to a coordinator that is busy with the transaction before."""
    attempts: list[float] = []

    async def busy(*_: object) -> None:
        attempts.append(time.monotonic())
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)

    config = {
        **ONE,
        "add.partitions.to.txn.retry.backoff.ms": backoff,
        "add.partitions.to.txn.retry.backoff.max.ms": most,
    }
    with node_with(config) as (node, wire):
        create(wire)
        coordinator(wire, "x", transactions=True)
        answer = init_producer(wire, "x")
        assert node.server is not None
        monkeypatch.setattr(node.server.transactions, "add_partitions", busy)
        records = batch(b"v", producer=(answer.producer_id, 0, 0), transactional=True)
        for _ in range(100):  # a busy machine may leave time for fewer attempts
            attempts.clear()
            code = produce(wire, records, transactional_id="x", version=12)
            assert code == ErrorCode.CONCURRENT_TRANSACTIONS
            assert len(attempts) <= times
            assert all(b - a >= int(backoff) / 1000 * 0.9 for a, b in pairwise(attempts))
            if len(attempts) >= times / 3:
                return
    raise AssertionError(f"{len(attempts)} attempts")


@observes("request.timeout.ms")
def test_transaction_state_that_is_not_replicated_in_time_is_an_error() -> None:
    with node_with({**ONE, "request.timeout.ms": "100"}) as (node, wire):
        coordinator(wire, "x", transactions=True)
        assert init_producer(wire, "x").error_code == 0
        add_silent_follower(node, "__transaction_state")
        began = time.monotonic()
        request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
        answer = wire.ask(request, 4)
        took = time.monotonic() - began
    assert answer.error_code != 0
    assert 0.08 < took < 28  # the default is 30 s


@observes(
    "transaction.state.log.num.partitions",
    "transaction.state.log.segment.bytes",
    "transaction.state.log.min.isr",
)
def test_transaction_topic_has_the_given_partitions_and_properties() -> None:
    config = {
        "transaction.state.log.num.partitions": "3",
        "transaction.state.log.segment.bytes": "2000000",
        "transaction.state.log.min.isr": "2",
    }
    with node_with(config) as (_, wire):
        assert coordinator(wire, "x", transactions=True) == 0
        partitions, own = internal_topic(wire, "__transaction_state")
        assert (partitions, own["segment.bytes"]) == (3, "2000000")
        assert own["min.insync.replicas"] == "2"


@observes("transaction.state.log.replication.factor")
def test_transaction_topic_is_not_created_with_fewer_brokers_than_replicas() -> None:
    with node_with({"transaction.state.log.replication.factor": "2"}) as (_, wire):
        code = coordinator(wire, "x", transactions=True, seconds=1)
        assert code == ErrorCode.COORDINATOR_NOT_AVAILABLE


@observes(
    "share.coordinator.state.topic.num.partitions",
    "share.coordinator.state.topic.segment.bytes",
    "share.coordinator.state.topic.replication.factor",
)
def test_share_state_topic_has_the_given_partitions_and_segments() -> None:
    config = {
        "share.coordinator.state.topic.num.partitions": "3",
        "share.coordinator.state.topic.segment.bytes": "2000000",
    }
    with node_with(config) as (_, wire):
        assert eventually(lambda: internal_topic(wire, "__share_group_state")[0] == 3)
        assert internal_topic(wire, "__share_group_state")[1]["segment.bytes"] == "2000000"
    config["share.coordinator.state.topic.replication.factor"] = "2"
    with node_with(config) as (_, wire):
        assert not happens(lambda: internal_topic(wire, "__share_group_state")[0], expected=False)
